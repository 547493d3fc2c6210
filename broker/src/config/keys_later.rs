//! Keys of features that a later version brings. At their defaults they are accepted; a value that would turn the feature
//! on is answered with a warning that names it.

use super::key::Key;
use super::keys_acting::HOURS_KEPT;
use super::kind::{BYTES, COUNT, Kind, MS, PORT, SECONDS};
use super::settings::Settings;

const POP: &str = "limits and clean-up of POP consumption";
const REPLICATION: &str = "replication";
const FILTERS: &str = "SQL filters";
const ACCESS: &str = "authentication and authorization";
const METRICS: &str = "the metrics exporter";
const COMPACTION: &str = "compacted topics";
const OTHER_STORES: &str = "RocksDB and tiered stores";
const COLD_CONTROL: &str = "limits for cold reads";
const RETENTION: &str = "retention";
const MESSAGE_TYPES: &str = "message types of topics";

pub(super) const ROLE_FEATURE: &str = REPLICATION;

#[rustfmt::skip] // One row a line reads as the table it is.
pub(super) const KEYS: &[Key] = &[
    // Retention.
    Key::later("dlqReservedTime", HOURS_KEPT, "72", RETENTION, "how long dead letters are kept"),

    // POP.
    Key::later("enablePopMessageThreshold", Kind::Flag, "false", POP, "limit messages in flight"),
    Key::later("popInflightMessageThreshold", MS, "10000", POP, "to this number"),
    Key::later("clearRetryTopicWhenDeleteTopic", Kind::Flag, "true", POP, "delete retry topics with their topic"),
    Key::later("enableBroadcastOffsetStore", Kind::Flag, "true", POP, "keep offsets of broadcast consumers behind a proxy"),
    Key::later("broadcastOffsetExpireSecond", SECONDS, "120", POP, "how long"),
    Key::later("broadcastOffsetExpireMaxSecond", SECONDS, "300", POP, "how long at most"),

    // Replication.
    Key::later("brokerIP2", Kind::Address { wildcard: false }, "", REPLICATION, "address given to slaves")
        .derived("like brokerIP1", |settings| settings.text("brokerIP1")).refused(),
    Key::later("haListenPort", PORT, "", REPLICATION, "port for slaves").derived("listenPort + 1", replication_port),
    Key::later("haMasterAddress", Kind::Text, "", REPLICATION, "the master of a slave").refused(),
    Key::later("haSendHeartbeatInterval", COUNT, "5000", REPLICATION, "time between signs of life"),
    Key::later("haHousekeepingInterval", COUNT, "20000", REPLICATION, "silence that ends a connection"),
    Key::later("haTransferBatchSize", COUNT, "32768", REPLICATION, "bytes sent at once"),
    Key::later("haMaxGapNotInSync", COUNT, "268435456", REPLICATION, "bytes a slave may be behind"),
    Key::later("haFlowControlEnable", Kind::Flag, "false", REPLICATION, "limit what is sent"),
    Key::later("maxHaTransferByteInSecond", BYTES, "104857600", REPLICATION, "to this a second"),
    Key::later("haMaxTimeSlaveNotCatchup", MS, "15000", REPLICATION, "how long a slave may be behind"),
    Key::later("slaveTimeout", COUNT, "3000", REPLICATION, "how long a send waits for slaves"),
    Key::later_switch("slaveReadEnable", Kind::Flag, "false", REPLICATION, "send cold readers to slaves"),
    Key::later("totalReplicas", COUNT, "1", REPLICATION, "brokers of one name"),
    Key::later("inSyncReplicas", COUNT, "1", REPLICATION, "of them to wait for"),
    Key::later("minInSyncReplicas", COUNT, "1", REPLICATION, "of them needed"),
    Key::later_switch("allAckInSyncStateSet", Kind::Flag, "false", REPLICATION, "wait for all that are in sync"),
    Key::later_switch("enableAutoInSyncReplicas", Kind::Flag, "false", REPLICATION, "wait for those that are there"),
    Key::later("syncFromLastFile", Kind::Flag, "false", REPLICATION, "new slaves begin with the last segment"),
    Key::later("asyncLearner", Kind::Flag, "false", REPLICATION, "a slave that never counts"),
    Key::later("offsetCheckInSlave", Kind::Flag, "false", REPLICATION, "check offsets on a slave"),
    Key::later("brokerHeartbeatInterval", COUNT, "1000", REPLICATION, "time between signs of life to nameservers"),
    Key::later("sendHeartbeatTimeoutMillis", COUNT, "1000", REPLICATION, "how long their answers may take"),
    Key::later("brokerNotActiveTimeoutMillis", MS, "10000", REPLICATION, "silence that counts as dead"),
    Key::later_switch("enableSlaveActingMaster", Kind::Flag, "false", REPLICATION, "a slave stands in for a dead master"),
    Key::later_switch("enableRemoteEscape", Kind::Flag, "false", REPLICATION, "that slave stores elsewhere"),
    Key::later("skipPreOnline", Kind::Flag, "false", REPLICATION, "go online without catching up"),
    Key::later("lockInStrictMode", Kind::Flag, "false", REPLICATION, "lock queues on all replicas"),
    Key::later("compatibleWithOldNameSrv", Kind::Flag, "true", REPLICATION, "talk to nameservers of version 4"),
    Key::later("syncBrokerMemberGroupPeriod", COUNT, "1000", REPLICATION, "time between looks at the group"),
    Key::later_switch("enableControllerMode", Kind::Flag, "false", REPLICATION, "a controller elects the master"),
    Key::later("controllerAddr", Kind::Text, "", REPLICATION, "where the controllers are").refused(),
    Key::later("fetchControllerAddrByDnsLookup", Kind::Flag, "false", REPLICATION, "take that for a name of many addresses"),
    Key::later("syncBrokerMetadataPeriod", MS, "5000", REPLICATION, "time between looks at the controller"),
    Key::later("checkSyncStateSetPeriod", MS, "5000", REPLICATION, "time between looks at what is in sync"),
    Key::later("syncControllerMetadataPeriod", MS, "10000", REPLICATION, "time between looks for the leader"),
    Key::later("controllerHeartBeatTimeoutMills", MS, "10000", REPLICATION, "silence that counts as dead"),
    Key::later("brokerElectionPriority", COUNT, "2147483647", REPLICATION, "the lowest is elected first"),
    Key::later_switch("enableDLegerCommitLog", Kind::Flag, "false", REPLICATION, "Raft for the log"),
    Key::later("dLegerGroup", Kind::Text, "", REPLICATION, "name of the Raft group"),
    Key::later("dLegerPeers", Kind::Text, "", REPLICATION, "its members").refused(),
    Key::later("dLegerSelfId", Kind::Text, "", REPLICATION, "this member"),
    Key::later("preferredLeaderId", Kind::Text, "", REPLICATION, "the member that leads if it can"),
    Key::later("readOnlyCommitLogStorePaths", Kind::Text, "", REPLICATION, "folders of segments that are only read").refused(),
    Key::later("readUnCommitted", Kind::Flag, "false", REPLICATION, "read what slaves do not have yet"),
    Key::later_switch("duplicationEnable", Kind::Flag, "false", REPLICATION, "a second copy by other means"),

    // SQL filters.
    Key::later_switch("enableCalcFilterBitMap", Kind::Flag, "false", FILTERS, "compute filters when storing"),
    Key::later_switch("filterSupportRetry", Kind::Flag, "false", FILTERS, "filter retried messages too"),
    Key::later("expectConsumerNumUseFilter", COUNT, "32", FILTERS, "consumers with filters"),
    Key::later("maxErrorRateOfBloomFilter", COUNT, "20", FILTERS, "wrong hits in a hundred"),
    Key::later("filterDataCleanTimeSpan", MS, "86400000", FILTERS, "how long unused filters are kept"),
    Key::later("filterServerNums", COUNT, "0", FILTERS, "filter programs to start; none ever are").refused(),

    // Authentication and authorization.
    Key::later_switch("aclEnable", Kind::Flag, "false", ACCESS, "check signatures by plain_acl.yml"),
    Key::later_switch("authenticationEnabled", Kind::Flag, "false", ACCESS, "check who it is"),
    Key::later_switch("authorizationEnabled", Kind::Flag, "false", ACCESS, "check what they may"),
    Key::later("authenticationProvider", Kind::Text, "", ACCESS, "").refused(),
    Key::later("authenticationMetadataProvider", Kind::Text, "", ACCESS, "").refused(),
    Key::later("authenticationStrategy", Kind::Text, "", ACCESS, "").refused(),
    Key::later("authenticationWhitelist", Kind::Text, "", ACCESS, "calls that need no check").refused(),
    Key::later("authorizationProvider", Kind::Text, "", ACCESS, "").refused(),
    Key::later("authorizationMetadataProvider", Kind::Text, "", ACCESS, "").refused(),
    Key::later("authorizationStrategy", Kind::Text, "", ACCESS, "").refused(),
    Key::later("authorizationWhitelist", Kind::Text, "", ACCESS, "calls that need no check").refused(),
    Key::later("initAuthenticationUser", Kind::Text, "", ACCESS, "the first user").refused(),
    Key::later("innerClientAuthenticationCredentials", Kind::Text, "", ACCESS, "how brokers sign their own calls").refused(),
    Key::later_switch("migrateAuthFromV1Enabled", Kind::Flag, "false", ACCESS, "take users from plain_acl.yml"),
    Key::later("authConfigPath", Kind::Text, "", ACCESS, "").refused(),
    Key::later("userCacheMaxNum", COUNT, "1000", ACCESS, ""),
    Key::later("userCacheExpiredSecond", SECONDS, "600", ACCESS, ""),
    Key::later("userCacheRefreshSecond", SECONDS, "60", ACCESS, ""),
    Key::later("aclCacheMaxNum", COUNT, "1000", ACCESS, ""),
    Key::later("aclCacheExpiredSecond", SECONDS, "600", ACCESS, ""),
    Key::later("aclCacheRefreshSecond", SECONDS, "60", ACCESS, ""),
    Key::later("statefulAuthenticationCacheMaxNum", COUNT, "10000", ACCESS, ""),
    Key::later("statefulAuthenticationCacheExpiredSecond", SECONDS, "60", ACCESS, ""),
    Key::later("statefulAuthorizationCacheMaxNum", COUNT, "10000", ACCESS, ""),
    Key::later("statefulAuthorizationCacheExpiredSecond", SECONDS, "60", ACCESS, ""),
    Key::later_switch("useTLS", Kind::Flag, "false", ACCESS, "encrypt connections"),

    // Metrics.
    Key::later_switch("metricsExporterType", Kind::Choice(&["DISABLE", "OTLP_GRPC", "PROM", "LOG", "0", "1", "2", "3"]), "DISABLE", METRICS, "how metrics go out"),
    Key::later("metricsPromExporterPort", PORT, "5557", METRICS, "port of the metrics page"),
    Key::later("metricsPromExporterHost", Kind::Text, "", METRICS, "address of the metrics page").refused(),
    Key::later("metricsGrpcExporterTarget", Kind::Text, "", METRICS, "where metrics are sent").refused(),
    Key::later("metricsGrpcExporterHeader", Kind::Text, "", METRICS, "headers sent along").refused(),
    Key::later("metricGrpcExporterTimeOutInMills", MS, "3000", METRICS, "how long that may take"),
    Key::later("metricGrpcExporterIntervalInMills", MS, "60000", METRICS, "time between sends"),
    Key::later("metricLoggingExporterIntervalInMills", MS, "10000", METRICS, "time between lines in the log"),
    Key::later("metricsLabel", Kind::Text, "", METRICS, "labels of every metric, k:v,k:v"),
    Key::later("metricsInDelta", Kind::Flag, "false", METRICS, "send differences"),
    Key::later("metricsOtelCardinalityLimit", COUNT, "50000", METRICS, "sets of labels of one metric"),
    Key::later("enableRemotingMetrics", Kind::Flag, "true", METRICS, ""),
    Key::later("enableMessageStoreMetrics", Kind::Flag, "true", METRICS, ""),
    Key::later("enablePopMetrics", Kind::Flag, "true", METRICS, ""),
    Key::later("enableConnectionMetrics", Kind::Flag, "true", METRICS, ""),
    Key::later("enableTransactionMetrics", Kind::Flag, "true", METRICS, ""),
    Key::later("enableStatsMetrics", Kind::Flag, "true", METRICS, ""),
    Key::later("enableRequestMetrics", Kind::Flag, "true", METRICS, ""),
    Key::later("enableLagAndDlqMetrics", Kind::Flag, "true", METRICS, ""),

    // Kinds of topics and stores.
    Key::later_switch("enableMixedMessageType", Kind::Flag, "false", MESSAGE_TYPES, "topics for messages of every type"),
    Key::later_switch("enableCompaction", Kind::Flag, "false", COMPACTION, "have topics that keep the newest of each key"),
    Key::later("compactionScheduleInternal", COUNT, "900000", COMPACTION, "time between compactions"),
    Key::later("compactionThreadNum", COUNT, "6", COMPACTION, "threads that compact"),
    Key::later_switch("storeType", Kind::Choice(&["default", "defaultRocksDB"]), "default", OTHER_STORES, "where queues are kept"),
    Key::later_switch("messageStorePlugIn", Kind::Text, "", OTHER_STORES, "class of a store on top").refused(),
    Key::later_switch("configManagerVersion", Kind::Text, "v1", OTHER_STORES, "where topics and groups are kept"),
    Key::later_switch("disableConsumeIfConsumerReadSlowly", Kind::Flag, "false", COLD_CONTROL, "stop groups that are far behind"),
    Key::later("consumerFallbehindThreshold", BYTES, "17179869184", COLD_CONTROL, "how far"),
    Key::later_switch("coldDataFlowControlEnable", Kind::Flag, "false", COLD_CONTROL, "slow down cold reads"),
    Key::later_switch("coldDataScanEnable", Kind::Flag, "false", COLD_CONTROL, "look for what is cold"),
    Key::later_switch("coldCtrStrategyEnable", Kind::Flag, "false", COLD_CONTROL, "choose the limits by itself"),
    Key::later("usePIDColdCtrStrategy", Kind::Flag, "true", COLD_CONTROL, "by a control loop"),
    Key::later("cgColdReadThreshold", BYTES, "3145728", COLD_CONTROL, "limit of a group"),
    Key::later("globalColdReadThreshold", BYTES, "104857600", COLD_CONTROL, "limit of the broker"),
];

fn replication_port(settings: &Settings) -> String {
    let listen_port: u16 = settings.value("listenPort");
    // 0 while the port is not chosen yet, or where there is none above it.
    let above = if listen_port == 0 { None } else { listen_port.checked_add(1) };
    above.unwrap_or(0).to_string()
}
