//! Keys whose subject this broker solves in another way, so that they have no effect.

use super::key::Key;
use super::kind::{ANY, BYTES, COUNT, Kind, MS, PERCENT, SECONDS};
use super::settings::Settings;

const THREADS: &str = "there is one pinned thread a core; there are no thread pools and no queues before them";
const SOCKETS: &str = "connections are served by io_uring and size their own buffers";
const DERIVED: &str =
    "queue files, indexes and checkpoints are derived from the log, lie beside it and size themselves";
const DIRECT: &str = "the log is written with direct I/O: no mapping, buffer pool, warming or page cache";
const COMMIT: &str =
    "a write begins as soon as the one before it ends and answers all that wait; no pages or pauses to count";
const ENDS: &str = "the end of a transaction is written at once, together with its message";
const WAITING: &str = "a core parks up to 100000 waiting pops, whatever their queues";
const IN_FLIGHT: &str = "what is in flight lies in memory and in a journal of each log, and is revived when it is due";
const CLEANING: &str =
    "entries of queues and keys go with the segments that they were derived from, and nobody's reading hinders that";
const SHARED_DISK: &str = "each broker goes by how full its disk is as a whole";
const ALWAYS: &str = "it is always done here";
const READING: &str =
    "memory and disk have one limit: maxTransferCountOnMessageInMemory and maxTransferBytesOnMessageInMemory";
const NAMESERVERS: &str = "the broker registers as a whole at each nameserver of namesrvAddr";
const STATISTICS: &str = "statistics are kept by each core and cost next to nothing";
const DELAYS: &str =
    "delayed messages are delivered to the millisecond, and the log itself tells which of them were delivered";
const PROGRAM: &str = "the program is one file without a folder of its own, and -c names its configuration";

