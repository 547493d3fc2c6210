//! The report: one page of HTML that needs nothing else, of one run or of several laid over each other.

mod chart;
mod png;
mod stages;
mod svg;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::error::BenchError;
use crate::folder::file_name;
use crate::folder::interval_log::LoggedInterval;
use crate::folder::stored::{StoredRun, merged};
use crate::record::Kind;
use chart::RatePoint;
pub(crate) use png::Painter;
pub(crate) use svg::number;
use svg::{COLOURS, Drawing, escaped, time};

const STYLE: &str = include_str!("page/style.css");
const CHART_STYLE: &str = include_str!("page/chart.css");
/// Rates from which on a curve tells something.
const RATES_MIN: usize = 3;
/// Figures of the table, with what they are called.
const COLUMNS: [(&str, &str); 8] = [
    ("messages_per_s", "messages/s"),
    ("mb_per_s", "MB/s"),
    ("rate_asked", "asked/s"),
    ("p50", "p50"),
    ("p99", "p99"),
    ("p99_9", "p99.9"),
    ("max", "max"),
    ("server_cpu_us_per_message", "server CPU µs/message"),
];

/// A page, and its pictures one by one.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) pictures: Vec<Picture>,
}

/// A picture that can be a file of its own.
pub(crate) struct Picture {
    /// Without what a file's name may not have, and without an end.
    pub(crate) file_stem: String,
    /// In plain colours on white.
    pub(crate) svg: String,
}

/// The pictures of a page, in the order in which they stand in it.
#[derive(Default)]
struct Gallery {
    pictures: Vec<Picture>,
}

impl Gallery {
    /// Hangs a drawing up, and gives what the page shows of it.
    fn hang(&mut self, title: &str, drawing: &Drawing) -> String {
        let file_stem = format!("{:02}-{}", self.pictures.len() + 1, file_name(title));
        let (style, paper) = (plain_style(), colours()["page"].to_owned());
        self.pictures.push(Picture { file_stem, svg: drawing.file(title, &style, &paper) });
        drawing.figure()
    }
}

/// The colours of the light page, by the name of their variable.
fn colours() -> BTreeMap<&'static str, &'static str> {
    let root = STYLE.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(root, _)| root);
    let variables = root.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(':'));
    variables.collect()
}

/// Rules for the colours of lines, dots and areas, and of the keys of legends.
fn line_style() -> String {
    let rule = |index| {
        format!(
            ".line.c{index}{{stroke:var(--c{index})}}.dot.c{index},.area.c{index}{{fill:var(--c{index})}}\
             .key.c{index}{{background:var(--c{index})}}\n"
        )
    };
    (0..COLOURS).map(rule).collect()
}

/// The style of pictures with colours instead of variables: not every reader of SVG knows those.
fn plain_style() -> String {
    let style = format!("{CHART_STYLE}{}", line_style());
    colours().into_iter().fold(style, |style, (name, colour)| style.replace(&format!("var(--{name})"), colour))
}

/// Of a run, the intervals of each phase, all of its rounds together, and of its first round.
struct Seen<'a> {
    run: &'a StoredRun,
    label: String,
    phases: BTreeMap<String, Vec<Vec<LoggedInterval>>>,
}

/// The page of some runs; the first is the one that the tables tell of first.
///
/// # Errors
/// When a log of a run cannot be read.
pub(crate) fn page(runs: &[StoredRun]) -> Result<Page, BenchError> {
    let labels = labels(runs);
    let mut seen = Vec::new();
    for (run, label) in runs.iter().zip(labels) {
        let mut phases: BTreeMap<String, Vec<Vec<LoggedInterval>>> = BTreeMap::new();
        for phase in &run.phases {
            phases.entry(phase.name.clone()).or_default().push(phase.intervals()?);
        }
        seen.push(Seen { run, label, phases });
    }
    let title = runs.first().map_or("ringmq bench", StoredRun::name);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{0}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}{CHART_STYLE}{1}</style></head><body>\n<h1>{0}</h1>\n",
        escaped(title),
        line_style(),
    );
    let mut gallery = Gallery::default();
    for seen in &seen {
        text.push_str(&head(seen));
    }
    text.push_str(&table(&seen));
    text.push_str(&curves(&seen, &mut gallery));
    if seen.len() == 1 {
        text.push_str(&overlay(&seen[0], &mut gallery));
    }
    for name in phase_names(&seen) {
        text.push_str(&phase(name, &seen, &mut gallery));
    }
    for seen in &seen {
        text.push_str(&facts(seen));
    }
    text.push_str("</body></html>\n");
    Ok(Page { text, pictures: gallery.pictures })
}

