package ringmq.soak;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Delayed messages, by level and by time: none is early. */
final class Delayed extends Actor {
    private static final long[] LEVELS_MS = {0, 1_000, 5_000, 10_000, 30_000};

    private final Ledger ledger = ledger("delayed");
    private final Map<String, Long> dueMs = new ConcurrentHashMap<>();
    /** The due times again, counted from the acknowledgement: what the broker cannot have been in front of. */
    private final Map<String, Long> lastDueMs = new ConcurrentHashMap<>();
    private final AtomicLong arrivedLatestMs = new AtomicLong();
    private final AtomicLong deliveredLatestMs = new AtomicLong();
    private DefaultMQProducer producer;

    Delayed(String namesrv, String run) {
        super("delayed", namesrv, run);
    }

    @Override
    void start() throws Exception {
        producer = producer();
        DefaultMQPushConsumer consumer = consumer(group, group);
        consumer.subscribe(topic, "*");
        listen(consumer, message -> {
            long now = System.currentTimeMillis();
            String id = id(message);
            int times = ledger.arrived(id);
            long lateMs = now - dueMs.getOrDefault(id, Long.MAX_VALUE);
            if (lateMs < 0) {
                ledger.fault(id + " came " + -lateMs + " ms early");
            } else if (times == 1) {
                arrivedLatestMs.accumulateAndGet(lateMs, Math::max);
                // When the broker put it into its queue: what clients lose by finding the broker again is not in it.
                long deliveredMs = message.getStoreTimestamp() - lastDueMs.getOrDefault(id, Long.MAX_VALUE);
                deliveredLatestMs.accumulateAndGet(deliveredMs, Math::max);
            }
        });
    }

    @Override
    void send(int number) throws Exception {
        String id = "d" + number;
        Message message = message("", id);
        long now = System.currentTimeMillis();
        long delayMs;
        if (number % 2 == 0) {
            int level = 1 + number / 2 % (LEVELS_MS.length - 1);
            message.setDelayTimeLevel(level);
            delayMs = LEVELS_MS[level];
        } else {
            delayMs = 500 + number * 37L % 30_000;
            if (number % 4 == 1) {
                message.setDelayTimeMs(delayMs);
            } else {
                message.setDeliverTimeMs(now + delayMs);
            }
        }
        dueMs.put(id, now + delayMs);
        ledger.sending(id);
        if (isStored(producer.send(message))) {
            lastDueMs.put(id, message.getDeliverTimeMs() > 0 ? now + delayMs : System.currentTimeMillis() + delayMs);
            ledger.acknowledged(id);
        }
    }

    @Override
    void finish() {
        System.out.println("delayed: delivered at most " + deliveredLatestMs.get() + " ms late, arrived at most "
                + arrivedLatestMs.get() + " ms late, the broker's absence included");
    }
}
