package ringmq.soak;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Messages of a key in order: a number may come again, none may be left out on the way forward. */
final class Ordered extends Actor {
    private static final int KEYS = 8;

    private final Ledger ledger = ledger("ordered");
    private final Map<Integer, Integer> last = new ConcurrentHashMap<>();
    private DefaultMQProducer producer;

    Ordered(String namesrv, String run) {
        super("ordered", namesrv, run);
    }

    @Override
    void start() throws Exception {
        producer = producer();
        DefaultMQPushConsumer consumer = consumer(group, group);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(message -> arrived(id(message)));
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
    }

    private void arrived(String id) {
        ledger.arrived(id);
        int number = Integer.parseInt(id.substring(1));
        int key = number % KEYS;
        int turn = number / KEYS;
        last.compute(key, (same, before) -> {
            int reached = before == null ? -1 : before;
            if (turn > reached + 1) {
                ledger.fault(id + " of key " + key + " came after number " + reached + " of that key");
            }
            return Math.max(reached, turn);
        });
    }

    /** The next of a key is sent only when this one is stored. */
    @Override
    void send(int number) throws Exception {
        String id = "o" + number;
        ledger.sending(id);
        while (true) {
            try {
                if (isStored(producer.send(message("", id), (queues, message, key) -> queues.get((int) key % queues.size()),
                        number % KEYS))) {
                    ledger.acknowledged(id);
                    return;
                }
            } catch (InterruptedException stopped) {
                throw stopped;
            } catch (Exception away) {
                Thread.sleep(200);
            }
        }
    }
}
