import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.parser.SelectorParser;
import org.apache.rocketmq.filter.parser.SelectorParserConstants;

/**
 * What Apache RocketMQ's own filter says of expressions: the oracle for RingMQ's.
 *
 * <p>A line in is {@code expression TAB properties}, a line out is one of REFUSED, TRUE, FALSE, NULL, ERROR (no value:
 * an exception, which the broker takes for a message that is not wanted), or REST: Apache's parser stops where an
 * expression may end, ignores all that is behind it, and so takes {@code a = 1 garbage} for {@code a = 1}. Backslash escapes: {@code \t \n \r \\} and
 * {@code \xHH} for other control letters. The properties are the wire's text.
 */
final class Sql92 {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        // The filter logs each refused expression to standard output by some set-ups: only verdicts go there.
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            out.println(verdict(unescape(parts[0]), unescape(parts[1])));
        }
        out.flush();
    }

    private static String verdict(String text, String properties) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
            if (hasRest(text)) {
                return "REST";
            }
        } catch (Throwable refused) {
            return "REFUSED";
        }
        Map<String, String> map = MessageDecoder.string2messageProperties(properties);
        try {
            Object value = expression.evaluate(new MessageEvaluationContext(map));
            return value == null ? "NULL" : value instanceof Boolean ? value.toString().toUpperCase() : "OTHER";
        } catch (Throwable error) {
            return "ERROR";
        }
    }

    private static boolean hasRest(String text) throws ReflectiveOperationException {
        Constructor<SelectorParser> constructor = SelectorParser.class.getDeclaredConstructor(String.class);
        Method parse = SelectorParser.class.getDeclaredMethod("parse");
        constructor.setAccessible(true);
        parse.setAccessible(true);
        SelectorParser parser = constructor.newInstance(text);
        parse.invoke(parser);
        try {
            return parser.getNextToken().kind != SelectorParserConstants.EOF;
        } catch (Error noWord) {
            return true;
        }
    }

    private static String unescape(String text) {
        StringBuilder plain = new StringBuilder();
        for (int index = 0; index < text.length(); index++) {
            char letter = text.charAt(index);
            if (letter != '\\') {
                plain.append(letter);
                continue;
            }
            index++;
            switch (text.charAt(index)) {
                case 't': plain.append('\t'); break;
                case 'n': plain.append('\n'); break;
                case 'r': plain.append('\r'); break;
                case 'x':
                    plain.append((char) Integer.parseInt(text.substring(index + 1, index + 3), 16));
                    index += 2;
                    break;
                default: plain.append(text.charAt(index));
            }
        }
        return plain.toString();
    }
}
