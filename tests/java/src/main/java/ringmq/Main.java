package ringmq;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * The official Java client against a running broker.
 *
 * <p>Arguments: nameserver, run (a name that makes topics and groups unique), phase. The phase {@code before} runs all
 * cases; {@code after} runs, once the broker has been restarted, the ones that look at what the first left behind.
 */
public final class Main {
    private static final int WAIT_SECONDS = 60;
    private static final int QUEUES = 4;

    private final String namesrv;
    private final String run;
    private int passed;
    private int failed;

    private Main(String namesrv, String run) {
        this.namesrv = namesrv;
        this.run = run;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("usage: Main NAMESRV RUN before|after");
            System.exit(2);
        }
        Main main = new Main(arguments[0], arguments[1]);
        if (arguments[2].equals("before")) {
            main.run("java-1000-messages-by-tag", main::thousandMessagesByTag);
            main.run("java-broadcast", main::broadcast);
            main.run("java-ordered", main::ordered);
            main.run("java-before-restart", main::beforeRestart);
        } else {
            main.run("java-after-restart", main::afterRestart);
        }
        System.out.println(main.passed + " passed, " + main.failed + " failed");
        System.exit(main.failed == 0 ? 0 : 1);
    }

    private interface Case {
        void run() throws Exception;
    }

    private void run(String name, Case body) {
        long begun = System.nanoTime();
        try {
            body.run();
            passed++;
            System.out.println("PASS " + name + " (" + (System.nanoTime() - begun) / 1_000_000 + " ms)");
        } catch (Exception | AssertionError fault) {
            failed++;
            System.out.println("FAIL " + name + ": " + fault);
        }
    }

    /** 1,000 messages over four queues in all four ways of sending; a consumer of two of three tags gets exactly its own. */
    private void thousandMessagesByTag() throws Exception {
        String topic = "tags-" + run;
        DefaultMQProducer producer = producer(topic);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = consumer("tags-group-" + run, topic, "A || C", MessageModel.CLUSTERING, inbox);
        try {
            sendThousand(producer, topic);
            List<String> wanted = IntStream.range(0, 1000).filter(n -> n % 3 != 1).mapToObj(n -> "m" + n)
                .collect(Collectors.toList());
            inbox.awaitExactly(wanted);
            check(inbox.queues().equals(new TreeSet<>(List.of(0, 1, 2, 3))), "queues " + inbox.queues());
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    private void sendThousand(DefaultMQProducer producer, String topic) throws Exception {
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        check(queues.size() == QUEUES, "queues " + queues);
        for (int n = 0; n < 250; n++) {
            SendResult result = producer.send(message(topic, n), queues.get(n % QUEUES));
            check(result.getSendStatus() == SendStatus.SEND_OK, "send " + n + ": " + result);
        }
        CountDownLatch answered = new CountDownLatch(250);
        AtomicInteger refused = new AtomicInteger();
        for (int n = 250; n < 500; n++) {
            producer.send(message(topic, n), queues.get(n % QUEUES), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    answered.countDown();
                }

                @Override
                public void onException(Throwable fault) {
                    refused.incrementAndGet();
                    answered.countDown();
                }
            });
        }
        check(answered.await(WAIT_SECONDS, TimeUnit.SECONDS) && refused.get() == 0, "asynchronous sends refused " + refused);
        for (int n = 500; n < 750; n++) {
            producer.sendOneway(message(topic, n), queues.get(n % QUEUES));
        }
        for (int n = 750; n < 1000; n += 50) {
            List<Message> batch = IntStream.range(n, n + 50).mapToObj(m -> message(topic, m)).collect(Collectors.toList());
            SendResult result = producer.send(batch, queues.get(n / 50 % QUEUES));
            check(result.getSendStatus() == SendStatus.SEND_OK, "batch " + n + ": " + result);
        }
    }

    /** Two members of a broadcasting group: each gets everything. */
    private void broadcast() throws Exception {
        String topic = "broadcast-" + run;
        DefaultMQProducer producer = producer(topic);
        List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        try {
            for (Inbox inbox : inboxes) {
                consumers.add(consumer("broadcast-group-" + run, topic, "*", MessageModel.BROADCASTING, inbox));
            }
            for (int n = 0; n < 200; n++) {
                producer.send(message(topic, n));
            }
            for (Inbox inbox : inboxes) {
                inbox.awaitExactly(names(0, 200));
            }
        } finally {
            consumers.forEach(DefaultMQPushConsumer::shutdown);
            producer.shutdown();
        }
    }

    /** Two orderly members share four queues: each queue comes in its order, everything once. */
    private void ordered() throws Exception {
        String topic = "ordered-" + run;
        DefaultMQProducer producer = producer(topic);
        Inbox inbox = new Inbox();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        try {
            for (int member = 0; member < 2; member++) {
                DefaultMQPushConsumer consumer = unstarted("ordered-group-" + run, topic, "*", MessageModel.CLUSTERING);
                consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                    messages.forEach(inbox::take);
                    return ConsumeOrderlyStatus.SUCCESS;
                });
                consumer.start();
                consumers.add(consumer);
            }
            for (int n = 0; n < 400; n++) {
                producer.send(message(topic, n), (queues, message, key) -> queues.get((Integer) key % queues.size()), n);
            }
            inbox.awaitExactly(names(0, 400));
            inbox.byQueue.forEach((queue, offsets) -> {
                for (int index = 0; index < offsets.size(); index++) {
                    check(offsets.get(index) == index, "queue " + queue + " came in the order " + offsets);
                }
            });
        } finally {
            consumers.forEach(DefaultMQPushConsumer::shutdown);
            producer.shutdown();
        }
    }

    private void beforeRestart() throws Exception {
        String topic = "restart-" + run;
        DefaultMQProducer producer = producer(topic);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = consumer("restart-group-" + run, topic, "*", MessageModel.CLUSTERING, inbox);
        for (int n = 0; n < 100; n++) {
            producer.send(message(topic, n));
        }
        inbox.awaitExactly(names(0, 100));
        // Its shutdown commits what was consumed.
        consumer.shutdown();
        producer.shutdown();
    }

    /** The same group after a restart of the broker: only what is new. */
    private void afterRestart() throws Exception {
        String topic = "restart-" + run;
        DefaultMQProducer producer = producer(topic);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = consumer("restart-group-" + run, topic, "*", MessageModel.CLUSTERING, inbox);
        try {
            for (int n = 100; n < 150; n++) {
                producer.send(message(topic, n));
            }
            inbox.awaitExactly(names(100, 150));
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    /** A started producer; its topic has four queues. */
    private DefaultMQProducer producer(String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producer-" + topic);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(topic + System.nanoTime());
        producer.start();
        producer.createTopic("TBW102", topic, QUEUES, Map.of());
        return producer;
    }

    private DefaultMQPushConsumer consumer(String group, String topic, String tags, MessageModel model, Inbox inbox)
        throws Exception {
        DefaultMQPushConsumer consumer = unstarted(group, topic, tags, model);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(inbox::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private DefaultMQPushConsumer unstarted(String group, String topic, String tags, MessageModel model) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + System.nanoTime());
        consumer.setMessageModel(model);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    private static Message message(String topic, int n) {
        return new Message(topic, String.valueOf("ABC".charAt(n % 3)), "key" + n, ("m" + n).getBytes());
    }

    private static List<String> names(int start, int limit) {
        return IntStream.range(start, limit).mapToObj(n -> "m" + n).collect(Collectors.toList());
    }

    private static void check(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(otherwise);
        }
    }

    /** What a listener was given. */
    private static final class Inbox {
        private final Map<String, AtomicInteger> counts = new ConcurrentHashMap<>();
        private final Map<Integer, List<Long>> byQueue = new ConcurrentHashMap<>();

        synchronized void take(MessageExt message) {
            counts.computeIfAbsent(new String(message.getBody()), body -> new AtomicInteger()).incrementAndGet();
            byQueue.computeIfAbsent(message.getQueueId(), queue -> new ArrayList<>()).add(message.getQueueOffset());
            notifyAll();
        }

        TreeSet<Integer> queues() {
            return new TreeSet<>(byQueue.keySet());
        }

        /** Waits for all of these, and fails on one that is missing, twice there, or not wanted. */
        synchronized void awaitExactly(List<String> wanted) throws InterruptedException {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
            while (!counts.keySet().containsAll(wanted) && System.nanoTime() < deadline) {
                wait(100);
            }
            List<String> missing = wanted.stream().filter(name -> !counts.containsKey(name)).collect(Collectors.toList());
            check(missing.isEmpty(), missing.size() + " of " + wanted.size() + " missing, the first " + missing.stream().limit(5)
                .collect(Collectors.toList()));
            // What must not come would have come by now or comes in this second.
            wait(1000);
            Map<String, Integer> wrong = new TreeMap<>();
            counts.forEach((name, count) -> {
                if (count.get() != 1 || !wanted.contains(name)) {
                    wrong.put(name, count.get());
                }
            });
            check(wrong.isEmpty(), "twice or not wanted: " + wrong);
        }
    }
}
