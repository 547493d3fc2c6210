//! The configuration as values, for the rest of the broker.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use base::Millis;
use runtime::flush::FlushKind;
use storage::TierSwitches;

use super::kind::{delay_levels, host_ports, hours};
use super::settings::Settings;

/// Every value that acts. A plain value: each core has its own copy, and a change hands it a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub identity: Identity,
    pub network: Network,
    pub registration: Registration,
    pub topics: Topics,
    pub consumers: Consumers,
    pub messages: Messages,
    pub light_queues: LightQueues,
    pub delays: Delays,
    pub transactions: Transactions,
    pub pop: Pop,
    pub store: Store,
    pub retention: Retention,
    pub machine: Machine,
    pub stages: Stages,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: String,
    pub broker: String,
    /// 0 for a master, which is all this version can be.
    pub broker_id: u64,
    pub role: BrokerRole,
    pub region: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    pub bind_address: IpAddr,
    /// 0: the system chooses.
    pub listen_port: u16,
    /// What clients are told to connect to.
    pub advertised_address: IpAddr,
    pub idle_ms_max: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub nameservers: Vec<HostPort>,
    pub period: Millis,
    pub timeout: Millis,
    /// Register each period even if nothing changed.
    pub unchanged_too: bool,
    pub permission: Permission,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    pub auto_create: bool,
    pub default_queue_count: u32,
    pub cluster_topic: bool,
    pub broker_topic: bool,
    pub protect_system_topics: bool,
    /// Clients are told that tracing is on.
    pub trace_on: bool,
    /// The topic of traces exists.
    pub trace_topic: bool,
    pub trace_topic_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumers {
    pub auto_create_group: bool,
    pub notify_members_changed: bool,
    pub offset_save_interval: Millis,
    pub server_side_reset_offset: bool,
    /// A client without a heartbeat for so long is dropped.
    pub heartbeat_timeout: Millis,
    pub long_polling: bool,
    /// How long a pull is held without long polling.
    pub short_polling: Millis,
    pub pull_messages_max: u32,
    pub pull_bytes_max: u32,
    pub query_messages_max: u32,
    /// Consumers may filter by SQL92 expressions.
    pub property_filter: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// `maxMessageSize`: at most 128 MiB.
    pub body_bytes_max: u32,
    /// Sends before this time are refused. 0: none are.
    pub accept_sends_from: Millis,
    pub reject_transactions: bool,
    /// Replies to requests are stored too.
    pub store_replies: bool,
}

/// Topics of one queue that make themselves, and that one message can be put into many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LightQueues {
    pub enabled: bool,
    /// Messages name some in a property.
    pub dispatch: bool,
    /// Beyond it nothing is done that would make one more.
    pub count_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// How long producers are left in peace about a half message.
    pub immune_time: Millis,
    /// Time between two checks of a half message.
    pub check_interval: Millis,
    pub checks_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pop {
    /// Groups pop that have no mode of their own.
    pub pop_by_default: bool,
    /// Others' queues that a client of such a group pops beside its own. 0 or less: all.
    pub shared_queues_by_default: i32,
    /// Queues are assigned here to those who ask.
    pub assigns_queues: bool,
    /// Messages come again by `%RETRY%group+topic`.
    pub new_retry_topics: bool,
    /// With those: what is in `%RETRY%group_topic` is read too.
    pub old_retry_topics_too: bool,
    /// Of a hundred pops, so many begin with what comes again.
    pub retries_first_percent: u32,
    /// The same of pops that go by priority.
    pub priority_retries_first_percent: u32,
    /// Of queues that are priorities, the one with the highest number is popped first.
    pub highest_queue_first: bool,
}

/// Messages that are delivered later than they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Of level 1 and on. Not empty; each is at most [`super::DELAY_SECONDS_MAX`].
    pub levels: Vec<Millis>,
    /// Messages may name the time of their delivery.
    pub timers: bool,
    /// How far ahead that time may lie; at most [`super::DELAY_SECONDS_MAX`].
    pub timer_delay_max: Millis,
    /// Producers may take such messages back.
    pub recall: bool,
    /// Also while the broker's permission lacks writing.
    pub recall_when_not_writable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    pub root: PathBuf,
    /// Where segments lie, at least one folder. `root/commitlog` is the usual one.
    pub commit_logs: Vec<PathBuf>,
    /// A multiple of 4096, at least 1 MiB, and large enough for the largest message.
    pub segment_bytes: u64,
    pub flush: FlushDiskType,
    /// `None`: by the probe of the disk.
    pub flush_kind: Option<FlushKind>,
    /// Under [`FlushDiskType::Async`]: time between flushes.
    pub flush_interval: Millis,
    pub index_keys: bool,
    /// While messages are stored, of all logs together. `None`: no limit.
    pub cold_bytes_per_second: Option<u64>,
    pub read_cache_bytes: u64,
    pub page_cache: bool,
    pub tiers: TierSwitches,
}

