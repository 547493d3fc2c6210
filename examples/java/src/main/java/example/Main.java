package example;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends ten messages with the official RocketMQ client, receives them, and ends. */
public final class Main {
    private static final String TOPIC = "example";
    private static final int MESSAGES = 10;

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments.length > 0 ? arguments[0] : "127.0.0.1:9876";
        DefaultMQProducer producer = new DefaultMQProducer("example-producer");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("example-consumer");
        long missing;
        try {
            send(producer, namesrv);
            missing = receive(consumer, namesrv);
        } finally {
            // Their threads would keep a failed program running.
            consumer.shutdown();
            producer.shutdown();
        }
        System.out.println(missing == 0 ? "all " + MESSAGES + " received" : missing + " are missing");
        System.exit(missing == 0 ? 0 : 1);
    }

    private static void send(DefaultMQProducer producer, String namesrv) throws Exception {
        producer.setNamesrvAddr(namesrv);
        // The first send loads half of the client's classes, which takes long on a busy machine.
        producer.setSendMsgTimeout(30_000);
        producer.start();

        // The topic comes into being with the first message.
        for (int number = 0; number < MESSAGES; number++) {
            Message message = new Message(TOPIC, "greeting", "key-" + number, ("hello " + number).getBytes(UTF_8));
            SendResult result = producer.send(message);
            System.out.printf("sent     %s to queue %d at offset %d%n",
                "hello " + number, result.getMessageQueue().getQueueId(), result.getQueueOffset());
        }
    }

    /** How many did not come within a minute. */
    private static long receive(DefaultMQPushConsumer consumer, String namesrv) throws Exception {
        CountDownLatch received = new CountDownLatch(MESSAGES);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "greeting");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.printf("received %s from queue %d at offset %d%n",
                    new String(message.getBody(), UTF_8), message.getQueueId(), message.getQueueOffset());
                received.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        received.await(60, TimeUnit.SECONDS);
        return received.getCount();
    }
}
