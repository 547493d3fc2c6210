//! Bodies read what real peers send, and write what they read.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cluster::*;
use super::connection::*;
use super::consume::*;
use super::group::*;
use super::heartbeat::*;
use super::kv::*;
use super::queue::*;
use super::register::*;
use super::route::*;
use super::stats::*;
use super::topic::*;
use super::*;
use crate::json;
use crate::text::Text;

fn written<T: Serialize>(value: &T) -> String {
    String::from_utf8(json::encode(value).to_vec()).unwrap()
}

/// The body is written exactly as it was read.
fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(body: &str) -> T {
    let value: T = json::decode(body.as_bytes()).unwrap();
    assert_eq!(written(&value), body);
    value
}

/// What is written of a default value has its keys in alphabetical order, and comes back equal.
fn ordered<T: Serialize + DeserializeOwned + PartialEq + Default + std::fmt::Debug>() {
    let text = written(&T::default());
    assert_eq!(text, json::parse(text.as_bytes()).unwrap().to_string(), "keys out of order");
    assert_eq!(json::decode::<T>(text.as_bytes()).unwrap(), T::default());
    assert_eq!(json::decode::<T>(b"{}").unwrap(), T::default());
}

#[test]
fn keys_are_alphabetical() {
    ordered::<BrokerData>();
    ordered::<ClusterInfo>();
    ordered::<BrokerMemberGroupBody>();
    ordered::<Connection>();
    ordered::<ConsumerConnection>();
    ordered::<ProducerConnection>();
    ordered::<ProducerInfo>();
    ordered::<ProducerTable>();
    ordered::<ConsumeStats>();
    ordered::<OffsetWrapper>();
    ordered::<ConsumeStatsList>();
    ordered::<ResetOffsetBody>();
    ordered::<QueueOffsetForCpp>();
    ordered::<GetConsumerStatusBody>();
    ordered::<QueueTimeSpan>();
    ordered::<QueryConsumeTimeSpan>();
    ordered::<QueryCorrectionOffset>();
    ordered::<QuerySubscription>();
    ordered::<ConsumerOffsetTable>();
    ordered::<DelayOffsetTable>();
    ordered::<SubscriptionGroupConfig>();
    ordered::<SubscriptionGroupTable>();
    ordered::<ExponentialRetryPolicy>();
    ordered::<SimpleSubscriptionData>();
    ordered::<GroupForbidden>();
    ordered::<DeleteGroupList>();
    ordered::<Heartbeat>();
    ordered::<ConsumerData>();
    ordered::<CheckClientConfig>();
    ordered::<LockBatch>();
    ordered::<LockBatchResponse>();
    ordered::<ConsumeQueueData>();
    ordered::<QueryConsumeQueueResponse>();
    ordered::<RegisterBrokerBody>();
    ordered::<QueueData>();
    ordered::<TopicRouteData>();
    ordered::<BrokerStatsData>();
    ordered::<HaConnectionInfo>();
    ordered::<HaRuntimeInfo>();
    ordered::<TopicConfig>();
    ordered::<TopicConfigTable>();
    ordered::<TopicOffset>();
    ordered::<TopicStatsTable>();
    ordered::<TopicList>();
    ordered::<DataVersion>();
}

#[test]
fn a_java_heartbeat_is_read() {
    let heartbeat: Heartbeat = json::decode(
        br#"{"clientID":"10.0.0.9@12345#678",
 "producerDataSet":[{"groupName":"pg"}],
 "consumerDataSet":[{"groupName":"cg","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
   "consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","unitMode":false,
   "subscriptionDataSet":[{"classFilterMode":false,"topic":"T","subString":"a||b","tagsSet":["a","b"],"codeSet":[97,98],"subVersion":1700000000000,"expressionType":"TAG"}]}],
 "heartbeatFingerprint":0,"withoutSub":false}"#,
    )
    .unwrap();
    assert_eq!((heartbeat.client_id.as_str(), heartbeat.producer_data_set.len()), ("10.0.0.9@12345#678", 1));
    let consumer = &heartbeat.consumer_data_set[0];
    assert_eq!(consumer.consume_type, ConsumeType::Passively);
    let subscription = &consumer.subscription_data_set[0];
    assert_eq!((subscription.sub_version, subscription.code_set.clone()), (1_700_000_000_000, [97, 98].into()));
}

