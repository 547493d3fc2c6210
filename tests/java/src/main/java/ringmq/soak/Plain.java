package ringmq.soak;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Plain messages: two members of a clustering group share them, and two of a broadcasting group each get all. */
final class Plain extends Actor {
    private final Ledger shared = ledger("clustering");
    private final Ledger[] each = {ledger("broadcast 0"), ledger("broadcast 1")};
    private DefaultMQProducer producer;

    Plain(String namesrv, String run) {
        super("plain", namesrv, run);
    }

    @Override
    int rate() {
        return 100;
    }

    @Override
    void start() throws Exception {
        producer = producer();
        for (int member = 0; member < 2; member++) {
            consume(group, MessageModel.CLUSTERING, member, shared);
            consume(group + "-broadcast", MessageModel.BROADCASTING, member, each[member]);
        }
    }

    private void consume(String ofGroup, MessageModel model, int member, Ledger ledger) throws Exception {
        DefaultMQPushConsumer consumer = consumer(ofGroup, ofGroup + "-" + member);
        consumer.setMessageModel(model);
        consumer.subscribe(topic, "*");
        listen(consumer, message -> ledger.arrived(id(message)));
    }

    @Override
    void send(int number) throws Exception {
        String id = "p" + number;
        ledgers.forEach(ledger -> ledger.sending(id));
        if (isStored(producer.send(message("", id)))) {
            ledgers.forEach(ledger -> ledger.acknowledged(id));
        }
    }
}
