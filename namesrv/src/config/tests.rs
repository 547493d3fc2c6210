use super::*;

#[test]
fn properties_set_what_they_name() {
    let text = "listenPort=1234\nserverWorkerThreads=4\nbrokerClusterName=c\nlistenPrt=1\nenableTopicList = false \n";
    let (config, warnings) = Config::from_properties(text).unwrap();
    assert_eq!((config.listen_port, config.enable_topic_list), (1234, false));
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert!(shown[0].starts_with("serverWorkerThreads is accepted without effect: "), "{shown:?}");
    assert_eq!(
        shown[1..],
        [
            "unknown nameserver setting brokerClusterName",
            "unknown nameserver setting listenPrt, did you mean listenPort?"
        ]
    );
    assert!(config.to_properties().contains("\nserverWorkerThreads=4\n"));
}

#[test]
fn toml_takes_the_same_keys_and_no_others() {
    let (config, warnings) =
        Config::from_toml("listenPort = 1234\nclusterTest = true\nproductEnvName = 'x'\n").unwrap();
    assert_eq!((config.listen_port, config.cluster_test, config.product_env_name.as_str()), (1234, true, "x"));
    assert_eq!(warnings, []);
    for (text, error) in [
        ("listenPrt = 1", "there is no nameserver setting listenPrt, did you mean listenPort?; remove it"),
        ("listenPort = 70000", "the setting listenPort must be a number from 0 to 65535, but is \"70000\""),
        ("clusterTest = 1", "the setting clusterTest must be true or false, but is \"1\""),
        (
            "productEnvName = \"a\\nb\"",
            "the setting productEnvName must be on one line, without control characters, but is \"a\\nb\"",
        ),
    ] {
        assert_eq!(Config::from_toml(text).unwrap_err().to_string(), error);
    }
    assert!(Config::from_toml("x = ").unwrap_err().to_string().starts_with("the file is no TOML: "));
}

#[test]
fn every_setting_is_shown_and_can_be_read_again() {
    let config = Config::in_folder(std::path::Path::new("/some/folder"));
    let text = config.to_properties();
    assert!(text.contains("kvConfigPath=/some/folder/kvConfig.json\n"), "{text}");
    assert_eq!(text.lines().count(), SETTINGS.len());
    assert_eq!(Config::from_properties(&text).unwrap().0, config);
    let mut with_home = Config::default();
    with_home.rocketmq_home = Some("/home/of/it".into());
    assert_eq!(with_home.kv_file(), std::path::Path::new("/home/of/it/namesrv/kvConfig.json"));
}
