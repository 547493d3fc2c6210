//! The broker's state for admin tools: at run time (28), and one figure over time (315).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::rc::Rc;

use base::Millis;
use remoting::body::kv::KvTable;
use remoting::body::stages::StageTimes;
use remoting::body::stats::{BrokerStatsData, BrokerStatsItem};
use remoting::code::ResponseCode;
use remoting::command::{VERSION_NAME, VERSION_ORDINAL};
use remoting::header::stats::ViewBrokerStatsData;
use remoting::json;
use remoting::text::Text;
use runtime::clock;
use runtime::file::Space;
use transport::Limits;

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::config::Config;
use crate::core::Core;
use crate::retention;
use crate::stages;
use crate::stats::{self, Item, StatsView, Window};

use super::log_totals::log_totals;

/// 28, on any core.
pub(crate) async fn runtime_info(core: Rc<Core>, _request: Request) -> Outcome {
    let config = core.config();
    let counted = stats::gather(&core).await;
    let logs = log_totals(&core).await;
    let folders = retention::messages_folders(&config);
    let spaces = runtime::blocking(move || spaces(folders)).await;
    let mut table = Table::default();
    identity(&mut table, &core, &config);
    counts(&mut table, &counted);
    table.put("skippedMessagesTotal", counted.messages_skipped + logs.passed_over);
    logs.put(&mut table);
    disk(&mut table, &spaces);
    queues_of_threads(&mut table);
    timers(&mut table);
    let inconsistencies = core.on_each(|core| async move { core.groups.inconsistencies() }).await;
    stage_times(&mut table, &stages::gather(&core).await);
    table.put("inconsistentSubscriptions", inconsistencies.into_iter().sum::<u64>());
    Ok(Answer::success().with_body(json::encode(&KvTable { table: table.0 })))
}

/// 30001, on any core.
pub(crate) async fn stages(core: Rc<Core>, _request: Request) -> Outcome {
    Ok(Answer::success().with_body(json::encode(&stages::gather(&core).await)))
}

/// 315, on any core.
pub(crate) async fn view_stats(core: Rc<Core>, request: Request) -> Outcome {
    let header = ViewBrokerStatsData::decode(&request.command.fields)?;
    let unknown = || {
        let remark = format!("nothing was counted yet as {} of {}", header.stats_name, header.stats_key);
        Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
    };
    let item =
        Item::parse(&header.stats_name, &header.stats_key, &core.config().identity.cluster).ok_or_else(unknown)?;
    let view = stats::gather_item(&core, item).await.ok_or_else(unknown)?;
    let figures = |window| {
        let (sum, tps, avgpt) = view.figures(window);
        BrokerStatsItem { avgpt, sum: i64::try_from(sum).unwrap_or(i64::MAX), tps }
    };
    let body = BrokerStatsData {
        stats_day: figures(Window::Day),
        stats_hour: figures(Window::Hour),
        stats_minute: figures(Window::Minute),
    };
    Ok(Answer::success().with_body(json::encode(&body)))
}

#[derive(Default)]
pub(super) struct Table(BTreeMap<Text, Text>);

impl Table {
    pub(super) fn put(&mut self, key: impl Into<Text>, value: impl Display) {
        self.0.insert(key.into(), Text::from(format!("{value}")));
    }
}

fn identity(table: &mut Table, core: &Rc<Core>, config: &Config) {
    let (Millis(started_ms), Millis(now_ms)) = (core.stats.started(), clock::now_ms());
    table.put("brokerActive", true);
    table.put("brokerVersionDesc", VERSION_NAME);
    table.put("brokerVersion", VERSION_ORDINAL);
    table.put("bootTimestamp", started_ms);
    table.put("runtime", runtime_text(now_ms.saturating_sub(started_ms) / 1000));
    table.put("startAcceptSendRequestTimeStamp", config.messages.accept_sends_from);
}

fn counts(table: &mut Table, counted: &StatsView) {
    table.put("putTps", rates_text(counted.put_rates));
    table.put("getTransferredTps", rates_text(counted.got_rates));
    table.put("getFoundTps", rates_text(counted.found_rates));
    table.put("getMissTps", rates_text(counted.missed_rates));
    let total = std::array::from_fn(|span| counted.found_rates[span] + counted.missed_rates[span]);
    table.put("getTotalTps", rates_text(total));
    table.put("msgPutTotalYesterdayMorning", counted.put_yesterday_morning);
    table.put("msgPutTotalTodayMorning", counted.put_today_morning);
    table.put("msgPutTotalTodayNow", counted.put_messages);
    table.put("msgGetTotalYesterdayMorning", counted.got_yesterday_morning);
    table.put("msgGetTotalTodayMorning", counted.got_today_morning);
    table.put("msgGetTotalTodayNow", counted.got_messages);
    table.put("putMessageTimesTotal", counted.put_messages);
    table.put("putMessageFailedTimes", counted.sends_refused);
    table.put("repliesNotPassedOn", counted.replies_not_passed_on);
    table.put("putMessageSizeTotal", counted.put_bytes);
    table.put("putMessageAverageSize", format!("{:.2}", counted.put_bytes_average()));
    table.put("putMessageEntireTimeMax", counted.send_time_longest().as_millis());
    table.put("getMessageEntireTimeMax", counted.pull_time_longest.as_millis());
    table.put("putMessageDistributeTime", counted.send_distribution());
    table.put("putLatency99", format!("{:.2}", counted.send_percentile_ms(0.99)));
    table.put("putLatency999", format!("{:.2}", counted.send_percentile_ms(0.999)));
}

