//! Routes: which brokers have which queues of a topic. Kept for a while, asked for again when they are old.

use std::time::Instant;

use remoting::body::MessageQueue;
use remoting::body::cluster::MASTER_ID;
use remoting::body::route::{QueueData, TopicRouteData, permission};
use remoting::code::RequestCode;
use remoting::header::namesrv::GetRouteInfo;
use remoting::json;
use remoting::name::AUTO_CREATE_TOPIC;
use remoting::text::Text;
use runtime::clock;

use crate::Client;
use crate::error::ClientError;

/// Queues that a topic made on its first send has, unless the broker offers fewer.
pub(crate) const NEW_TOPIC_QUEUES: i32 = 4;

/// The route of one topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    pub data: TopicRouteData,
    /// The topic does not exist yet: these are the brokers that make it on the first send.
    pub borrowed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct CachedRoute {
    route: Route,
    fetched: Instant,
}

impl Route {
    /// The queues that can be sent to, of brokers that have a master.
    pub fn queues_to_send(&self, topic: &str) -> Vec<MessageQueue> {
        let writable = self.data.queue_datas.iter().filter(|queue| queue.perm & permission::WRITE != 0);
        writable
            .filter(|queue| self.address_to_send(&queue.broker_name).is_some())
            .flat_map(|queue| queues_of(queue, topic, queue.write_queue_nums))
            .collect()
    }

    /// The queues that can be read.
    pub fn queues_to_read(&self, topic: &str) -> Vec<MessageQueue> {
        let readable = self.data.queue_datas.iter().filter(|queue| queue.perm & permission::READ != 0);
        readable.flat_map(|queue| queues_of(queue, topic, queue.read_queue_nums)).collect()
    }

    /// The master of a broker.
    pub fn address_to_send(&self, broker_name: &str) -> Option<&Text> {
        let broker = self.data.broker_datas.iter().find(|broker| broker.broker_name == broker_name)?;
        broker.broker_addrs.get(&MASTER_ID)
    }

    /// The master of a broker, or else its first slave.
    pub fn address_to_read(&self, broker_name: &str) -> Option<&Text> {
        let broker = self.data.broker_datas.iter().find(|broker| broker.broker_name == broker_name)?;
        broker.broker_addrs.values().next()
    }

    /// Name and address of each broker, the master where there is one.
    pub fn brokers(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.data
            .broker_datas
            .iter()
            .filter_map(|broker| Some((&broker.broker_name, broker.broker_addrs.values().next()?)))
    }
}

fn queues_of(queue: &QueueData, topic: &str, count: i32) -> impl Iterator<Item = MessageQueue> {
    let (broker_name, topic) = (queue.broker_name.clone(), Text::from(topic));
    (0..count).map(move |queue_id| MessageQueue { broker_name: broker_name.clone(), queue_id, topic: topic.clone() })
}

/// The queue that a send takes, counted from `turn`: one of another broker than `avoided` where there is any.
pub(crate) fn choose_queue<'a>(
    queues: &'a [MessageQueue],
    avoided: Option<&str>,
    turn: usize,
) -> Option<&'a MessageQueue> {
    let count = queues.len();
    let mut in_turn = (0..count).map(|step| &queues[(turn.wrapping_add(step)) % count]);
    in_turn.clone().find(|queue| avoided.is_none_or(|avoided| queue.broker_name != avoided)).or_else(|| in_turn.next())
}

impl Client {
    /// The route of a topic, from memory while it is young.
    ///
    /// # Errors
    /// When no broker has the topic or no nameserver tells.
    pub async fn route(&self, topic: &str) -> Result<Route, ClientError> {
        let known = self.inner.routes.borrow().get(topic).cloned();
        if let Some(known) = known
            && clock::instant().saturating_duration_since(known.fetched) < self.inner.limits.route_age_max
        {
            return Ok(known.route);
        }
        self.refresh_route(topic).await
    }

    /// The route of a topic as a nameserver tells it now.
    ///
    /// # Errors
    /// When no broker has the topic or no nameserver tells.
    pub async fn refresh_route(&self, topic: &str) -> Result<Route, ClientError> {
        match self.fetch_route(topic).await? {
            Some(data) => {
                let route = Route { data, borrowed: false };
                let cached = CachedRoute { route: route.clone(), fetched: clock::instant() };
                self.inner.routes.borrow_mut().insert(Text::from(topic), cached);
                Ok(route)
            }
            None => {
                self.forget_route(topic);
                Err(ClientError::NoRoute { topic: topic.to_owned() })
            }
        }
    }

