package ringmq.soak;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;

/** Requests and their replies: each reply belongs to its request, and once the broker stays all are answered. */
final class Requests extends Actor {
    private static final int LAST_REQUESTS = 10;
    private static final long WAIT_MS = 10_000;

    private final Ledger ledger = ledger("requests");
    private DefaultMQProducer producer;

    Requests(String namesrv, String run) {
        super("requests", namesrv, run);
    }

    @Override
    int rate() {
        return 5;
    }

    @Override
    void start() throws Exception {
        producer = producer();
        DefaultMQProducer replier = started(new DefaultMQProducer(group + "-replier"));
        DefaultMQPushConsumer consumer = consumer(group, group);
        consumer.subscribe(topic, "*");
        listen(consumer, message -> {
            try {
                byte[] answer = ("re:" + id(message)).getBytes(StandardCharsets.UTF_8);
                replier.send(MessageUtil.createReplyMessage(message, answer));
            } catch (Exception away) {
                // Who asked waits no longer than his timeout.
            }
        });
    }

    @Override
    void send(int number) throws Exception {
        ask("q" + number);
    }

    private boolean ask(String id) throws Exception {
        ledger.sending(id);
        Message reply;
        try {
            reply = producer.request(message("", id), WAIT_MS);
        } catch (RequestTimeoutException late) {
            return false;
        }
        String answer = new String(reply.getBody(), StandardCharsets.UTF_8);
        if (!answer.equals("re:" + id)) {
            ledger.fault(id + " was answered by " + answer);
        }
        ledger.acknowledged(id);
        ledger.arrived(id);
        return true;
    }

    @Override
    void finish() throws Exception {
        for (int last = 0; last < LAST_REQUESTS; last++) {
            if (!ask("last" + last)) {
                ledger.fault("request last" + last + " had no reply although the broker was there");
            }
        }
    }
}
