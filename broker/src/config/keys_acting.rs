//! The keys that act.

use super::key::Change::{Live, Restart};
use super::key::Key;
use super::kind::{BYTES, DELAY_SECONDS_MAX, Kind, MS, SECONDS};
use super::settings::Settings;

/// The largest body that can be allowed. A batch or a message is one frame and is held in memory as a whole.
pub(super) const MESSAGE_BYTES_MAX: u64 = 128 << 20;
/// What a record may need beside its body: properties, names and fixed fields, generously.
pub(super) const RECORD_BYTES_BESIDE_BODY: u64 = 64 << 10;
/// The smallest segment, and the unit of segments: the block of direct I/O.
pub(super) const SEGMENT_BYTES_MIN: u64 = 1 << 20;
const SEGMENT_BYTES_MAX: u64 = 64 << 30;
const SEGMENT_BYTES_STEP: u64 = 4096;
/// Above it there is no room for the ports beside it: the one of replication lies one above.
const LISTEN_PORT_MAX: i64 = 65_533;

const MESSAGE_BYTES_USUAL: u64 = 4 << 20;

/// Permissions of a whole broker: 4 reads, 2 writes.
const PERMISSIONS: Kind = Kind::Choice(&["2", "4", "6"]);
const LISTEN_PORT: Kind = Kind::Whole { min: 0, max: LISTEN_PORT_MAX, unit: "" };
const SEGMENT: Kind =
    Kind::Stepped { step: SEGMENT_BYTES_STEP as i64, min: SEGMENT_BYTES_MIN as i64, max: SEGMENT_BYTES_MAX as i64 };
const BODY: Kind = Kind::Whole { min: 1, max: MESSAGE_BYTES_MAX as i64, unit: "bytes" };
const QUEUES: Kind = Kind::Whole { min: 1, max: 1024, unit: "" };
const MAX_USED: Kind = Kind::Clamped { min: 10, max: 95, unit: "%" };
const WARNING: Kind = Kind::Clamped { min: 35, max: 90, unit: "%" };
const FORCIBLY: Kind = Kind::Clamped { min: 30, max: 85, unit: "%" };
const BATCH: Kind = Kind::Whole { min: 1, max: 1_000_000, unit: "" };
pub(super) const HOURS_KEPT: Kind = Kind::Whole { min: 1, max: 1_000_000, unit: "h" };
const TRANSFER_COUNT: Kind = Kind::Whole { min: 1, max: 65_536, unit: "" };
const TRANSFER_BYTES: Kind = Kind::Whole { min: 1, max: 1 << 30, unit: "bytes" };
const TIMEOUT: Kind = Kind::Whole { min: 1, max: 3_600_000, unit: "ms" };
const DELAY_SECONDS: Kind = Kind::Whole { min: 1, max: DELAY_SECONDS_MAX as i64, unit: "s" };
const TIMEOUT_OR_NONE: Kind = Kind::Whole { min: 0, max: 3_600_000, unit: "ms" };
const PERIOD: Kind = Kind::Whole { min: 10, max: 3_600_000, unit: "ms" };

