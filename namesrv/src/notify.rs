//! Tells brokers of a name that their lowest id changed (905): each is dialled, told one-way, and not asked back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

use remoting::body::cluster::BrokerData;
use remoting::header::namesrv::NotifyMinBrokerIdChange;
use remoting::{Command, RequestCode, Text};
use runtime::clock;
use transport::{Connection, Limits, Service, connect};

/// A broker that cannot be reached within this time is not told; it asks by itself sooner or later.
const NOTIFY_TIME_MAX: Duration = Duration::from_millis(300);

/// Requests of a broker over a connection that the nameserver opened: there are none to answer.
struct Silent;

impl Service for Silent {
    fn request(&self, connection: &Rc<Connection>, _request: Command, bytes: usize) {
        connection.finished(bytes);
    }
}

/// Connections to brokers that were told something, at most one each.
#[derive(Default)]
pub(crate) struct Notifier {
    connections: RefCell<BTreeMap<Text, Rc<Connection>>>,
}

/// What is told to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) header: NotifyMinBrokerIdChange,
    pub(crate) addresses: Vec<Text>,
}

/// After somebody left, all who stay are told. After somebody with a lower id came, all but that one, who knows.
pub(crate) fn notice(data: &BrokerData, offline: Option<Text>, ha_address: Option<Text>) -> Option<Notice> {
    let (min_broker_id, min_broker_addr) = data.broker_addrs.first_key_value()?;
    let tells_all = offline.is_some() || data.broker_addrs.len() == 1;
    let told = data.broker_addrs.iter().filter(|(id, _)| tells_all || *id != min_broker_id);
    let addresses = told.map(|(_, address)| address.clone()).collect();
    let header = NotifyMinBrokerIdChange {
        min_broker_id: Some(*min_broker_id),
        broker_name: Some(data.broker_name.clone()),
        min_broker_addr: Some(min_broker_addr.clone()),
        offline_broker_addr: offline,
        ha_broker_addr: ha_address,
    };
    Some(Notice { header, addresses })
}

impl Notifier {
    /// Tells all addresses of a notice, at the same time and without waiting for any.
    pub(crate) fn send(self: &Rc<Self>, notice: Notice) {
        let request = Command::request(RequestCode::NOTIFY_MIN_BROKER_ID_CHANGE, notice.header.to_fields()).oneway();
        for address in notice.addresses {
            let (notifier, request) = (self.clone(), request.clone());
            runtime::spawn_background(async move {
                if let Some(connection) = notifier.connection(address).await {
                    connection.send(request);
                }
            });
        }
    }

    async fn connection(&self, address: Text) -> Option<Rc<Connection>> {
        self.connections.borrow_mut().retain(|_, connection| !connection.is_closed());
        if let Some(connection) = self.connections.borrow().get(&address) {
            return Some(connection.clone());
        }
        let name = address.to_string();
        let dialled = async {
            let found: Option<SocketAddr> =
                runtime::blocking(move || name.to_socket_addrs().ok().and_then(|mut all| all.next())).await;
            connect(found?, Rc::new(Silent), Limits::default()).await.ok()
        };
        let connection = clock::within(NOTIFY_TIME_MAX, dialled).await.flatten()?;
        self.connections.borrow_mut().insert(address, connection.clone());
        Some(connection)
    }

    pub(crate) fn close(&self) {
        self.connections.borrow_mut().retain(|_, connection| {
            connection.close();
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_are_told_who_do_not_know() {
        let data = |ids: &[i64]| BrokerData {
            broker_addrs: ids.iter().map(|id| (*id, Text::from(format!("b:{id}")))).collect(),
            broker_name: "b".into(),
            ..BrokerData::default()
        };
        for (ids, offline, told) in
            [(&[1, 2][..], None, &["b:2"][..]), (&[1, 2], Some("b:0"), &["b:1", "b:2"]), (&[1], None, &["b:1"])]
        {
            let notice = notice(&data(ids), offline.map(Text::from), None).unwrap();
            assert_eq!(notice.addresses, told);
            assert_eq!((notice.header.min_broker_id, notice.header.min_broker_addr), (Some(1), Some("b:1".into())));
        }
        assert_eq!(notice(&data(&[]), None, None), None);
    }
}
