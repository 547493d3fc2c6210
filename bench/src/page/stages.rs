//! Where the time goes, on the page: a bar of stages, a table of them, and slow sends one by one.

use std::fmt::Write as _;

use serde_json::Value;

use super::svg::{COLOURS, escaped, number, time};
use crate::folder::stored::StoredPhase;

const WIDTH: f64 = 640.0;
const BAR_HEIGHT: f64 = 34.0;
/// Narrower parts have their words in the legend only.
const WORD_WIDTH_MIN: f64 = 60.0;
/// Slow sends shown; `run.json` has more.
const SLOW_SHOWN: usize = 20;

/// A part of the bar.
struct Part {
    name: String,
    us: f64,
    class: String,
}

/// All of one phase in one round; nothing where the target did not tell.
pub(super) fn of_phase(phase: &StoredPhase, of: &str) -> String {
    let mut text = String::new();
    let stages = &phase.record["stages"];
    for request in stages["requests"].as_array().into_iter().flatten() {
        let name = escaped(request["request"].as_str().unwrap_or_default());
        let article = if name.starts_with('a') { "an" } else { "a" };
        let _ = write!(text, "<h3>Where the time of {article} {name} goes{of}</h3>{}", bar(request));
        let _ = write!(text, "<div class=\"wide\">{}</div>", table(request));
    }
    for (stage, why) in stages["absent"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "<p>No {}: {}.</p>", escaped(stage), escaped(why.as_str().unwrap_or_default()));
    }
    text.push_str(&slow(&phase.record["slow"], of));
    text
}

fn us(row: &Value, member: &str) -> f64 {
    row[member].as_f64().unwrap_or(0.0)
}

fn rows(of: &Value) -> impl Iterator<Item = &Value> {
    of["stages"].as_array().into_iter().flatten()
}

/// The mean time of a request as the client sees it: before it was sent, in each stage, and what is left.
fn parts(request: &Value) -> Vec<Part> {
    let stages = rows(request).filter(|row| row["stage"] != "total").enumerate().map(|(index, row)| Part {
        name: row["stage"].as_str().unwrap_or_default().to_owned(),
        us: us(row, "a_request_us"),
        class: format!("c{}", index % COLOURS),
    });
    let other =
        |name: &str, member| Part { name: name.to_owned(), us: us(request, member), class: "hiccups".to_owned() };
    let before = std::iter::once(other("send-lag", "send_lag_us"));
    let after = [other("network", "network_us"), other("client wakes", "client_wake_us")];
    before.chain(stages).chain(after).filter(|part| part.us > 0.0).collect()
}

fn bar(request: &Value) -> String {
    let parts = parts(request);
    let all: f64 = parts.iter().map(|part| part.us).sum();
    let mut text = String::from("<figure><div class=\"legend\">");
    for part in &parts {
        let (class, name, share) = (&part.class, escaped(&part.name), 100.0 * part.us / all);
        let _ = write!(
            text,
            "<span><span class=\"key {class}\"></span>{name} {} ({})</span>",
            time(part.us),
            percent(share)
        );
    }
    let _ = write!(
        text,
        "</div><svg viewBox=\"0 0 {WIDTH} {BAR_HEIGHT}\" role=\"img\" aria-label=\"mean time by stage, {} in all\">",
        time(all)
    );
    let mut x = 0.0;
    for part in &parts {
        let width = WIDTH * part.us / all;
        let (class, name) = (&part.class, escaped(&part.name));
        let _ = write!(
            text,
            "<rect class=\"area {class}\" stroke=\"none\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" \
             height=\"{BAR_HEIGHT}\"><title>{name}: {}</title></rect>",
            time(part.us)
        );
        if width >= WORD_WIDTH_MIN {
            let (x, y) = (x + width / 2.0, BAR_HEIGHT / 2.0 + 4.0);
            let _ = write!(text, "<text class=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>");
        }
        x += width;
    }
    text.push_str("</svg></figure>\n");
    text
}

fn percent(share: f64) -> String {
    format!("{} %", number((share * 10.0).round() / 10.0))
}

/// A row for each stage of all cores, then of each core.
fn table(request: &Value) -> String {
    let mut text = String::from(
        "<table><tr><th>stage</th><th>core</th><th>count</th><th>share</th><th>a request</th><th>p50</th><th>p99</th>\
         <th>p99.9</th></tr>\n",
    );
    let mut push = |core: &str, row: &Value| {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{core}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(row["stage"].as_str().unwrap_or_default()),
            number(us(row, "count")),
            percent(100.0 * us(row, "share")),
            time(us(row, "a_request_us")),
            time(us(row, "p50_us")),
            time(us(row, "p99_us")),
            time(us(row, "p99_9_us")),
        );
    };
    rows(request).for_each(|row| push("all", row));
    for core in request["cores"].as_array().into_iter().flatten() {
        rows(core).for_each(|row| push(&core["core"].to_string(), row));
    }
    text.push_str("</table>\n");
    if let Some(share) = request["explained"].as_f64() {
        let _ = writeln!(
            text,
            "<p>The stages ({}), sending late ({}) and the waking of the client's readers ({}) explain {} of the {} from \
             due to answered; what is left is the network, and what the clocks of both sides see twice.</p>",
            time(us(request, "server_us")),
            time(us(request, "send_lag_us")),
            time(us(request, "client_wake_us")),
            percent(100.0 * share),
            time(us(request, "client_us")),
        );
    }
    text
}

fn slow(slow: &Value, of: &str) -> String {
    let Some(slow) = slow.as_array().filter(|slow| !slow.is_empty()) else { return String::new() };
    let mut text = format!(
        "<h3>Slow sends{of}</h3><div class=\"wide\"><table><tr><th>opaque</th><th>latency</th><th>at the server</th>\
         <th>rest</th><th>core</th><th>owner</th><th>stages</th></tr>\n"
    );
    for send in slow.iter().take(SLOW_SHOWN) {
        let cell = |member: &str| send[member].as_f64().map(time).unwrap_or_default();
        let plain = |member: &str| send[member].as_u64().map(|value| value.to_string()).unwrap_or_default();
        let stage =
            |row: &Value| format!("{} {}", escaped(row["stage"].as_str().unwrap_or_default()), time(us(row, "us")));
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            send["opaque"],
            cell("latency_us"),
            cell("server_us"),
            cell("rest_us"),
            plain("core"),
            plain("owner"),
            rows(send).map(stage).collect::<Vec<_>>().join(", "),
        );
    }
    text.push_str("</table></div>\n");
    text
}