    /// The route of a topic to send to: of one that does not exist, the brokers that make topics on the first send.
    ///
    /// # Errors
    /// When neither the topic nor such a broker exists, or no nameserver tells.
    pub async fn route_to_send(&self, topic: &str) -> Result<Route, ClientError> {
        let missing = match self.route(topic).await {
            Err(error @ ClientError::NoRoute { .. }) => error,
            known => return known,
        };
        let Some(mut data) = self.fetch_route(AUTO_CREATE_TOPIC).await? else { return Err(missing) };
        for queue in &mut data.queue_datas {
            let count = queue.read_queue_nums.min(NEW_TOPIC_QUEUES);
            (queue.read_queue_nums, queue.write_queue_nums) = (count, count);
        }
        Ok(Route { data, borrowed: true })
    }

    /// Makes the next use of the topic ask a nameserver.
    pub fn forget_route(&self, topic: &str) {
        self.inner.routes.borrow_mut().remove(topic);
    }

    async fn fetch_route(&self, topic: &str) -> Result<Option<TopicRouteData>, ClientError> {
        let header = GetRouteInfo {
            topic: Text::from(topic),
            accept_standard_json_only: true,
            zone_name: None,
            zone_mode: false,
        };
        let Some((address, answer)) = self.route_body(header.to_fields()).await? else { return Ok(None) };
        let request = RequestCode::GET_ROUTEINFO_BY_TOPIC;
        json::decode(&answer.body).map(Some).map_err(|error| ClientError::unreadable_body(&address, request, &error))
    }

    /// The address at which a queue is read.
    pub(crate) async fn address_of_queue(&self, queue: &MessageQueue) -> Result<Text, ClientError> {
        let no_broker = || ClientError::NoBroker { broker: queue.broker_name.as_str().to_owned() };
        let route = self.route(&queue.topic).await?;
        if let Some(address) = route.address_to_read(&queue.broker_name) {
            return Ok(address.clone());
        }
        let route = self.refresh_route(&queue.topic).await?;
        route.address_to_read(&queue.broker_name).cloned().ok_or_else(no_broker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(json: &str) -> Route {
        Route { data: json::decode(json.as_bytes()).expect("a route"), borrowed: false }
    }

    const TWO_BROKERS: &str = r#"{"brokerDatas":[
        {"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"a","cluster":"C"},
        {"brokerAddrs":{"1":"h:3"},"brokerName":"b","cluster":"C"}],
        "queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":2},
        {"brokerName":"b","perm":4,"readQueueNums":1,"writeQueueNums":1}]}"#;

    fn names(queues: &[MessageQueue]) -> Vec<String> {
        queues.iter().map(|queue| format!("{}{}", queue.broker_name, queue.queue_id)).collect()
    }

    #[test]
    fn only_masters_are_sent_to_and_permissions_count() {
        let route = route(TWO_BROKERS);
        assert_eq!(names(&route.queues_to_send("T")), ["a0", "a1"]);
        assert_eq!(names(&route.queues_to_read("T")), ["a0", "b0"]);
        assert_eq!(route.address_to_send("b"), None);
        assert_eq!(route.address_to_read("b").expect("a slave"), "h:3");
    }

    #[test]
    fn a_retry_goes_to_another_broker_where_there_is_one() {
        let queue =
            |broker: &str, queue_id| MessageQueue { broker_name: Text::from(broker), queue_id, topic: Text::from("T") };
        let queues = [queue("a", 0), queue("a", 1), queue("b", 0)];
        for (avoided, turn, expected) in [
            (None, 0, "a0"),
            (None, 1, "a1"),
            (None, 5, "b0"),
            (Some("a"), 0, "b0"),
            (Some("b"), 2, "a0"),
            (None, usize::MAX, "a0"),
        ] {
            let chosen = choose_queue(&queues, avoided, turn).expect("a queue");
            assert_eq!(names(std::slice::from_ref(chosen)), [expected], "{avoided:?} {turn}");
        }
        assert_eq!(choose_queue(&queues[..2], Some("a"), 1), Some(&queues[1]), "the only broker is tried again");
        assert_eq!(choose_queue(&[], None, 0), None);
    }
}