/// Where the time of requests goes, all cores together: what a stage has taken since the start, and its quantiles.
fn stage_times(table: &mut Table, times: &StageTimes) {
    for request in times.merged() {
        for stage in &request.stages {
            let name = format!("stage_{}_{}", request.request, stage.stage);
            table.put(format!("{name}_count"), stage.count());
            table.put(format!("{name}_micros_total"), stage.sum_nanos / 1000);
            for (quantile, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
                table.put(format!("{name}_{quantile}_micros"), stage.quantile_nanos(share) / 1000);
            }
        }
    }
}

/// The space on the disk of each folder for messages. A folder that nothing was put in may not be there, while the one
/// above it is. Blocks.
fn spaces(folders: Vec<PathBuf>) -> Vec<(PathBuf, Option<Space>)> {
    let space = |folder: &PathBuf| folder.ancestors().find_map(|folder| runtime::file::space(folder).ok());
    folders.into_iter().map(|folder| (folder.clone(), space(&folder))).collect()
}

/// Of several disks tools are told the emptiest one's filling, as RocketMQ does, beside each one's own.
fn disk(table: &mut Table, spaces: &[(PathBuf, Option<Space>)]) {
    let known = || spaces.iter().filter_map(|(_, space)| *space);
    let (total, free) =
        known().fold((0, 0), |(total, free), space| (total + space.bytes_total, free + space.bytes_available));
    let ratio = |space: Space| f64::from(retention::used_percent(space)) / 100.0;
    table.put("commitLogDirCapacity", format!("Total : {}, Free : {}.", bytes_text(total), bytes_text(free)));
    let emptiest = known().map(ratio).reduce(f64::min).unwrap_or(0.0);
    table.put("commitLogDiskRatio", emptiest);
    for (folder, space) in spaces {
        table.put(format!("commitLogDiskRatio_{}", folder.display()), space.map_or(-1.0, ratio));
    }
    table.put("consumeQueueDiskRatio", emptiest);
}

/// Requests wait in no queue for a thread: their connections stop being read instead. So sizes and waiting times are
/// 0, and the capacity is what one connection may have unanswered.
fn queues_of_threads(table: &mut Table) {
    let capacity = Limits::default().in_flight_requests_max;
    for name in ["send", "pull", "litePull", "query", "ack"] {
        table.put(format!("{name}ThreadPoolQueueSize"), 0);
        table.put(format!("{name}ThreadPoolQueueCapacity"), capacity);
        table.put(format!("{name}ThreadPoolQueueHeadWaitTimeMills"), 0);
    }
    table.put("EndTransactionQueueSize", 0);
    table.put("EndTransactionThreadPoolQueueCapacity", capacity);
}

/// Nothing is timed, so nothing is behind.
fn timers(table: &mut Table) {
    for key in ["timerReadBehind", "timerOffsetBehind", "timerCongestNum"] {
        table.put(key, 0);
    }
    for key in ["timerEnqueueTps", "timerDequeueTps"] {
        table.put(key, "0.0");
    }
}

/// `[ d days, h hours, m minutes, s seconds ]`
fn runtime_text(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("[ {days} days, {hours} hours, {minutes} minutes, {} seconds ]", seconds % 60)
}

/// Three decimals, separated by blanks.
fn rates_text(rates: [f64; 3]) -> String {
    rates.map(|rate| format!("{rate:.3}")).join(" ")
}

/// Bytes for people: `0 B`, `1.2 KiB`.
pub(super) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    let scaled = bytes as f64 / (1_u64 << (10 * power)) as f64;
    format!("{scaled:.1} {}", UNITS[power - 1])
}

#[cfg(test)]
mod tests {
    use super::super::log_totals::LogTotals;
    use super::*;

    #[test]
    fn texts_have_the_forms_that_tools_parse() {
        assert_eq!(runtime_text(0), "[ 0 days, 0 hours, 0 minutes, 0 seconds ]");
        assert_eq!(runtime_text(93_784), "[ 1 days, 2 hours, 3 minutes, 4 seconds ]");
        assert_eq!(rates_text([0.0, 1.23456, 1e6]), "0.000 1.235 1000000.000");
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1229, "1.2 KiB"), (100 << 30, "100.0 GiB"), (u64::MAX, "16.0 EiB")]
        {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn the_table_has_what_tools_read() {
        let mut table = Table::default();
        counts(&mut table, &StatsView::default());
        LogTotals::default().put(&mut table);
        queues_of_threads(&mut table);
        timers(&mut table);
        assert_eq!(table.0["putTps"], "0.000 0.000 0.000");
        assert_eq!(table.0["earliestMessageTimeStamp"], "-1");
        assert_eq!(table.0["remainHowManyDataToFlush"], "0 B");
        for (key, value) in &table.0 {
            assert!(!value.is_empty(), "{key}");
        }
    }
}
