package ringmq.soak;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Messages that fail: some once, these succeed; some always, these become dead letters, and no others do. */
final class Retries extends Actor {
    private static final int TRIES_AGAIN = 2;

    private final Ledger done = ledger("retries");
    private final Ledger dead = ledger("dead letters");
    private final Map<String, Integer> tries = new ConcurrentHashMap<>();
    private DefaultMQProducer producer;

    Retries(String namesrv, String run) {
        super("retries", namesrv, run);
    }

    private static boolean isPoison(String id) {
        return Integer.parseInt(id.substring(1)) % 5 == 0;
    }

    private static boolean failsOnce(String id) {
        return Integer.parseInt(id.substring(1)) % 5 == 1;
    }

    @Override
    void start() throws Exception {
        producer = producer();
        DefaultMQPushConsumer consumer = consumer(group, group);
        consumer.setMaxReconsumeTimes(TRIES_AGAIN);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            // One message at a time is the client's default.
            String id = id(messages.get(0));
            int before = tries.merge(id, 1, Integer::sum) - 1;
            if (isPoison(id) || failsOnce(id) && before == 0) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            done.arrived(id);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQPushConsumer undertaker = consumer(group + "-dead", group + "-dead");
        undertaker.subscribe("%DLQ%" + group, "*");
        listen(undertaker, message -> {
            dead.arrived(id(message));
            if (!isPoison(id(message))) {
                dead.fault(id(message) + " is dead and could be consumed");
            }
        });
    }

    @Override
    void send(int number) throws Exception {
        String id = "r" + number;
        done.sending(id);
        dead.sending(id);
        if (isStored(producer.send(message("", id)))) {
            (isPoison(id) ? dead : done).acknowledged(id);
        }
    }
}
