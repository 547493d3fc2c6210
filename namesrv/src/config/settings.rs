//! The settings themselves: one row each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::suggest::nearest;
use super::{ConfigError, SettingError, Warning, properties};

/// What is known of a setting besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name in files and on the wire.
    pub key: &'static str,
    /// Why it is accepted but changes nothing here.
    pub no_effect: Option<&'static str>,
    /// A change at run time acts only after a restart.
    pub needs_restart: bool,
}

/// What a value's text can be read as.
trait Value: Sized {
    const KIND: &'static str;
    fn read(text: &str) -> Option<Self>;
    fn show(&self) -> String;
}

macro_rules! parsed_values {
    ($($type:ty: $kind:literal,)*) => {
        $(
            impl Value for $type {
                const KIND: &'static str = $kind;

                fn read(text: &str) -> Option<$type> {
                    text.parse().ok()
                }

                fn show(&self) -> String {
                    self.to_string()
                }
            }
        )*
    };
}

parsed_values! {
    bool: "true or false",
    u16: "a number from 0 to 65535",
    u32: "a number from 0 to 4294967295",
    String: "a text",
}

impl Value for Option<PathBuf> {
    const KIND: &'static str = "a path";

    fn read(text: &str) -> Option<Option<PathBuf>> {
        Some((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn show(&self) -> String {
        self.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

macro_rules! settings {
    (
        used { $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $key:literal $(, restart $restart:literal)?;)* }
        unused { $($unused:literal = $unused_default:literal, $reason:expr;)* }
    ) => {
        /// What the nameserver was told. Unset paths are derived, see [`Config::kv_file`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[$doc])* pub $field: $type,)*
            /// Settings of the peer that mean nothing here, kept for the tools that show them.
            unused: BTreeMap<&'static str, String>,
        }

        impl Default for Config {
            fn default() -> Config {
                Config {
                    $($field: $default,)*
                    unused: [$(($unused, $unused_default.to_owned()),)*].into(),
                }
            }
        }

        /// Every setting, those with an effect first.
        pub const SETTINGS: &[Setting] = &[
            $(Setting { key: $key, no_effect: None, needs_restart: false $(|| $restart)? },)*
            $(Setting { key: $unused, no_effect: Some($reason), needs_restart: false },)*
        ];

        impl Config {
            fn set_used(&mut self, key: &str, text: &str) -> Option<Result<(), SettingError>> {
                match key {
                    $($key => Some(match <$type as Value>::read(text) {
                        Some(value) => {
                            self.$field = value;
                            Ok(())
                        }
                        None => Err(SettingError::Value {
                            key: $key,
                            kind: <$type as Value>::KIND,
                            value: text.to_owned(),
                        }),
                    }),)*
                    _ => None,
                }
            }

            fn get_used(&self, key: &str) -> Option<String> {
                match key {
                    $($key => Some(self.$field.show()),)*
                    _ => None,
                }
            }
        }
    };
}

const ONE_CORE: &str = "the nameserver runs on one core and has no pools of threads";
const NO_QUEUE: &str = "requests are done when they arrive, so nothing queues";
const NO_NETTY: &str = "sockets are driven by io_uring, not by Netty";
const BY_KERNEL: &str = "the kernel sizes the buffers of sockets by itself";
const NO_CONTROLLER: &str = "there is no controller in this nameserver yet";

settings! {
    used {
        listen_port: u16 = 9876, "listenPort", restart true;
        bind_address: String = "0.0.0.0".to_owned(), "bindAddress", restart true;
        /// Where unset paths begin.
        rocketmq_home: Option<PathBuf> = None, "rocketmqHome", restart true;
        /// The file of the key-value table.
        kv_config_path: Option<PathBuf> = None, "kvConfigPath", restart true;
        /// The file that changed settings are written to; unset: they last until the process ends.
        config_store_path: Option<PathBuf> = None, "configStorePath", restart true;
        product_env_name: String = "center".to_owned(), "productEnvName";
        cluster_test: bool = false, "clusterTest";
        /// Routes tell the order of queues that `ORDER_TOPIC_CONFIG` has for their topic.
        order_message_enable: bool = false, "orderMessageEnable";
        /// Brokers get `ORDER_TOPIC_CONFIG` as the answer to their registration.
        return_order_topic_config_to_broker: bool = true, "returnOrderTopicConfigToBroker";
        /// Milliseconds between two looks for silent brokers.
        scan_not_active_broker_interval_ms: u32 = 5000, "scanNotActiveBrokerInterval";
        support_acting_master: bool = false, "supportActingMaster";
        enable_all_topic_list: bool = true, "enableAllTopicList";
        enable_topic_list: bool = true, "enableTopicList";
        notify_min_broker_id_changed: bool = false, "notifyMinBrokerIdChanged";
        /// Right after a start, no route is told before brokers had time to register.
        need_wait_for_service: bool = false, "needWaitForService";
        wait_seconds_for_service: u32 = 45, "waitSecondsForService";
        delete_topic_with_broker_registration: bool = false, "deleteTopicWithBrokerRegistration";
        /// Keys, separated by `;`, that no request may change, besides those that name a path.
        config_black_list: String = "configBlackList;configStorePath;kvConfigPath".to_owned(), "configBlackList";
        server_channel_max_idle_time_seconds: u32 = 120, "serverChannelMaxIdleTimeSeconds", restart true;
    }
    unused {
        "clientRequestThreadPoolNums" = "8", ONE_CORE;
        "clientRequestThreadPoolQueueCapacity" = "50000", NO_QUEUE;
        "defaultThreadPoolNums" = "16", ONE_CORE;
        "defaultThreadPoolQueueCapacity" = "10000", NO_QUEUE;
        "enableControllerInNamesrv" = "false", NO_CONTROLLER;
        "enableShutdownGracefully" = "false", "connections end when the process does; clients go to another nameserver";
        "serverAsyncSemaphoreValue" = "64", NO_QUEUE;
        "serverCallbackExecutorThreads" = "0", ONE_CORE;
        "serverNettyWorkerGroupEnable" = "true", NO_NETTY;
        "serverOnewaySemaphoreValue" = "256", NO_QUEUE;
        "serverPooledByteBufAllocatorEnable" = "true", NO_NETTY;
        "serverSelectorThreads" = "3", ONE_CORE;
        "serverSocketBacklog" = "1024", "the kernel's own limit holds";
        "serverSocketRcvBufSize" = "0", BY_KERNEL;
        "serverSocketSndBufSize" = "0", BY_KERNEL;
        "serverWorkerThreads" = "8", ONE_CORE;
        "shutdownWaitTimeSeconds" = "30", "connections end when the process does; clients go to another nameserver";
        "unRegisterBrokerQueueCapacity" = "3000", NO_QUEUE;
        "useEpollNativeSelector" = "false", NO_NETTY;
        "writeBufferHighWaterMark" = "0", NO_NETTY;
        "writeBufferLowWaterMark" = "0", NO_NETTY;
    }
}

/// Of paths that are not set: the folder below the home, as the peer has it.
const FOLDER: &str = "namesrv";
const KV_FILE: &str = "kvConfig.json";

impl Config {
    /// Settings whose files lie in `folder`.
    pub fn in_folder(folder: &Path) -> Config {
        Config { kv_config_path: Some(folder.join(KV_FILE)), ..Config::default() }
    }

    /// Reads the text of a RocketMQ `.conf` or `.properties` file. Of a key that comes twice the last value counts.
    ///
    /// # Errors
    /// When it is none, or when a setting cannot take its value.
    pub fn from_properties(text: &str) -> Result<(Config, Vec<Warning>), ConfigError> {
        let mut config = Config::default();
        let mut warnings = Vec::new();
        for property in properties::parse(text)? {
            match config.set(&property.key, &property.value) {
                Ok(()) => warnings.extend(no_effect(&property.key)),
                Err(SettingError::Unknown { key, nearest }) => warnings.push(Warning::Unknown { key, nearest }),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((config, warnings))
    }

    /// Reads the text of a TOML file with the same keys.
    ///
    /// # Errors
    /// When it is none, when a key is unknown, or when a setting cannot take its value.
    pub fn from_toml(text: &str) -> Result<(Config, Vec<Warning>), ConfigError> {
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| ConfigError::Toml { what: error.to_string() })?;
        let mut config = Config::default();
        let mut warnings = Vec::new();
        for (key, value) in &table {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            config.set(key, &value)?;
            warnings.extend(no_effect(key));
        }
        Ok((config, warnings))
    }

    /// Sets one setting from its text.
    ///
    /// # Errors
    /// When the key is unknown or the value is not of its kind. Nothing is changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            return Err(SettingError::Unknown { key: key.to_owned(), nearest: nearest(key) });
        };
        let value = value.trim();
        if value.contains(char::is_control) {
            let kind = "on one line, without control characters";
            return Err(SettingError::Value { key: setting.key, kind, value: value.escape_default().to_string() });
        }
        if let Some(result) = self.set_used(key, value) {
            return result;
        }
        self.unused.insert(setting.key, value.to_owned());
        Ok(())
    }

    /// The value of a setting as text.
    pub fn get(&self, key: &str) -> Option<String> {
        match key {
            "kvConfigPath" => Some(self.kv_file().display().to_string()),
            _ => self.get_used(key).or_else(|| self.unused.get(key).cloned()),
        }
    }

    /// All settings as lines `key=value`, by key: what tools get to see.
    pub fn to_properties(&self) -> String {
        let mut keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        keys.sort_unstable();
        let line = |key| format!("{key}={}\n", self.get(key).expect("every setting has a value"));
        keys.into_iter().map(line).collect()
    }

    /// The file of the key-value table: the one that is set, else `namesrv/kvConfig.json` below the home of RocketMQ,
    /// of the user, or of the process.
    pub fn kv_file(&self) -> PathBuf {
        let derived = || {
            let home = self.rocketmq_home.clone().or_else(|| std::env::var_os("HOME").map(PathBuf::from));
            home.unwrap_or_else(|| PathBuf::from(".")).join(FOLDER).join(KV_FILE)
        };
        self.kv_config_path.clone().unwrap_or_else(derived)
    }
}

fn no_effect(key: &str) -> Option<Warning> {
    let setting = SETTINGS.iter().find(|setting| setting.key == key)?;
    setting.no_effect.map(|reason| Warning::NoEffect { key: setting.key, reason })
}
