package ringmq.soak;

import java.util.function.IntPredicate;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Filters by tag and by SQL: each group gets what matches, and nothing else. */
final class Filtered extends Actor {
    private final Ledger tagged = ledger("by tag");
    private final Ledger selected = ledger("by SQL");
    private DefaultMQProducer producer;

    Filtered(String namesrv, String run) {
        super("filtered", namesrv, run);
    }

    private static boolean isTagged(int number) {
        return number % 3 != 0;
    }

    private static boolean isSelected(int number) {
        return number % 10 >= 7;
    }

    @Override
    void start() throws Exception {
        producer = producer();
        consume("tag", MessageSelector.byTag("T1 || T2"), tagged, Filtered::isTagged);
        consume("sql", MessageSelector.bySql("digit BETWEEN 7 AND 9"), selected, Filtered::isSelected);
    }

    private void consume(String way, MessageSelector selector, Ledger ledger, IntPredicate matches) throws Exception {
        DefaultMQPushConsumer consumer = consumer(group + "-" + way, group + "-" + way);
        consumer.subscribe(topic, selector);
        listen(consumer, message -> {
            ledger.arrived(id(message));
            if (!matches.test(Integer.parseInt(id(message).substring(1)))) {
                ledger.fault(id(message) + " arrived and does not match");
            }
        });
    }

    @Override
    void send(int number) throws Exception {
        String id = "f" + number;
        Message message = message("T" + number % 3, id);
        message.putUserProperty("digit", String.valueOf(number % 10));
        ledgers.forEach(ledger -> ledger.sending(id));
        if (isStored(producer.send(message))) {
            if (isTagged(number)) {
                tagged.acknowledged(id);
            }
            if (isSelected(number)) {
                selected.acknowledged(id);
            }
        }
    }
}
