//! The cluster list: every broker with its state.

use std::collections::BTreeMap;

use clap::Args;
use remoting::text::Text;
use serde_json::Value;

use super::{Session, Tally};
use crate::failure::Failure;
use crate::table::Table;

const HOUR_MS: f64 = 3_600_000.0;

#[derive(Debug, Args)]
pub(super) struct ClusterList {
    /// Only this cluster
    #[arg(short = 'c', long = "clusterName", value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Print the day's totals instead
    #[arg(short = 'm', long = "moreStats")]
    totals: bool,
}

impl ClusterList {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let info = session.client.cluster_info().await?;
        let mut table = if self.totals { totals_table() } else { state_table() };
        let mut tally = Tally::default();
        for (cluster, names) in &info.cluster_addr_table {
            if self.cluster.as_ref().is_some_and(|wanted| cluster != wanted) {
                continue;
            }
            for name in names {
                let addresses = info.broker_addr_table.get(name).map(|broker| &broker.broker_addrs);
                for (id, address) in addresses.into_iter().flatten() {
                    let status = tally.wait(session.client.broker_status(address)).await.unwrap_or_default().table;
                    let status = Status { table: &status };
                    let mut row = vec![Value::from(cluster.as_str()), Value::from(name.as_str())];
                    if self.totals {
                        row.extend(status.totals());
                    } else {
                        row.extend([Value::from(*id), Value::from(address.as_str())]);
                        row.extend(status.state(runtime::clock::now_ms().0));
                    }
                    table.push(row);
                }
            }
        }
        session.output.table(&table)?;
        tally.end()
    }
}

fn state_table() -> Table {
    Table::new(&[
        ("#Cluster Name", "clusterName"),
        ("#Broker Name", "brokerName"),
        ("#BID", "brokerId"),
        ("#Addr", "brokerAddr"),
        ("#Version", "version"),
        ("#InTPS(LOAD)", "inTps"),
        ("#OutTPS(LOAD)", "outTps"),
        ("#Timer(Progress)", "timerProgress"),
        ("#PCWait(ms)", "pageCacheWaitMs"),
        ("#Hour", "hours"),
        ("#SPACE", "space"),
        ("#ACTIVATED", "activated"),
    ])
}

fn totals_table() -> Table {
    Table::new(&[
        ("#Cluster Name", "clusterName"),
        ("#Broker Name", "brokerName"),
        ("#InTotalYest", "inTotalYesterday"),
        ("#OutTotalYest", "outTotalYesterday"),
        ("#InTotalToday", "inTotalToday"),
        ("#OutTotalToday", "outTotalToday"),
    ])
}

/// A broker's state as it tells it; what it does not tell is 0 or empty.
struct Status<'a> {
    table: &'a BTreeMap<Text, Text>,
}

impl Status<'_> {
    fn text(&self, key: &str) -> &str {
        self.table.get(key).map_or("", Text::as_str)
    }

    fn whole(&self, key: &str) -> i64 {
        self.text(key).trim().parse().unwrap_or(0)
    }

    /// The first of the decimals of a value.
    fn decimal(&self, key: &str) -> f64 {
        self.text(key).split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
    }

    /// From the version on.
    fn state(&self, now_ms: u64) -> [Value; 8] {
        if self.table.is_empty() {
            return std::array::from_fn(|_| Value::Null);
        }
        let load = |queue: &str| {
            let (length, wait) =
                (format!("{queue}ThreadPoolQueueSize"), format!("{queue}ThreadPoolQueueHeadWaitTimeMills"));
            format!("{},{}ms", self.whole(&length), self.whole(&wait))
        };
        let earliest_ms = self.whole("earliestMessageTimeStamp");
        let hours = if earliest_ms > 0 { (now_ms as i64 - earliest_ms) as f64 / HOUR_MS } else { 0.0 };
        [
            Value::from(self.text("brokerVersionDesc")),
            Value::from(format!("{:.2}({})", self.decimal("putTps"), load("send"))),
            Value::from(format!("{:.2}({}|{})", self.decimal("getTransferredTps"), load("pull"), load("ack"))),
            Value::from(format!(
                "{}-{}({:.1}w, {:.1}, {:.1})",
                self.whole("timerReadBehind"),
                self.whole("timerOffsetBehind"),
                self.whole("timerCongestNum") as f64 / 10_000.0,
                self.decimal("timerEnqueueTps"),
                self.decimal("timerDequeueTps"),
            )),
            Value::from(self.whole("pageCacheLockTimeMills")),
            Value::from(format!("{hours:.2}")),
            Value::from(format!("{:.4}", self.decimal("commitLogDiskRatio"))),
            Value::from(self.text("brokerActive")),
        ]
    }

    fn totals(&self) -> [Value; 4] {
        let between = |count: &str, start: &str, limit: &str| {
            Value::from(self.whole(&format!("{count}{limit}")) - self.whole(&format!("{count}{start}")))
        };
        [
            between("msgPutTotal", "YesterdayMorning", "TodayMorning"),
            between("msgGetTotal", "YesterdayMorning", "TodayMorning"),
            between("msgPutTotal", "TodayMorning", "TodayNow"),
            between("msgGetTotal", "TodayMorning", "TodayNow"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, &str)]) -> BTreeMap<Text, Text> {
        entries.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
    }

    #[test]
    fn a_state_becomes_columns() {
        let entries = table(&[
            ("brokerVersionDesc", "V5_4_0"),
            ("putTps", "12.345 1.0 2.0"),
            ("sendThreadPoolQueueSize", "3"),
            ("getTransferredTps", "0.0 0.0 0.1"),
            ("timerCongestNum", "25000"),
            ("earliestMessageTimeStamp", "1000"),
            ("commitLogDiskRatio", "0.17"),
            ("brokerActive", "true"),
        ]);
        let state = Status { table: &entries }.state(3_601_000);
        let expected =
            ["V5_4_0", "12.35(3,0ms)", "0.00(0,0ms|0,0ms)", "0-0(2.5w, 0.0, 0.0)", "", "1.00", "0.1700", "true"];
        for (found, expected) in state.iter().zip(expected) {
            match found {
                Value::Number(number) => assert_eq!(number.as_i64(), Some(0)),
                found => assert_eq!(found, expected),
            }
        }
    }

    #[test]
    fn totals_are_differences_and_silence_is_empty() {
        let entries = table(&[
            ("msgPutTotalYesterdayMorning", "5"),
            ("msgPutTotalTodayMorning", "7"),
            ("msgPutTotalTodayNow", "10"),
        ]);
        assert_eq!(
            Status { table: &entries }.totals().map(|value| value.as_i64()),
            [Some(2), Some(0), Some(3), Some(0)]
        );
        assert!(Status { table: &table(&[]) }.state(0).iter().all(Value::is_null));
    }
}
