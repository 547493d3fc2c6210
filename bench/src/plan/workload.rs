//! Workloads of the OpenMessaging Benchmark as plans: flat YAML, a key and a value a line.

use std::ops::Range;

use super::key::{self, Raw};
use super::settings::{Setting, Settings};
use super::source::{PlanError, Source, nearest};

/// What a workload calls its settings. Those with no meaning here are taken and told.
const KNOWN: [&str; 20] = [
    "name",
    "topics",
    "partitionsPerTopic",
    "messageSize",
    "payloadFile",
    "keyDistributor",
    "useRandomizedPayloads",
    "randomBytesRatio",
    "randomizedPayloadPoolSize",
    "subscriptionsPerTopic",
    "consumerPerSubscription",
    "producersPerTopic",
    "producerRate",
    "consumerBacklogSizeGB",
    "backlogDrainRatio",
    "testDurationMinutes",
    "warmupDurationMinutes",
    "logDir",
    "partitionKey",
    "topicNamePrefix",
];

/// A workload that was read.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) settings: Settings,
}

struct Line<'a> {
    key: &'a str,
    value: &'a str,
    key_span: Range<usize>,
    value_span: Range<usize>,
}

/// # Errors
/// The first line that is no setting of a workload, or one that cannot be had here.
pub(crate) fn read(source: &Source) -> Result<Workload, PlanError> {
    let lines = lines(source)?;
    let mut workload = Reader { source, lines: &lines, settings: Settings::default() };
    workload.translate()?;
    let name = lines.iter().find(|line| line.key == "name").map_or("workload", |line| line.value);
    Ok(Workload { name: name.to_owned(), settings: workload.settings })
}

fn lines(source: &Source) -> Result<Vec<Line<'_>>, PlanError> {
    let mut lines = Vec::new();
    let mut at = 0;
    for text in source.text.split_inclusive('\n') {
        let start = at;
        at += text.len();
        let content = text.split_once(" #").map_or(text, |(content, _)| content).trim_end();
        if content.trim().is_empty() || content.trim_start().starts_with(['#', '-']) {
            continue;
        }
        let span = start..start + content.len();
        let wrong = |what: &str, hint: &str| PlanError::new(source, &span, what.to_owned(), hint.to_owned());
        if content.starts_with([' ', '\t']) {
            return Err(wrong("a workload has no settings within settings", "one `key: value` a line, not indented"));
        }
        let Some((key, value)) = content.split_once(':') else {
            return Err(wrong("this is no setting", "one `key: value` a line"));
        };
        let key = key.trim();
        let trimmed = value.trim();
        let value_at = start + content.len() - value.trim_start().len();
        let value_span = value_at..value_at + trimmed.len();
        let key_span = start..start + key.len();
        if !KNOWN.contains(&key) {
            let hint = nearest(key, KNOWN.into_iter())
                .map_or_else(|| format!("there are {}", KNOWN.join(", ")), |near| format!("did you mean {near}?"));
            return Err(PlanError::new(source, &key_span, format!("a workload has no key {key}"), hint));
        }
        let unquoted = trimmed.trim_matches(['"', '\'']);
        lines.push(Line { key, value: unquoted, key_span, value_span });
    }
    Ok(lines)
}

struct Reader<'a> {
    source: &'a Source,
    lines: &'a [Line<'a>],
    settings: Settings,
}