/// How runs are told apart: by target where those differ, else by folder.
fn labels(runs: &[StoredRun]) -> Vec<String> {
    let targets: Vec<String> = runs.iter().map(|run| run.target().to_owned()).collect();
    let differ = targets.iter().all(|target| targets.iter().filter(|other| *other == target).count() == 1);
    let folder = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if differ { targets } else { runs.iter().map(|run| folder(&run.path)).collect() }
}

/// Phases of all runs, each once.
fn phase_names<'a>(seen: &[Seen<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in seen.iter().flat_map(|seen| seen.run.phase_names()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What its times are of: the most telling kind that was seen.
fn main_kind<'a>(intervals: impl Iterator<Item = &'a LoggedInterval>) -> Kind {
    let seen: Vec<Kind> = intervals.map(|interval| interval.kind).collect();
    Kind::most_telling(|kind| seen.contains(&kind)).unwrap_or(Kind::Send)
}

fn head(seen: &Seen<'_>) -> String {
    let record = &seen.run.record;
    let word = |value: &Value| value.as_str().map(escaped).unwrap_or_default();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<p><b>{}</b>: {} {}, {} round(s), seed {}, state {}</p>",
        escaped(&seen.label),
        word(&record["target"]["broker"]),
        word(&record["target"]["version"]),
        record["rounds"],
        record["seed"],
        word(&record["state"]),
    );
    let about = &record["plan"]["about"];
    if about.is_string() {
        let _ = writeln!(text, "<p>{}</p>", word(about));
    }
    let warnings = record["warnings"].as_array().map_or(&[][..], Vec::as_slice);
    if !warnings.is_empty() {
        text.push_str("<ul>");
        warnings.iter().for_each(|warning| {
            let _ = write!(text, "<li class=\"soft\">{}</li>", word(warning));
        });
        text.push_str("</ul>\n");
    }
    text
}

/// Where the table looks for a figure: percentiles are those of the main kind.
fn figure_path(column: &str, kind: Kind) -> String {
    if ["p50", "p99", "p99_9", "max"].contains(&column) {
        format!("{}/{column}", kind.figure())
    } else {
        column.to_owned()
    }
}