#[test]
fn a_go_heartbeat_is_read() {
    let heartbeat: Heartbeat = json::decode(
        br#"{"clientID":"c","producerDataSet":null,"consumerDataSet":[{"groupName":"cg","consumeType":"CONSUME_PASSIVELY",
            "messageModel":"Clustering","consumeFromWhere":"","subscriptionDataSet":[{"classFilterMode":false,"topic":"T",
            "subString":"*","tagsSet":[],"codeSet":["97"],"subVersion":1700000000000000000,"expressionType":""}],"unitMode":false}]}"#,
    )
    .unwrap();
    let consumer = &heartbeat.consumer_data_set[0];
    assert_eq!(
        (consumer.message_model, consumer.consume_from_where),
        (MessageModel::Clustering, ConsumeFromWhere::LastOffset)
    );
    assert!(consumer.subscription_data_set[0].clone().with_codes().is_all());
    assert!(heartbeat.producer_data_set.is_empty() && !heartbeat.without_sub);
    let wrong = br#"{"clientID":"c","consumerDataSet":[{"consumeType":"CONSUME_SOMEHOW"}]}"#;
    assert!(json::decode::<Heartbeat>(wrong).unwrap_err().to_string().contains("CONSUME_SOMEHOW"));
}

#[test]
fn routes_and_clusters_are_the_peers_bytes() {
    let route: TopicRouteData = same(
        r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#,
    );
    assert_eq!(route.broker_datas[0].broker_addrs[&MASTER_ID], "10.0.0.1:10911");
    let bare: TopicRouteData = json::decode(br#"{"brokerDatas":[{"brokerAddrs":{0:"a",2:"b",10:"c"}}]}"#).unwrap();
    assert_eq!(written(&bare.broker_datas[0].broker_addrs), r#"{"0":"a","2":"b","10":"c"}"#);
    same::<ClusterInfo>(
        r#"{"brokerAddrTable":{"broker-a":{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}"#,
    );
    same::<BrokerMemberGroupBody>(
        r#"{"brokerMemberGroup":{"brokerAddrs":{"0":"addr"},"brokerName":"b","cluster":"c"}}"#,
    );
}

#[test]
fn a_registration_is_read() {
    let body: RegisterBrokerBody = same(
        r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000000},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1},"topicConfigTable":{"T":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#,
    );
    assert_eq!(body.topic_config_serialize_wrapper.topic_config_table["T"].read_queue_nums, 4);
}

#[test]
fn tables_by_queue_have_objects_as_keys() {
    same::<TopicStatsTable>(
        r#"{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":9,"minOffset":0}},"topicPutTps":0.0}"#,
    );
    same::<ConsumeStats>(
        r#"{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"brokerOffset":9,"consumerOffset":5,"lastTimestamp":1700000000000,"pullOffset":7}}}"#,
    );
    same::<ResetOffsetBody>(
        r#"{"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:5,{"brokerName":"b","queueId":4,"topic":"T"}:7}}"#,
    );
    let queue = MessageQueue { broker_name: Text::from("b"), queue_id: 1, topic: Text::from("T") };
    let status = GetConsumerStatusBody {
        consumer_table: [(Text::from("cid"), [(queue, 3)].into_iter().collect())].into(),
        ..GetConsumerStatusBody::default()
    };
    assert_eq!(
        written(&status),
        r#"{"consumerTable":{"cid":{{"brokerName":"b","queueId":1,"topic":"T"}:3}},"messageQueueTable":{}}"#
    );
}

#[test]
fn groups_have_the_peers_defaults() {
    let group: SubscriptionGroupConfig = json::decode(br#"{"groupName":"g"}"#).unwrap();
    assert_eq!(
        written(&group),
        r#"{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}"#
    );
}

#[test]
fn locks_lists_and_tables_are_the_peers_bytes() {
    let lock: LockBatch = json::decode(
        br#"{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"T","brokerName":"b","queueId":1}],"onlyThisBroker":false}"#,
    )
    .unwrap();
    assert_eq!(
        written(&LockBatchResponse { locked: lock.mq_set }),
        r#"{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"T"}]}"#
    );
    same::<ConsumerList>(r#"{"consumerIdList":["cid1","cid2"]}"#);
    same::<KvTable>(r#"{"table":{"k":"v"}}"#);
    same::<TopicList>(r#"{"topicList":["A","B"]}"#);
    same::<TopicList>(r#"{"brokerAddr":"10.0.0.1:10911","topicList":["A"]}"#);
    same::<ConsumerOffsetTable>(
        r#"{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"offsetTable":{"topic@group":{"0":5}}}"#,
    );
    same::<QueryCorrectionOffset>(r#"{"correctionOffsets":{"0":5}}"#);
    let infos: BTreeMap<Text, Vec<ProducerInfo>> = [(Text::from("g"), vec![ProducerInfo::default()])].into();
    assert_eq!(
        written(&ProducerTable { data: infos }),
        r#"{"data":{"g":[{"clientId":"","language":"","lastUpdateTimestamp":0,"remoteIP":"","version":0}]}}"#
    );
    same::<HaRuntimeInfo>(
        r#"{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"ip:1","diff":0,"inSync":false,"slaveAckOffset":0,"transferFromWhere":0,"transferredByteInSecond":0}],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":0}"#,
    );
}
