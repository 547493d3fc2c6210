package ringmq.soak;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions that end at once or when they are asked for: what is committed arrives, what is rolled back never does. */
final class Transactions extends Actor {
    private final Ledger ledger = ledger("transactions");
    private TransactionMQProducer producer;

    Transactions(String namesrv, String run) {
        super("transactions", namesrv, run);
    }

    private static boolean isCommitted(int number) {
        return number % 2 == 0;
    }

    private static LocalTransactionState verdict(byte[] body) {
        int number = Integer.parseInt(new String(body).substring(1));
        return isCommitted(number) ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
    }

    @Override
    void start() throws Exception {
        producer = new TransactionMQProducer(group + "-producer");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object number) {
                return (int) number % 4 < 2 ? verdict(message.getBody()) : LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return verdict(message.getBody());
            }
        });
        createTopic(started(producer));
        DefaultMQPushConsumer consumer = consumer(group, group);
        consumer.subscribe(topic, "*");
        listen(consumer, message -> {
            ledger.arrived(id(message));
            if (verdict(message.getBody()) != LocalTransactionState.COMMIT_MESSAGE) {
                ledger.fault(id(message) + " arrived, which is rolled back");
            }
        });
    }

    @Override
    void send(int number) throws Exception {
        String id = "t" + number;
        ledger.sending(id);
        if (isStored(producer.sendMessageInTransaction(message("", id), number)) && isCommitted(number)) {
            ledger.acknowledged(id);
        }
    }
}