#[rustfmt::skip] // One row a line reads as the table it is.
pub(super) const KEYS: &[Key] = &[
    // Identity.
    Key::acting("brokerClusterName", Kind::Name, "DefaultCluster", Restart, "the cluster this broker belongs to").important(),
    Key::acting("brokerName", Kind::Name, "", Restart, "name of this master and its slaves").derived("the host's name, or DEFAULT", host_name).important(),
    Key::acting("brokerId", Kind::Whole { min: 0, max: i64::MAX, unit: "" }, "0", Restart, "0 is the master").important(),
    Key::acting("brokerRole", Kind::Choice(&["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"]), "ASYNC_MASTER", Restart, "part in replication").important(),
    Key::acting("regionId", Kind::Name, "DefaultRegion", Restart, "region told to clients for traces"),

    // Network.
    Key::acting("listenPort", LISTEN_PORT, "10911", Restart, "port for clients; two below it is the fast one; 0 chooses").important(),
    Key::acting("bindAddress", Kind::Address { wildcard: true }, "0.0.0.0", Restart, "address the ports are opened on").refused(),
    Key::acting("brokerIP1", Kind::Address { wildcard: false }, "", Restart, "address given to clients")
        .derived("bindAddress, or the address of this machine if that is all", advertised_address).refused().important(),
    Key::acting("serverChannelMaxIdleTimeSeconds", SECONDS, "120", Restart, "a connection idle for so long is closed"),

    // Nameservers.
    Key::acting("namesrvAddr", Kind::HostPorts, "", Restart, "nameservers to register at").refused().important(),
    Key::acting("registerNameServerPeriod", Kind::Clamped { min: 10_000, max: 60_000, unit: "ms" }, "30000", Live, "time between registrations"),
    Key::acting("registerBrokerTimeoutMills", TIMEOUT, "24000", Restart, "how long a nameserver may take to answer a registration"),
    Key::acting("forceRegister", Kind::Flag, "true", Live, "register each period even if nothing changed"),
    Key::acting("brokerPermission", PERMISSIONS, "6", Live, "4 reads, 2 writes, 6 both, for the whole broker"),

    // Topics.
    Key::acting("autoCreateTopicEnable", Kind::Flag, "true", Live, "make a topic on its first send").important(),
    Key::acting("defaultTopicQueueNums", QUEUES, "8", Live, "queues of a topic made on its first send").important(),
    Key::acting("clusterTopicEnable", Kind::Flag, "true", Restart, "have a topic called like the cluster"),
    Key::acting("brokerTopicEnable", Kind::Flag, "true", Restart, "have a topic called like the broker"),
    Key::acting("validateSystemTopicWhenUpdateTopic", Kind::Flag, "true", Live, "refuse changes of the system's topics"),
    Key::acting("traceOn", Kind::Flag, "true", Live, "tell clients that tracing is on"),
    Key::acting("traceTopicEnable", Kind::Flag, "false", Restart, "have the topic of traces"),
    Key::acting("msgTraceTopicName", Kind::Name, "RMQ_SYS_TRACE_TOPIC", Restart, "the topic of traces"),

    // Consumers.
    Key::acting("autoCreateSubscriptionGroup", Kind::Flag, "true", Live, "make a consumer group on its first use").important(),
    Key::acting("notifyConsumerIdsChangedEnable", Kind::Flag, "true", Live, "tell consumers when one of their group comes or goes"),
    Key::acting("flushConsumerOffsetInterval", PERIOD, "5000", Live, "time between saves of the consumers' offsets"),
    Key::acting("useServerSideResetOffset", Kind::Flag, "true", Live, "keep reset offsets here until consumers take them"),
    Key::acting("channelExpiredTimeout", TIMEOUT, "120000", Live, "a client without a heartbeat for so long is dropped"),
    Key::acting("longPollingEnable", Kind::Flag, "true", Live, "hold a pull that finds nothing until something comes"),
    Key::acting("shortPollingTimeMills", PERIOD, "1000", Live, "how long it is held when longPollingEnable is false"),
    Key::acting("maxTransferCountOnMessageInMemory", TRANSFER_COUNT, "32", Live, "messages in the answer to one pull"),
    Key::acting("maxTransferBytesOnMessageInMemory", TRANSFER_BYTES, "262144", Live, "bytes in the answer to one pull"),
    Key::acting("enablePropertyFilter", Kind::Flag, "false", Live, "let consumers filter by properties, with SQL92 expressions"),
    Key::acting("defaultQueryMaxNum", Kind::Whole { min: 1, max: 65_536, unit: "" }, "32", Live, "messages in the answer to one query"),

    // POP.
    Key::acting("defaultMessageRequestMode", Kind::Choice(&["PULL", "POP"]), "PULL", Live, "how groups consume that have no mode of their own"),
    Key::acting("defaultPopShareQueueNum", Kind::Whole { min: -1, max: 65_536, unit: "" }, "-1", Live, "others' queues that a client pops beside its own; 0 or less is all"),
    Key::acting("serverLoadBalancerEnable", Kind::Flag, "true", Live, "assign queues to the consumers that ask for it"),
    Key::acting("enableRetryTopicV2", Kind::Flag, "false", Live, "let popped messages come again by topics named GROUP+TOPIC"),
    Key::acting("retrieveMessageFromPopRetryTopicV1", Kind::Flag, "true", Live, "with enableRetryTopicV2: read the older retry topics too"),
    Key::acting("popFromRetryProbability", Kind::Whole { min: 0, max: 100, unit: "%" }, "20", Live, "pops that begin with what comes again"),
    Key::acting("popFromRetryProbabilityForPriority", Kind::Whole { min: 0, max: 100, unit: "%" }, "0", Live, "the same for pops of topics whose queues are priorities"),
    Key::acting("priorityOrderAsc", Kind::Flag, "true", Live, "a higher number is a higher priority"),

    // Light queues.
    Key::acting("enableLmq", Kind::Flag, "false", Live, "topics named %LMQ%… make themselves and are told to no nameserver"),
    Key::acting("enableMultiDispatch", Kind::Flag, "false", Live, "with enableLmq: put a message into all such topics that it names"),
    Key::acting("maxLmqConsumeQueueNum", Kind::Whole { min: 0, max: 1 << 20, unit: "" }, "20000", Live, "such topics; beyond it a message or a pull that would make one is refused"),

    // Messages.
    Key::acting("maxMessageSize", BODY, "", Live, "largest body of a message")
        .derived("4194304, or what a smaller segment holds", message_bytes_max).important(),
    Key::acting("startAcceptSendRequestTimeStamp", MS, "0", Restart, "no sends before this time, since 1970"),
    Key::acting("rejectTransactionMessage", Kind::Flag, "false", Live, "refuse transactional messages"),
    Key::acting("messageDelayLevel", Kind::DelayLevels, "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", Live, "delays of the levels from 1 on"),
    Key::acting("timerWheelEnable", Kind::Flag, "true", Live, "take messages that name the time of their delivery"),
    Key::acting("timerMaxDelaySec", DELAY_SECONDS, "259200", Live, "how far ahead that time may lie"),
    Key::acting("recallMessageEnable", Kind::Flag, "false", Live, "let producers take such messages back"),
    Key::acting("allowRecallWhenBrokerNotWriteable", Kind::Flag, "true", Live, "also while brokerPermission lacks 2"),
    Key::acting("transactionTimeOut", MS, "6000", Live, "age of a half message at its first check"),
    Key::acting("transactionCheckInterval", TIMEOUT, "30000", Live, "time between checks"),
    Key::acting("transactionCheckMax", Kind::Whole { min: 0, max: 1_000_000, unit: "" }, "15", Live, "checks before a half message is given up"),
    Key::acting("storeReplyMessageEnable", Kind::Flag, "true", Live, "store replies to requests too, beside passing them on"),

    // Storage.
    Key::acting("storePathRootDir", Kind::Folder, "", Restart, "folder of everything that is stored").derived("HOME/store", store_root).refused().important(),
    Key::acting("storePathCommitLog", Kind::Folders, "", Restart, "folders of the messages, if elsewhere; several share the logs")
        .derived("storePathRootDir/commitlog", commit_log_folder).refused(),
    Key::acting("mappedFileSizeCommitLog", SEGMENT, "1073741824", Restart, "bytes of one segment of a log").also(&["mapedFileSizeCommitLog"]),
    Key::acting("flushDiskType", Kind::Choice(&["SYNC_FLUSH", "ASYNC_FLUSH"]), "SYNC_FLUSH", Restart,
        "SYNC_FLUSH: an answered send survives a loss of power; ASYNC_FLUSH: the end of the process").important(),
    Key::acting("flushIntervalCommitLog", PERIOD, "500", Restart, "with ASYNC_FLUSH: time between flushes"),
    Key::acting("deleteWhen", Kind::Hours, "04", Live, "hours of the day at which expired segments go"),
    Key::acting("fileReservedTime", HOURS_KEPT, "72", Live, "how long messages are kept"),
    Key::acting("diskMaxUsedSpaceRatio", MAX_USED, "75", Live, "the disk's filling above which expired segments go at any hour"),
    Key::acting("diskSpaceCleanForciblyRatio", FORCIBLY, "85", Live, "the disk's filling above which the oldest segments go, expired or not"),
    Key::acting("diskSpaceWarningLevelRatio", WARNING, "90", Live, "the disk's filling above which sends are refused"),
    Key::acting("cleanFileForciblyEnable", Kind::Flag, "true", Live, "let segments go that are not expired, when the disk fills"),
    Key::acting("cleanResourceInterval", PERIOD, "10000", Live, "time between two rounds of cleaning"),
    Key::acting("deleteCommitLogFilesInterval", TIMEOUT_OR_NONE, "100", Live, "pause between two segments that go"),
    Key::acting("deleteFileBatchMax", BATCH, "10", Live, "segments that go in one round, of each core"),
    Key::acting("messageIndexEnable", Kind::Flag, "true", Live, "index messages by key"),

    // The machine. These keys are RingMQ's own.
    Key::acting("cores", Kind::Whole { min: 0, max: 1024, unit: "" }, "0", Restart, "pinned threads; 0 is one for each processor"),
    Key::acting("logs", Kind::Whole { min: 0, max: 4096, unit: "" }, "0", Restart,
        "logs of a new store, fixed from then on; 0 is one for each core"),
    Key::acting("tailCacheBytes", BYTES, "0", Restart, "memory of each log for its newest messages; 0 is a 64th of the machine over all logs"),
    Key::acting("flushKind", Kind::Choice(&["probe", "fdatasync", "dsync"]), "probe", Restart,
        "how SYNC_FLUSH makes a write durable; probe takes what was quicker on the disk when the store was made"),
    Key::acting("coldReadBytesPerSecond", BYTES, "268435456", Restart,
        "what readers of old messages may load from the disk while messages are stored, all logs together, and at least 1 MiB a log; 0 is no limit"),
    Key::acting("readCacheBytes", BYTES, "67108864", Restart,
        "memory for what was read from the disk lately, all logs together; taken when it is needed"),
    Key::acting("readsThroughPageCache", Kind::Flag, "false", Restart,
        "true keeps what was read from the disk in the page cache too: for slow disks beside much free memory"),
    Key::acting("prepareAheadBytes", BYTES, "1073741824", Restart, "how far in front of the newest message the disk is prepared"),
    Key::acting("unwrittenBytesMax", BYTES, "67108864", Restart, "bytes of each log that may wait for their write, at most half of tailCacheBytes or 16 MiB; sends beyond wait"),
    Key::acting("stageTimes", Kind::Flag, "true", Live, "measure where the time of each send and pull goes (`ringmq admin stages`)"),
    Key::acting("traceSlowerThanMicros", Kind::Whole { min: 0, max: 60_000_000, unit: "" }, "50000", Live,
        "microseconds above which a send or pull is kept with the time of each stage, the newest 256 of each core; 0 keeps none"),

    // Experiments: what is a tier of reads worth?
    Key::acting("experimentReadTailCache", Kind::Flag, "true", Restart, "experiment: false reads also the newest messages from their files"),
    Key::acting("experimentReadResident", Kind::Flag, "true", Restart, "experiment: false reads from the disk also what is in the page cache"),
    Key::acting("experimentReadCold", Kind::Flag, "true", Restart, "experiment: false lets the cores wait for the disk as they send"),

    // What an update must not touch, whatever is listed in it.
    Key::acting("configBlackList", Kind::Text, "configBlackList;brokerConfigPath", Restart, "keys that no update may change, separated by ;").refused(),
];