#[rustfmt::skip] // One row a line reads as the table it is.
pub(super) const KEYS: &[Key] = &[
    // Delayed and timed messages.
    Key::idle("flushDelayOffsetInterval", MS, "10000", DELAYS, "time between saves of the levels' progress"),
    Key::idle("enableScheduleAsyncDeliver", Kind::Flag, "false", DELAYS, "deliver without waiting for each other"),
    Key::idle("timerPrecisionMs", MS, "1000", DELAYS, "step of the wheel"),
    Key::idle("timerRollWindowSlot", COUNT, "172800", DELAYS, "steps after which a message is put in again"),
    Key::idle("timerCongestNumEachSlot", COUNT, "2147483647", DELAYS, "messages of one step"),

    // Threads and the queues before them.
    Key::idle("sendMessageThreadPoolNums", COUNT, "", THREADS, "threads that store").derived("min(processors, 4)", few_threads),
    Key::idle("putMessageFutureThreadPoolNums", COUNT, "", THREADS, "threads that answer sends").derived("min(processors, 4)", few_threads),
    Key::idle("pullMessageThreadPoolNums", COUNT, "", THREADS, "threads that pull").derived("16 + 2 * processors", many_threads),
    Key::idle("litePullMessageThreadPoolNums", COUNT, "", THREADS, "threads that pull for lite consumers").derived("16 + 2 * processors", many_threads),
    Key::idle("processReplyMessageThreadPoolNums", COUNT, "", THREADS, "threads that pass replies on").derived("16 + 2 * processors", many_threads),
    Key::idle("ackMessageThreadPoolNums", COUNT, "16", THREADS, "threads that acknowledge"),
    Key::idle("queryMessageThreadPoolNums", COUNT, "", THREADS, "threads that query").derived("8 + processors", query_threads),
    Key::idle("adminBrokerThreadPoolNums", COUNT, "16", THREADS, "threads of administration"),
    Key::idle("clientManageThreadPoolNums", COUNT, "32", THREADS, "threads that keep clients"),
    Key::idle("consumerManageThreadPoolNums", COUNT, "32", THREADS, "threads that keep consumers"),
    Key::idle("loadBalanceProcessorThreadPoolNums", COUNT, "32", THREADS, "threads that assign queues"),
    Key::idle("heartbeatThreadPoolNums", COUNT, "", THREADS, "threads that take heartbeats").derived("min(32, processors)", heartbeat_threads),
    Key::idle("endTransactionThreadPoolNums", COUNT, "", THREADS, "threads that end transactions")
        .derived("8 + 2 * processors, at least 4 * sendMessageThreadPoolNums", transaction_threads),
    Key::idle("recoverThreadPoolNums", COUNT, "32", THREADS, "threads that recover"),
    Key::idle("sendThreadPoolQueueCapacity", COUNT, "10000", THREADS, "sends that may wait"),
    Key::idle("putThreadPoolQueueCapacity", COUNT, "10000", THREADS, "answers that may wait"),
    Key::idle("replyThreadPoolQueueCapacity", COUNT, "10000", THREADS, "replies that may wait"),
    Key::idle("adminBrokerThreadPoolQueueCapacity", COUNT, "10000", THREADS, "administration calls that may wait"),
    Key::idle("queryThreadPoolQueueCapacity", COUNT, "20000", THREADS, "queries that may wait"),
    Key::idle("heartbeatThreadPoolQueueCapacity", COUNT, "50000", THREADS, "heartbeats that may wait"),
    Key::idle("pullThreadPoolQueueCapacity", COUNT, "100000", THREADS, "pulls that may wait"),
    Key::idle("litePullThreadPoolQueueCapacity", COUNT, "100000", THREADS, "lite pulls that may wait"),
    Key::idle("ackThreadPoolQueueCapacity", COUNT, "100000", THREADS, "acknowledgements that may wait"),
    Key::idle("loadBalanceThreadPoolQueueCapacity", COUNT, "100000", THREADS, "assignments that may wait"),
    Key::idle("endTransactionPoolQueueCapacity", COUNT, "100000", THREADS, "ends of transactions that may wait"),
    Key::idle("clientManagerThreadPoolQueueCapacity", COUNT, "1000000", THREADS, "client calls that may wait"),
    Key::idle("consumerManagerThreadPoolQueueCapacity", COUNT, "1000000", THREADS, "consumer calls that may wait"),
    Key::idle("brokerFastFailureEnable", Kind::Flag, "true", THREADS, "refuse what waited too long"),
    Key::idle("waitTimeMillsInSendQueue", MS, "200", THREADS, "how long a send may wait"),
    Key::idle("waitTimeMillsInPullQueue", MS, "5000", THREADS, "how long a pull may wait"),
    Key::idle("waitTimeMillsInLitePullQueue", MS, "5000", THREADS, "how long a lite pull may wait"),
    Key::idle("waitTimeMillsInAdminBrokerQueue", MS, "5000", THREADS, "how long an administration call may wait"),
    Key::idle("waitTimeMillsInHeartbeatQueue", MS, "31000", THREADS, "how long a heartbeat may wait"),
    Key::idle("waitTimeMillsInTransactionQueue", MS, "3000", THREADS, "how long the end of a transaction may wait"),
    Key::idle("waitTimeMillsInAckQueue", MS, "3000", THREADS, "how long an acknowledgement may wait"),
    Key::idle("asyncSendEnable", Kind::Flag, "true", THREADS, "sends wait without holding a thread"),
    Key::idle("topicQueueLockNum", COUNT, "32", THREADS, "locks of queues"),
    Key::idle("useReentrantLockWhenPutMessage", Kind::Flag, "true", THREADS, "kind of the lock of the log"),
    Key::idle("recoverConcurrently", Kind::Flag, "false", THREADS, "recover with several threads"),

    // Ends of transactions.
    Key::idle("transactionOpMsgMaxSize", COUNT, "4096", ENDS, "bytes of one list of ends"),
    Key::idle("transactionOpBatchInterval", COUNT, "3000", ENDS, "time between lists of ends"),
    Key::idle("transactionMetricFlushInterval", COUNT, "10000", ENDS, "time between saves of the number of transactions"),

    // POP.
    Key::idle("popPollingSize", COUNT, "1024", WAITING, "waiting calls of a queue"),
    Key::idle("popPollingMapSize", COUNT, "100000", WAITING, "queues with waiting calls"),
    Key::idle("maxPopPollingSize", MS, "100000", WAITING, "waiting calls in all"),
    Key::idle("reviveQueueNum", COUNT, "8", IN_FLIGHT, "queues of the revive topic"),
    Key::idle("reviveInterval", MS, "1000", IN_FLIGHT, "time between revivals"),
    Key::idle("reviveMaxSlow", COUNT, "3", IN_FLIGHT, "looks without progress before slowing down"),
    Key::idle("reviveScanTime", MS, "10000", IN_FLIGHT, "length of one look"),
    Key::idle("reviveAckWaitMs", MS, "180000", IN_FLIGHT, "how long to wait for acknowledgements"),
    Key::idle("enablePopBufferMerge", Kind::Flag, "false", IN_FLIGHT, "keep checkpoints in memory first"),
    Key::idle("popCkStayBufferTime", COUNT, "10000", IN_FLIGHT, "how long"),
    Key::idle("popCkStayBufferTimeOut", COUNT, "3000", IN_FLIGHT, "how long before the end of invisibility to write them"),
    Key::idle("popCkMaxBufferSize", COUNT, "200000", IN_FLIGHT, "checkpoints in memory"),
    Key::idle("popCkOffsetMaxQueueSize", COUNT, "20000", IN_FLIGHT, "offsets in memory of a queue"),
    Key::idle("enablePopBatchAck", Kind::Flag, "false", IN_FLIGHT, "store acknowledgements together"),
    Key::idle("popReviveMaxReturnSizePerRead", COUNT, "16384", IN_FLIGHT, "bytes of one look"),
    Key::idle("popReviveMaxAttemptTimes", COUNT, "16", IN_FLIGHT, "tries to revive a message"),
    Key::idle("popConsumerKVServiceEnable", Kind::Flag, "false", IN_FLIGHT, "keep records in RocksDB"),

    // Sockets.
    Key::idle("serverWorkerThreads", COUNT, "8", SOCKETS, "threads that decode"),
    Key::idle("serverSelectorThreads", COUNT, "3", SOCKETS, "threads that wait on sockets"),
    Key::idle("serverCallbackExecutorThreads", COUNT, "0", SOCKETS, "threads of callbacks"),
    Key::idle("serverOnewaySemaphoreValue", COUNT, "256", SOCKETS, "one-way calls at once"),
    Key::idle("serverAsyncSemaphoreValue", COUNT, "64", SOCKETS, "asynchronous calls at once"),
    Key::idle("serverSocketSndBufSize", COUNT, "0", SOCKETS, "send buffer of a socket"),
    Key::idle("serverSocketRcvBufSize", COUNT, "0", SOCKETS, "receive buffer of a socket"),
    Key::idle("serverSocketBacklog", COUNT, "1024", SOCKETS, "connections that may wait to be accepted"),
    Key::idle("useEpollNativeSelector", Kind::Flag, "false", SOCKETS, "wait with epoll"),
    Key::idle("enableShutdownGracefully", Kind::Flag, "false", SOCKETS, "drain before the end, which is always done here"),
    Key::idle("shutdownWaitTimeSeconds", SECONDS, "30", SOCKETS, "how long to drain"),
    Key::idle("connectTimeoutMillis", MS, "3000", SOCKETS, "how long to wait for a connection"),
    Key::idle("clientChannelMaxIdleTimeSeconds", SECONDS, "120", SOCKETS, "idle time of a connection made by the broker"),
    Key::idle("transferMsgByHeap", Kind::Flag, "true", SOCKETS, "copy messages to send them"),

    // Derived files.
    Key::idle("mappedFileSizeConsumeQueue", BYTES, "6000000", DERIVED, "bytes of one queue file").also(&["mapedFileSizeConsumeQueue"]),
    Key::idle("storePathConsumeQueue", Kind::Text, "", DERIVED, "folder of the queue files").refused(),
    Key::idle("storePathIndex", Kind::Text, "", DERIVED, "folder of the key indexes").refused(),
    Key::idle("storeCheckpoint", Kind::Text, "", DERIVED, "file of the checkpoint").refused(),
    Key::idle("abortFile", Kind::Text, "", DERIVED, "file that marks a running broker").refused(),
    Key::idle("flushIntervalConsumeQueue", COUNT, "1000", DERIVED, "time between flushes of queue files"),
    Key::idle("flushConsumeQueueLeastPages", COUNT, "2", DERIVED, "pages of a flush of queue files"),
    Key::idle("flushConsumeQueueThoroughInterval", COUNT, "60000", DERIVED, "time between whole flushes of queue files"),
    Key::idle("messageIndexSafe", Kind::Flag, "false", DERIVED, "rebuild indexes at the start"),
    Key::idle("maxHashSlotNum", COUNT, "5000000", DERIVED, "slots of an index"),
    Key::idle("maxIndexNum", COUNT, "20000000", DERIVED, "entries of an index"),
    Key::idle("maxMsgsNumBatch", COUNT, "64", DERIVED, "entries of one index query; see defaultQueryMaxNum"),
    Key::idle("enableConsumeQueueExt", Kind::Flag, "false", DERIVED, "have extended queue entries"),
    Key::idle("bitMapLengthConsumeQueueExt", COUNT, "112", DERIVED, "bits of an extended queue entry"),
    Key::idle("checkCRCOnRecover", Kind::Flag, "true", DERIVED, "check sums at recovery, which is always done here"),
    Key::idle("enabledAppendPropCRC", Kind::Flag, "false", DERIVED, "store a sum over the whole record, which is always done here"),
    Key::idle("forceVerifyPropCRC", Kind::Flag, "false", DERIVED, "check that sum, which is always done here"),
    Key::idle("autoMessageVersionOnTopicLen", Kind::Flag, "true", DERIVED, "long topic names change the record's version"),

    // Direct input and output.
    Key::idle("transientStorePoolEnable", Kind::Flag, "false", DIRECT, "write from a pool of buffers"),
    Key::idle("transientStorePoolSize", COUNT, "5", DIRECT, "buffers of that pool"),
    Key::idle("fastFailIfNoBufferInStorePool", Kind::Flag, "false", DIRECT, "refuse sends without a buffer"),
    Key::idle("warmMapedFileEnable", Kind::Flag, "false", DIRECT, "touch new segments beforehand"),
    Key::idle("flushLeastPagesWhenWarmMapedFile", COUNT, "4096", DIRECT, "pages flushed meanwhile"),
    Key::idle("writeWithoutMmap", Kind::Flag, "false", DIRECT, "write without mapping"),
    Key::idle("osPageCacheBusyTimeOutMills", MS, "1000", DIRECT, "a longer append counts as busy"),

    // The pace of writes.
    Key::idle("flushCommitLogLeastPages", COUNT, "4", COMMIT, "pages of a flush"),
    Key::idle("flushCommitLogThoroughInterval", COUNT, "10000", COMMIT, "time between whole flushes"),
    Key::idle("flushCommitLogTimed", Kind::Flag, "true", COMMIT, "flush by time, not by request"),
    Key::idle("commitIntervalCommitLog", COUNT, "200", COMMIT, "time between commits of the pool"),
    Key::idle("commitCommitLogLeastPages", COUNT, "4", COMMIT, "pages of a commit of the pool"),
    Key::idle("commitCommitLogThoroughInterval", COUNT, "200", COMMIT, "time between whole commits of the pool"),
    Key::idle("syncFlushTimeout", MS, "5000", COMMIT, "how long a send waits for its flush"),
    Key::idle("putMessageTimeout", MS, "8000", COMMIT, "how long a send waits in all"),
    Key::idle("enableNetWorkFlowControl", Kind::Flag, "false", COMMIT, "slow down clients; see unwrittenBytesMax"),

    // Cleaning.
    Key::idle("deleteConsumeQueueFilesInterval", COUNT, "100", CLEANING, "pause between two queue files"),
    Key::idle("destroyMapedFileIntervalForcibly", COUNT, "120000", CLEANING, "how long readers keep a deleted file"),
    Key::idle("redeleteHangedFileInterval", COUNT, "120000", CLEANING, "time between tries to delete"),
    Key::idle("replicasPerDiskPartition", COUNT, "1", SHARED_DISK, "brokers that share the disk"),
    Key::idle("logicalDiskSpaceCleanForciblyThreshold", Kind::Decimal, "0.8", SHARED_DISK, "filling with several brokers on a disk"),
    Key::idle("enableCleanExpiredOffset", Kind::Flag, "false", ALWAYS, "drop offsets of deleted topics"),
    Key::idle("subscriptionExpiredTimeout", MS, "600000", ALWAYS, "age at which an unused subscription goes; see channelExpiredTimeout"),

    // Reading.
    Key::idle("maxTransferBytesOnMessageInDisk", COUNT, "65536", READING, "bytes in the answer to one cold pull"),
    Key::idle("maxTransferCountOnMessageInDisk", COUNT, "8", READING, "messages in the answer to one cold pull"),
    Key::idle("maxFilterMessageSize", COUNT, "16000", READING, "queue bytes looked at in one pull"),
    Key::idle("accessMessageInMemoryMaxRatio", PERCENT, "40", READING, "part of the memory that counts as warm; see tailCacheBytes"),
    Key::idle("pullBatchMaxMessageCount", COUNT, "160", READING, "messages in the answer to any pull"),

    // Nameservers.
    Key::idle("fetchNameSrvAddrByDnsLookup", Kind::Flag, "false", NAMESERVERS, "take namesrvAddr for a name of many addresses"),
    Key::idle("fetchNamesrvAddrByAddressServer", Kind::Flag, "false", NAMESERVERS, "ask a web server for nameservers"),
    Key::idle("rmqAddressServerDomain", Kind::Text, "", NAMESERVERS, "that web server").refused(),
    Key::idle("rmqAddressServerSubGroup", Kind::Text, "", NAMESERVERS, "the page there").refused(),
    Key::idle("updateNameServerAddrPeriod", COUNT, "120000", NAMESERVERS, "time between looks for nameservers"),
    Key::idle("fetchNamesrvAddrInterval", COUNT, "10000", NAMESERVERS, "time between looks for nameservers"),
    Key::idle("compressedRegister", Kind::Flag, "false", NAMESERVERS, "compress registrations"),
    Key::idle("enableSingleTopicRegister", Kind::Flag, "false", NAMESERVERS, "register only the topic that changed"),
    Key::idle("enableSplitRegistration", Kind::Flag, "false", NAMESERVERS, "register in parts"),
    Key::idle("splitRegistrationSize", COUNT, "800", NAMESERVERS, "topics of a part"),

    // Statistics.
    Key::idle("enableDetailStat", Kind::Flag, "true", STATISTICS, "count for each queue and group"),
    Key::idle("autoDeleteUnusedStats", Kind::Flag, "true", STATISTICS, "drop counts of deleted topics, which is always done here"),
    Key::idle("accountStatsEnable", Kind::Flag, "true", STATISTICS, ""),
    Key::idle("accountStatsPrintZeroValues", Kind::Flag, "true", STATISTICS, ""),
    Key::idle("maxStatsIdleTimeInMinutes", ANY, "-1", STATISTICS, ""),
    Key::idle("commercialBaseCount", COUNT, "1", STATISTICS, ""),
    Key::idle("commercialSizePerMsg", COUNT, "4096", STATISTICS, ""),
    Key::idle("enableScheduleMessageStats", Kind::Flag, "true", STATISTICS, ""),
    Key::idle("estimateAccumulation", Kind::Flag, "true", STATISTICS, "estimate what filtering groups still have before them"),

    // How the broker was started, not a setting of its own.
    Key::idle("rocketmqHome", Kind::Text, "", PROGRAM, "folder of the Java distribution").refused(),
    Key::idle("brokerConfigPath", Kind::Text, "", PROGRAM, "the configuration file").refused(),
];

fn few_threads(settings: &Settings) -> String {
    settings.surroundings().processors.min(4).to_string()
}

fn many_threads(settings: &Settings) -> String {
    (16 + 2 * settings.surroundings().processors).to_string()
}

fn query_threads(settings: &Settings) -> String {
    (8 + settings.surroundings().processors).to_string()
}

fn heartbeat_threads(settings: &Settings) -> String {
    settings.surroundings().processors.min(32).to_string()
}

fn transaction_threads(settings: &Settings) -> String {
    let processors = settings.surroundings().processors;
    (8 + 2 * processors).max(4 * processors.min(4)).to_string()
}
