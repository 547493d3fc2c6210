package ringmq.soak;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** A group that consumes by POP: two members, the broker hands out and takes back. */
final class Pops extends Actor {
    private static final int SHARED_QUEUES = 8;
    private static final long TIMEOUT_MS = 5000;

    private final Ledger ledger = ledger("pop");
    private final String broker;
    private DefaultMQProducer producer;

    Pops(String namesrv, String broker, String run) {
        super("pops", namesrv, run);
        this.broker = broker;
    }

    @Override
    void start() throws Exception {
        producer = producer();
        MQClientAPIImpl admin = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        admin.createSubscriptionGroup(broker, config, TIMEOUT_MS);
        admin.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, SHARED_QUEUES, TIMEOUT_MS);
        for (int member = 0; member < 2; member++) {
            DefaultMQPushConsumer consumer = consumer(group, group + "-" + member);
            consumer.setClientRebalance(false);
            consumer.setPopInvisibleTime(10_000);
            consumer.subscribe(topic, "*");
            listen(consumer, message -> ledger.arrived(id(message)));
        }
    }

    @Override
    void send(int number) throws Exception {
        String id = "b" + number;
        ledger.sending(id);
        if (isStored(producer.send(message("", id)))) {
            ledger.acknowledged(id);
        }
    }
}
