package ringmq.soak;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** One application: it sends, it consumes, and it knows what has to arrive. It lives through every end of the broker. */
abstract class Actor {
    static final int QUEUES = 4;
    private static final int SEND_TIMEOUT_MS = 3000;

    final String name;
    final String topic;
    final String group;
    final List<Ledger> ledgers = new ArrayList<>();
    private final String namesrv;
    private final List<Runnable> closing = Collections.synchronizedList(new ArrayList<>());

    Actor(String name, String namesrv, String run) {
        this.name = name;
        this.namesrv = namesrv;
        this.topic = "soak-" + name + "-" + run;
        this.group = "soak-" + name + "-group-" + run;
    }

    /** Starts consumers and producers; called while the broker is there. */
    abstract void start() throws Exception;

    /** Sends the message of this number, or what belongs together. The broker may be away. */
    abstract void send(int number) throws Exception;

    /** Messages a second. */
    int rate() {
        return 20;
    }

    /** What was sent can no longer arrive otherwise than it did: the last look of an actor that has more to check. */
    void finish() throws Exception {
    }

    final Ledger ledger(String of) {
        Ledger ledger = new Ledger(of);
        ledgers.add(ledger);
        return ledger;
    }

    final void close() {
        closing.forEach(Runnable::run);
    }

    final <P extends DefaultMQProducer> P started(P producer) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(producer.getProducerGroup());
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.start();
        closing.add(producer::shutdown);
        return producer;
    }

    /** A producer of the actor's own, and its topic. */
    final DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = started(new DefaultMQProducer(group + "-producer"));
        createTopic(producer);
        return producer;
    }

    final void createTopic(DefaultMQProducer producer) throws MQClientException {
        producer.createTopic("TBW102", topic, QUEUES, Map.of());
    }

    /** A consumer, not yet subscribed or started. */
    final DefaultMQPushConsumer consumer(String ofGroup, String instance) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(ofGroup);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        closing.add(consumer::shutdown);
        return consumer;
    }

    /** Gives each message to {@code take}, after which it counts as consumed; and starts. */
    static void listen(DefaultMQPushConsumer consumer, Consumer<MessageExt> take) throws MQClientException {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    final Message message(String tag, String id) {
        return new Message(topic, tag, id, id.getBytes(StandardCharsets.UTF_8));
    }

    static String id(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static boolean isStored(SendResult result) {
        return result != null && result.getSendStatus() == SendStatus.SEND_OK;
    }
}