/// Bytes of memory that the largest message may take as a record.
pub(super) fn record_bytes_max(body_bytes_max: u64) -> u64 {
    body_bytes_max + RECORD_BYTES_BESIDE_BODY
}

/// What a broker is called whose host has no usable name.
const NAME_WITHOUT_HOST: &str = "DEFAULT";

fn host_name(settings: &Settings) -> String {
    Kind::Name.normal(&settings.surroundings().host_name).unwrap_or_else(|_| NAME_WITHOUT_HOST.to_owned())
}

fn advertised_address(settings: &Settings) -> String {
    let bound = settings.text("bindAddress");
    let all = bound == "0.0.0.0" || bound == "::";
    if all { settings.surroundings().local_address.to_string() } else { bound }
}

fn message_bytes_max(settings: &Settings) -> String {
    let segment_bytes: u64 = settings.value("mappedFileSizeCommitLog");
    MESSAGE_BYTES_USUAL.min(segment_bytes - RECORD_BYTES_BESIDE_BODY).to_string()
}

fn store_root(settings: &Settings) -> String {
    format!("{}/store", settings.surroundings().home.trim_end_matches('/'))
}

fn commit_log_folder(settings: &Settings) -> String {
    format!("{}/commitlog", settings.text("storePathRootDir").trim_end_matches('/'))
}

const _: () = assert!(RECORD_BYTES_BESIDE_BODY < SEGMENT_BYTES_MIN);