fn table(seen: &[Seen<'_>]) -> String {
    let mut text = String::from("<h2>Figures</h2>\n<div class=\"wide\"><table><tr><th>phase</th>");
    let several = seen.len() > 1;
    if several {
        text.push_str("<th>run</th>");
    }
    COLUMNS.iter().for_each(|(_, title)| {
        let _ = write!(text, "<th>{title}</th>");
    });
    text.push_str("<th>worth</th></tr>\n");
    for name in phase_names(seen) {
        for seen in seen.iter().filter(|seen| seen.phases.contains_key(name)) {
            let kind = main_kind(seen.phases[name].iter().flatten());
            let _ = write!(text, "<tr><td>{}</td>", escaped(name));
            if several {
                let _ = write!(text, "<td>{}</td>", escaped(&seen.label));
            }
            for (column, _) in COLUMNS {
                let path = figure_path(column, kind);
                let mut values: Vec<f64> = seen.run.rounds(name).filter_map(|phase| phase.figure(&path)).collect();
                values.sort_by(f64::total_cmp);
                let median = crate::summary::median(&values);
                let shown = median.map(|value| if path.contains('/') { time(value) } else { number(value) });
                let _ = write!(text, "<td>{}</td>", shown.unwrap_or_default());
            }
            let _ = writeln!(text, "<td>{}</td></tr>", worth(seen.run, name));
        }
    }
    text.push_str("</table></div>\n<p>Medians over the rounds; latencies of ");
    text.push_str("the most telling kind: lateness, else end to end, else due to answered, else a pull.</p>\n");
    text
}

fn worth(run: &StoredRun, name: &str) -> String {
    let reasons = |member: &str| -> Vec<String> {
        let phases = run.rounds(name).flat_map(|phase| phase.record[member].as_array().cloned().unwrap_or_default());
        phases.filter_map(|reason| reason.as_str().map(escaped)).collect()
    };
    let (void, faults) = (reasons("void"), reasons("faults"));
    let mut parts = Vec::new();
    if !faults.is_empty() {
        parts.push(format!("<span class=\"bad\" title=\"{0}\">faults: {0}</span>", faults.join("; ")));
    }
    if !void.is_empty() {
        parts.push(format!("<span class=\"bad\" title=\"{}\">void</span>", void.join("; ")));
    }
    if parts.is_empty() { "<span class=\"good\">clean</span>".to_owned() } else { parts.join(", ") }
}

/// Latency over throughput, for each family of phases that differ in their rate.
fn curves(seen: &[Seen<'_>], gallery: &mut Gallery) -> String {
    let mut text = String::new();
    let alone = seen.len() == 1;
    for seen in seen {
        let mut families: BTreeMap<String, Vec<RatePoint>> = BTreeMap::new();
        for name in seen.run.phase_names() {
            let Some((before, after)) = name.split_once(" rate=") else { continue };
            let (_, after) = after.split_once(' ').unwrap_or(("", ""));
            let family = format!("{before} {after}").trim().to_owned();
            let kind = main_kind(seen.phases[name].iter().flatten());
            let all = merged(seen.phases[name].iter().flatten(), kind);
            let us = [0.5, 0.99, 0.999].map(|share| all.value_at_quantile(share) as f64 / 1e3);
            let Some(phase) = seen.run.rounds(name).next() else { continue };
            let achieved = phase.figure("messages_per_s").unwrap_or(0.0);
            let point = RatePoint { name: name.to_owned(), asked: phase.figure("rate_asked"), achieved, us };
            families.entry(family).or_default().push(point);
        }
        for (family, points) in families.iter().filter(|(_, points)| points.len() >= RATES_MIN) {
            let label = if alone { family.clone() } else { format!("{family}, {}", seen.label) };
            let figure = gallery.hang(&format!("{label}, latency over throughput"), &chart::curve(points));
            let _ = writeln!(text, "<h3>{}</h3>\n{figure}", escaped(&label));
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("<h2>Latency over throughput</h2>\n<div class=\"charts\"><div>{text}</div></div>\n")
    }
}

/// All phases of a run in one ladder.
fn overlay(seen: &Seen<'_>, gallery: &mut Gallery) -> String {
    let names = seen.run.phase_names();
    if !(2..=COLOURS).contains(&names.len()) {
        return String::new();
    }
    let lines: Vec<_> = names
        .iter()
        .map(|name| {
            let intervals = || seen.phases[*name].iter().flatten();
            let kind = main_kind(intervals());
            (format!("{name} ({})", kind.tag()), merged(intervals(), kind))
        })
        .collect();
    let all = seen.phases.values().flatten().flatten();
    let hiccups = merged(all, Kind::Hiccup);
    let figure = gallery.hang("all phases, latency by percentile", &chart::ladder(&lines, Some(&hiccups)));
    format!("<h2>All phases</h2>\n<div class=\"charts\">{figure}</div>\n")
}

fn phase(name: &str, seen: &[Seen<'_>], gallery: &mut Gallery) -> String {
    let mut text = format!("<h2>{}</h2>\n", escaped(name));
    let having: Vec<&Seen<'_>> = seen.iter().filter(|seen| seen.phases.contains_key(name)).collect();
    let mut lines = Vec::new();
    for seen in &having {
        let intervals = || seen.phases[name].iter().flatten();
        let main = main_kind(intervals());
        // With several runs only the main kind of each; of one run all its kinds.
        let kinds = if having.len() > 1 {
            vec![main]
        } else {
            Kind::ALL.into_iter().filter(|kind| *kind != Kind::Hiccup).collect()
        };
        for kind in kinds {
            let all = merged(intervals(), kind);
            if !all.is_empty() {
                let label =
                    if having.len() > 1 { format!("{} ({})", seen.label, kind.tag()) } else { kind.tag().to_owned() };
                lines.push((label, all));
            }
        }
    }
    let alone = having.len() == 1;
    let hiccups = merged(having.iter().flat_map(|seen| seen.phases[name].iter().flatten()), Kind::Hiccup);
    let mut below = String::new();
    let ladder = gallery.hang(&format!("{name}, latency by percentile"), &chart::ladder(&lines, Some(&hiccups)));
    let _ = write!(text, "<div class=\"charts\"><div><h3>Percentiles</h3>{ladder}</div>");
    for seen in having {
        let Some(first) = seen.phases[name].first() else { continue };
        let kind = main_kind(first.iter());
        let of = if alone { String::new() } else { format!(", {}", seen.label) };
        let round = if seen.phases[name].len() > 1 { ", first round" } else { "" };
        let [latency, rate] = chart::over_time(first, kind);
        let title = |what: &str| format!("{name}, {what}{of}{round}");
        let tag = kind.tag();
        let over_time = gallery.hang(&title(&format!("{tag} over time")), &latency)
            + &gallery.hang(&title("requests a second over time"), &rate);
        let seen_often =
            gallery.hang(&title(&format!("how often each {tag} latency was seen")), &chart::heat_map(first, kind));
        let of = escaped(&of);
        let _ = write!(
            text,
            "<div><h3>{tag} over time{of}{round}</h3>{over_time}</div>\
             <div><h3>How often each latency was seen{of}{round}</h3>{seen_often}</div>"
        );
        if let Some(first) = seen.run.rounds(name).next() {
            below.push_str(&stages::of_phase(first, &format!("{of}{round}")));
        }
    }
    text.push_str("</div>\n");
    text.push_str(&below);
    text
}

/// The machine, the target and the command, for whoever wants to repeat it.
fn facts(seen: &Seen<'_>) -> String {
    let record = &seen.run.record;
    let mut text =
        format!("<h2>How it was made: {}</h2>\n<div class=\"wide\"><table class=\"facts\">", escaped(&seen.label));
    let mut row = |name: &str, value: &Value| {
        let shown = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            Value::Array(words) => words
                .iter()
                .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join(" "),
            other => other.to_string(),
        };
        let _ = writeln!(text, "<tr><th>{}</th><td>{}</td></tr>", escaped(name), escaped(&shown));
    };
    row("command", &record["command"]);
    row("plan's hash", &record["plan"]["hash"]);
    row("configuration's hash", &record["target"]["configuration_hash"]);
    row("flush", &record["target"]["flush"]);
    for (part, prefix) in [("host", ""), ("limits", "limit: "), ("store", "store: ")] {
        let members = if part == "host" { &record["host"] } else { &record["host"][part] };
        for (name, value) in members.as_object().into_iter().flatten().filter(|(_, value)| !value.is_object()) {
            row(&format!("{prefix}{}", name.replace('_', " ")), value);
        }
    }
    text.push_str("</table></div>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::interval_log::IntervalLog;
    use crate::record::{Gathered, Shelf};
    use serde_json::json;

    /// A run folder with three phases at rising rates, whose latencies rise with them.
    fn run(folder: &Path, name: &str) -> StoredRun {
        let path = folder.join(name);
        std::fs::create_dir_all(&path).unwrap();
        let mut phases = Vec::new();
        for rate in [1000_u64, 2000, 3000] {
            let file = format!("{rate}.hlog");
            let mut log = IntervalLog::create(&path.join(&file), 0).unwrap();
            let shelf = Shelf::new(0..1);
            let (mut taken, mut spare) = (Gathered::new(), Gathered::new());
            for second in 0..5 {
                let mut recorder = shelf.recorder();
                (0..rate).for_each(|step| recorder.record(Kind::Send, 100_000 + step * rate));
                recorder.record(Kind::Hiccup, 60_000);
                drop(recorder);
                shelf.take(&mut taken, &mut spare);
                log.add(f64::from(second), 1.0, &taken).unwrap();
            }
            log.finish().unwrap();
            let figures = json!({"messages_per_s": rate, "rate_asked": rate, "latency_us": {"p50": 1500.0}});
            let void = if rate == 3000 { vec!["the generator <was> late"] } else { vec![] };
            let name = format!("ladder rate={rate}");
            phases.push(json!({"name": name, "round": 1, "figures": figures, "void": void, "files": [file]}));
        }
        let host = json!({"kernel": "6.1", "store": {"file_system": "ext4"}});
        let record = json!({"schema": 1, "name": "r & d", "target": {"name": name}, "phases": phases, "host": host});
        std::fs::write(path.join("run.json"), record.to_string()).unwrap();
        StoredRun::read(&path).unwrap()
    }

    #[test]
    fn a_page_of_one_run_or_two_is_whole_and_needs_nothing_else() {
        let folder = std::env::temp_dir().join(format!("ringmq-page-{}", std::process::id()));
        let (first, second) = (run(&folder, "a"), run(&folder, "b"));
        let one = page(std::slice::from_ref(&first)).unwrap();
        let two = page(&[first, second]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        for picture in one.pictures.iter().chain(&two.pictures) {
            assert!(!picture.svg.contains("var(") && picture.svg.contains("#0b63b0"), "{}", picture.svg);
            assert!(!picture.file_stem.contains([' ', '/', '=']), "{}", picture.file_stem);
        }
        assert_eq!(one.pictures.len(), one.text.matches("<svg").count());
        let (one, two) = (one.text, two.text);
        for page in [&one, &two] {
            for tag in ["div", "table", "svg", "figure", "h2", "tr"] {
                let (opened, closed) =
                    (page.matches(&format!("<{tag}")).count(), page.matches(&format!("</{tag}>")).count());
                assert_eq!(opened, closed, "{tag}");
            }
            let foreign = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!foreign.contains("http") && !foreign.contains("NaN"));
            assert!(page.contains("r &amp; d") && page.contains("the generator &lt;was&gt; late"));
            assert!(page.contains("1.5 ms") && page.contains("knee"), "the table and the curve are there");
        }
        // A curve, all phases in one ladder, and of each phase a ladder, two charts over time and a heat map.
        assert_eq!(one.matches("<svg").count(), 1 + 1 + 3 * 4);
        // A curve of each, and of each phase one ladder and three charts of each run.
        assert_eq!(two.matches("<svg").count(), 2 + 3 * (1 + 2 * 3));
    }
}
