//! A phase that is asked for with options instead of a plan: each option stands for a key of phases.

use crate::arguments::{ConsumeArgs, SendArgs, TailArgs, TopicArgs};
use crate::error::BenchError;
use crate::phase::{Phase, usage};
use crate::plan;
use crate::target::TopicForm;

/// A key of phases and its value, if the option for it is given.
type Given = (&'static str, Option<String>);

pub(crate) fn send(args: &SendArgs) -> Result<Vec<Phase>, BenchError> {
    let options = [
        given("connections", args.connections),
        ("window", args.window.map(|window| window.to_string())),
        ("rate", args.rate.map(|rate| rate.to_string())),
        tick(args.tick_us),
        given("size", args.size),
        given("duration", args.duration),
        given("warmup", args.warmup),
        ("messages", args.messages.map(|messages| messages.to_string())),
    ];
    phases("send", &options, &args.topic, &topic(&args.topic))
}

pub(crate) fn tail(args: &TailArgs) -> Result<Vec<Phase>, BenchError> {
    let options = [
        given("connections", args.connections),
        given("consumer_connections", args.consumer_connections),
        given("pull_messages", args.pull_messages),
        given("rate", args.rate),
        tick(args.tick_us),
        given("size", args.size),
        given("duration", args.duration),
        given("warmup", args.warmup),
    ];
    // The consumer begins where the queues end.
    phases("tail", &options, &args.topic, &TopicForm { check_offsets: true, ..topic(&args.topic) })
}

pub(crate) fn consume(args: &ConsumeArgs) -> Result<Vec<Phase>, BenchError> {
    if args.topic.topic.is_none() {
        return Err(usage("consume needs --topic: one that was sent to before"));
    }
    let options = [
        given("consumer_connections", args.connections),
        given("pull_messages", args.pull_messages),
        given("duration", args.duration),
    ];
    let topic = TopicForm { create: false, check_offsets: false, ..topic(&args.topic) };
    phases("consume", &options, &args.topic, &topic)
}

fn phases(
    kind: &'static str,
    options: &[Given],
    args: &TopicArgs,
    topic: &TopicForm,
) -> Result<Vec<Phase>, BenchError> {
    let options = options.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_deref()?)));
    plan::single(kind, &options.collect::<Vec<_>>(), &args.overrides, topic)
}

fn given(key: &'static str, value: impl std::fmt::Display) -> Given {
    (key, Some(value.to_string()))
}

fn tick(tick_us: Option<u32>) -> Given {
    ("tick", tick_us.map(|tick_us| format!("{tick_us}us")))
}

fn topic(args: &TopicArgs) -> TopicForm {
    TopicForm {
        name: args.topic.clone(),
        topics: 1,
        queues: args.queues,
        wire: args.wire,
        create: !args.no_create,
        check_offsets: !args.no_offset_check,
    }
}