impl Reader<'_> {
    fn translate(&mut self) -> Result<(), PlanError> {
        let consumes = self.number("subscriptionsPerTopic")?.is_some_and(|count| count > 0.0);
        self.set("kind", &Raw::Text(if consumes { "tail" } else { "send" }.to_owned()), None)?;
        for (theirs, ours) in [
            ("topics", "topics"),
            ("partitionsPerTopic", "queues"),
            ("producersPerTopic", "connections"),
            ("messageSize", "size"),
        ] {
            self.integer(theirs, ours)?;
        }
        if consumes {
            self.integer("subscriptionsPerTopic", "groups")?;
            self.integer("consumerPerSubscription", "consumer_connections")?;
        }
        // A rate of 0 asks for the most there is.
        if self.number("producerRate")?.is_some_and(|rate| rate > 0.0) {
            self.integer("producerRate", "rate")?;
        }
        for (theirs, ours) in [("testDurationMinutes", "duration"), ("warmupDurationMinutes", "warmup")] {
            if let Some(minutes) = self.number(theirs)? {
                self.set(ours, &Raw::Float(minutes * 60.0), Some(theirs))?;
            }
        }
        if self.line("useRandomizedPayloads").is_some_and(|line| line.value == "true") {
            if let Some(share) = self.number("randomBytesRatio")? {
                self.set("random_share", &Raw::Float(share), Some("randomBytesRatio"))?;
            }
        } else if let Some(line) = self.line("payloadFile") {
            self.set("payloads", &Raw::Text(line.value.to_owned()), Some("payloadFile"))?;
        }
        if self.line("keyDistributor").is_some_and(|line| line.value != "NO_KEY") {
            self.set("keys", &Raw::Switch(true), Some("keyDistributor"))?;
        }
        if let Some(gigabytes) = self.number("consumerBacklogSizeGB")?.filter(|size| *size > 0.0) {
            let size = self.number("messageSize")?.unwrap_or(1024.0).max(1.0);
            let messages = (gigabytes * 1e9 / size).round() as i64;
            self.set("backlog", &Raw::Integer(messages), Some("consumerBacklogSizeGB"))?;
        }
        Ok(())
    }

    fn line(&self, key: &str) -> Option<&Line<'_>> {
        self.lines.iter().find(|line| line.key == key)
    }

    fn number(&self, key: &str) -> Result<Option<f64>, PlanError> {
        let Some(line) = self.line(key) else { return Ok(None) };
        let number = line.value.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| {
            let what = format!("{key} cannot be {:?}", line.value);
            PlanError::new(self.source, &line.value_span, what, "it takes a number".to_owned())
        })
    }

    fn integer(&mut self, theirs: &'static str, ours: &str) -> Result<(), PlanError> {
        match self.number(theirs)? {
            Some(number) => self.set(ours, &Raw::Integer(number.round() as i64), Some(theirs)),
            None => Ok(()),
        }
    }

    /// Sets one of our keys from one of theirs.
    fn set(&mut self, ours: &str, raw: &Raw, theirs: Option<&str>) -> Result<(), PlanError> {
        let key = key::find(ours).expect("it is written here");
        let value = key.value(raw).map_err(|(what, hint)| {
            let span = theirs
                .and_then(|theirs| self.line(theirs))
                .map_or(0..0, |line| line.key_span.start..line.value_span.end);
            PlanError::new(self.source, &span, what, hint)
        })?;
        self.settings.set(Setting { key, values: vec![value] });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::{Pacing, Phase};
    use crate::target::TopicForm;
    use std::path::Path;

    const WORKLOAD: &str = "# a comment\nname: 1 topic / 16 partitions / 1kb\n\ntopics: 1\npartitionsPerTopic: 16\nkeyDistributor: \"NO_KEY\"\n\
messageSize: 1024\npayloadFile: \"payload/payload-1Kb.data\"\nsubscriptionsPerTopic: 1\nconsumerPerSubscription: 4\n\
producersPerTopic: 2\nproducerRate: 50000 # a second\nconsumerBacklogSizeGB: 0\ntestDurationMinutes: 15\n";

    fn source(text: &str) -> Source {
        Source { name: "w.yaml".to_owned(), text: text.to_owned() }
    }

    fn phase(text: &str) -> Phase {
        let workload = read(&source(text)).unwrap();
        workload.settings.phases(&workload.name, Path::new(""), &TopicForm::own()).unwrap().remove(0)
    }

    #[test]
    fn a_workload_of_the_benchmark_is_a_phase() {
        let phase = phase(WORKLOAD);
        let (sends, reads) = (phase.sends.unwrap(), phase.reads.unwrap());
        assert_eq!(phase.name, "1 topic / 16 partitions / 1kb");
        assert_eq!((phase.topic.queues, phase.duration.as_secs(), sends.connections), (16, 900, 2));
        assert_eq!((reads.groups, reads.connections, phase.backlog.is_none()), (1, 4, true));
        assert!(matches!(sends.pacing, Pacing::Rate { rate: 50_000, .. }));
    }

    #[test]
    fn no_rate_is_a_closed_loop_and_a_backlog_is_counted() {
        let text = WORKLOAD.replace("producerRate: 50000", "producerRate: 0").replace("SizeGB: 0", "SizeGB: 2");
        let phase = phase(&text);
        assert!(matches!(phase.sends.unwrap().pacing, Pacing::Window { requests: 64, .. }));
        assert_eq!(phase.backlog.map(|backlog| backlog.messages), Some(1_953_125));
    }

    #[test]
    fn what_is_no_workload_is_told_with_its_place() {
        for (text, place, part) in [
            ("topics: 100000\n", "w.yaml:1:1", "from 1 to 10000"),
            ("topics: 1\nmesageSize: 5\n", "w.yaml:2:1", "did you mean messageSize?"),
            ("topics: 1\nmessageSize: big\n", "w.yaml:2:14", "it takes a number"),
            ("messageSize: 5\n", "w.yaml:1:1", "from 32"),
            ("topics: 1\n  more: 2\n", "w.yaml:2:1", "not indented"),
            ("nonsense\n", "w.yaml:1:1", "key: value"),
        ] {
            let error = read(&source(text)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{place}: ")) && error.contains(part), "{text:?}: {error}");
        }
    }
}