/// When old segments go. Fillings are whole percents, rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Hours of the day at which expired segments go.
    pub delete_hours: Vec<u8>,
    pub keep_hours: u64,
    /// Above it expired segments go at any hour.
    pub used_percent_max: u8,
    /// Above it the oldest segments go, expired or not, if `drops_unexpired`.
    pub used_percent_forcing: u8,
    /// Above it sends are refused.
    pub used_percent_refusing: u8,
    pub drops_unexpired: bool,
    pub interval: Millis,
    /// Between two segments that go.
    pub pause: Millis,
    pub segments_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `None`: one for each processor.
    pub cores: Option<u16>,
    /// Of a new store. `None`: one for each core.
    pub logs: Option<u16>,
    /// Of each log. `None`: a 64th of the machine's memory divided by the logs.
    pub tail_cache_bytes: Option<u64>,
    pub prepare_ahead_bytes: u64,
    /// Of each log. Room for the largest message at least.
    pub unwritten_bytes_max: u64,
}

/// Times of the stages that requests pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    pub measured: bool,
    /// What takes longer is kept one by one. 0: none are.
    pub slower_than_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerRole {
    AsyncMaster,
    /// Like the other one while there is no replication.
    SyncMaster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushDiskType {
    Sync,
    Async,
}

/// What clients may do with the whole broker: 4 reads, 2 writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission(pub u8);

impl Permission {
    pub fn reads(self) -> bool {
        self.0 & 4 != 0
    }

    pub fn writes(self) -> bool {
        self.0 & 2 != 0
    }
}

/// A name or address with a port, not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

impl HostPort {
    /// Reads `host:port` or `[address]:port`.
    pub fn parse(text: &str) -> Option<HostPort> {
        let (host, port) = text.rsplit_once(':')?;
        let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().ok()?.to_string(),
            None => host.to_owned(),
        };
        let bracketed = text.starts_with('[');
        let named =
            !host.is_empty() && !host.contains(|letter: char| letter.is_whitespace() || ":/,[]".contains(letter));
        (bracketed || named).then_some(HostPort { host, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl Config {
    /// Reads all values. They passed their checks, so none can be wrong.
    pub(super) fn of(settings: &Settings) -> Config {
        Config {
            identity: identity_of(settings),
            network: Network {
                bind_address: settings.value("bindAddress"),
                listen_port: settings.value("listenPort"),
                advertised_address: settings.value("brokerIP1"),
                idle_ms_max: Millis(1000 * settings.value::<u64>("serverChannelMaxIdleTimeSeconds")),
            },
            registration: Registration {
                nameservers: host_ports(&settings.text("namesrvAddr")).flatten().collect(),
                period: millis(settings, "registerNameServerPeriod"),
                timeout: millis(settings, "registerBrokerTimeoutMills"),
                unchanged_too: settings.flag("forceRegister"),
                permission: Permission(settings.value("brokerPermission")),
            },
            topics: topics_of(settings),
            consumers: consumers_of(settings),
            messages: Messages {
                body_bytes_max: settings.value("maxMessageSize"),
                accept_sends_from: millis(settings, "startAcceptSendRequestTimeStamp"),
                reject_transactions: settings.flag("rejectTransactionMessage"),
                store_replies: settings.flag("storeReplyMessageEnable"),
            },
            light_queues: LightQueues {
                enabled: settings.flag("enableLmq"),
                dispatch: settings.flag("enableLmq") && settings.flag("enableMultiDispatch"),
                count_max: settings.value("maxLmqConsumeQueueNum"),
            },
            transactions: Transactions {
                immune_time: millis(settings, "transactionTimeOut"),
                check_interval: millis(settings, "transactionCheckInterval"),
                checks_max: settings.value("transactionCheckMax"),
            },
            pop: Pop {
                pop_by_default: settings.text("defaultMessageRequestMode") == "POP",
                shared_queues_by_default: settings.value("defaultPopShareQueueNum"),
                assigns_queues: settings.flag("serverLoadBalancerEnable"),
                new_retry_topics: settings.flag("enableRetryTopicV2"),
                old_retry_topics_too: settings.flag("retrieveMessageFromPopRetryTopicV1"),
                retries_first_percent: settings.value("popFromRetryProbability"),
                priority_retries_first_percent: settings.value("popFromRetryProbabilityForPriority"),
                highest_queue_first: settings.flag("priorityOrderAsc"),
            },
            delays: delays_of(settings),
            store: store_of(settings),
            retention: retention_of(settings),
            machine: Machine {
                cores: unless_zero(settings.value("cores")),
                logs: unless_zero(settings.value("logs")),
                tail_cache_bytes: unless_zero(settings.value("tailCacheBytes")),
                prepare_ahead_bytes: settings.value("prepareAheadBytes"),
                unwritten_bytes_max: settings.value("unwrittenBytesMax"),
            },
            stages: Stages {
                measured: settings.flag("stageTimes"),
                slower_than_us: settings.value("traceSlowerThanMicros"),
            },
        }
    }
}

fn identity_of(settings: &Settings) -> Identity {
    Identity {
        cluster: settings.text("brokerClusterName"),
        broker: settings.text("brokerName"),
        broker_id: settings.value("brokerId"),
        role: if settings.text("brokerRole") == "SYNC_MASTER" {
            BrokerRole::SyncMaster
        } else {
            BrokerRole::AsyncMaster
        },
        region: settings.text("regionId"),
    }
}

fn topics_of(settings: &Settings) -> Topics {
    Topics {
        auto_create: settings.flag("autoCreateTopicEnable"),
        default_queue_count: settings.value("defaultTopicQueueNums"),
        cluster_topic: settings.flag("clusterTopicEnable"),
        broker_topic: settings.flag("brokerTopicEnable"),
        protect_system_topics: settings.flag("validateSystemTopicWhenUpdateTopic"),
        trace_on: settings.flag("traceOn"),
        trace_topic: settings.flag("traceTopicEnable"),
        trace_topic_name: settings.text("msgTraceTopicName"),
    }
}

fn consumers_of(settings: &Settings) -> Consumers {
    Consumers {
        auto_create_group: settings.flag("autoCreateSubscriptionGroup"),
        notify_members_changed: settings.flag("notifyConsumerIdsChangedEnable"),
        offset_save_interval: millis(settings, "flushConsumerOffsetInterval"),
        server_side_reset_offset: settings.flag("useServerSideResetOffset"),
        heartbeat_timeout: millis(settings, "channelExpiredTimeout"),
        long_polling: settings.flag("longPollingEnable"),
        short_polling: millis(settings, "shortPollingTimeMills"),
        pull_messages_max: settings.value("maxTransferCountOnMessageInMemory"),
        pull_bytes_max: settings.value("maxTransferBytesOnMessageInMemory"),
        query_messages_max: settings.value("defaultQueryMaxNum"),
        property_filter: settings.flag("enablePropertyFilter"),
    }
}

fn delays_of(settings: &Settings) -> Delays {
    Delays {
        levels: delay_levels(&settings.text("messageDelayLevel")).flatten().collect(),
        timers: settings.flag("timerWheelEnable"),
        timer_delay_max: Millis(1000 * settings.value::<u64>("timerMaxDelaySec")),
        recall: settings.flag("recallMessageEnable"),
        recall_when_not_writable: settings.flag("allowRecallWhenBrokerNotWriteable"),
    }
}

fn store_of(settings: &Settings) -> Store {
    let root = settings.text("storePathRootDir");
    Store {
        root: PathBuf::from(root),
        commit_logs: settings.text("storePathCommitLog").split(',').map(PathBuf::from).collect(),
        segment_bytes: settings.value("mappedFileSizeCommitLog"),
        flush: if settings.text("flushDiskType") == "SYNC_FLUSH" { FlushDiskType::Sync } else { FlushDiskType::Async },
        flush_kind: FlushKind::of_name(&settings.text("flushKind")),
        flush_interval: millis(settings, "flushIntervalCommitLog"),
        index_keys: settings.flag("messageIndexEnable"),
        cold_bytes_per_second: unless_zero(settings.value("coldReadBytesPerSecond")),
        read_cache_bytes: settings.value("readCacheBytes"),
        page_cache: settings.flag("readsThroughPageCache"),
        tiers: TierSwitches {
            tail_cache: settings.flag("experimentReadTailCache"),
            resident: settings.flag("experimentReadResident"),
            cold: settings.flag("experimentReadCold"),
        },
    }
}

fn retention_of(settings: &Settings) -> Retention {
    Retention {
        delete_hours: hours(&settings.text("deleteWhen")).flatten().collect(),
        keep_hours: settings.value("fileReservedTime"),
        used_percent_max: settings.value("diskMaxUsedSpaceRatio"),
        used_percent_forcing: settings.value("diskSpaceCleanForciblyRatio"),
        used_percent_refusing: settings.value("diskSpaceWarningLevelRatio"),
        drops_unexpired: settings.flag("cleanFileForciblyEnable"),
        interval: millis(settings, "cleanResourceInterval"),
        pause: millis(settings, "deleteCommitLogFilesInterval"),
        segments_max: settings.value("deleteFileBatchMax"),
    }
}

fn millis(settings: &Settings, name: &str) -> Millis {
    Millis(settings.value(name))
}

fn unless_zero<T: Default + PartialEq>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}
