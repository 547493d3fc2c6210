package ringmq;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.CommandUtil;

/**
 * What the OpenMessaging Benchmark's driver for RocketMQ does, since the driver itself is in no registry: topics made by the
 * admin client on all masters of a cluster, sends with a callback (with back-pressure, and put into batches by the
 * client), and push consumers of several groups that each get everything.
 */
public final class OpenMessaging {
    private static final int MESSAGES = 2_000;
    private static final int GROUPS = 2;
    private static final int CONSUMERS = 2;
    private static final String CLUSTER = "DefaultCluster";

    private OpenMessaging() {}

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        int failed = 0;
        for (boolean autoBatch : new boolean[] {false, true}) {
            String outcome = run(namesrv, "omb-" + System.currentTimeMillis() + "-" + autoBatch, autoBatch);
            System.out.println("autoBatch=" + autoBatch + ": " + outcome);
            failed += outcome.startsWith("ok") ? 0 : 1;
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    private static String run(String namesrv, String topic, boolean autoBatch) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.setInstanceName(topic + "-admin");
        admin.start();
        TopicConfig config = new TopicConfig(topic, 4, 4);
        for (String master : masters(admin)) {
            admin.createAndUpdateTopicConfig(master, config);
        }

        Set<String> wanted = ConcurrentHashMap.newKeySet();
        List<Set<String>> arrived = new ArrayList<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int group = 0; group < GROUPS; group++) {
            Set<String> ids = ConcurrentHashMap.newKeySet();
            arrived.add(ids);
            for (int index = 0; index < CONSUMERS; index++) {
                DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic + "-group-" + group);
                consumer.setNamesrvAddr(namesrv);
                consumer.setInstanceName(topic + "-" + group + "-" + index);
                consumer.subscribe(topic, "*");
                consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                    for (MessageExt message : messages) {
                        ids.add(new String(message.getBody(), StandardCharsets.UTF_8));
                    }
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
                consumer.start();
                consumers.add(consumer);
            }
        }

        DefaultMQProducer producer = new DefaultMQProducer(topic + "-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(topic + "-producer");
        producer.setAutoBatch(autoBatch);
        producer.setEnableBackpressureForAsyncMode(true);
        producer.setBackPressureForAsyncSendNum(1024);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        CountDownLatch answered = new CountDownLatch(MESSAGES);
        AtomicInteger refused = new AtomicInteger();
        String[] first = {""};
        for (int index = 0; index < MESSAGES; index++) {
            String body = "message " + index;
            Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
            message.setKeys("key-" + index % 16);
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    wanted.add(body);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    if (refused.getAndIncrement() == 0) {
                        first[0] = error.toString();
                    }
                    answered.countDown();
                }
            });
        }
        boolean allAnswered = answered.await(60, TimeUnit.SECONDS);
        long until = System.currentTimeMillis() + 60_000;
        while (!arrived.stream().allMatch(ids -> ids.containsAll(wanted)) && System.currentTimeMillis() < until) {
            Thread.sleep(50);
        }
        producer.shutdown();
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        admin.shutdown();
        List<Integer> counts = new ArrayList<>();
        arrived.forEach(ids -> counts.add(ids.size()));
        boolean whole = wanted.size() == MESSAGES && counts.equals(Collections.nCopies(GROUPS, MESSAGES));
        String figures = wanted.size() + " sent, " + refused + " refused " + first[0] + ", arrived " + counts;
        return (allAnswered && whole ? "ok, " : "wrong, ") + figures;
    }

    private static Set<String> masters(DefaultMQAdminExt admin) throws Exception {
        return CommandUtil.fetchMasterAddrByClusterName(admin, CLUSTER);
    }
}
