//! A phase that is asked for with options instead of a plan.

use crate::arguments::{ConsumeArgs, SendArgs, TailArgs, TopicArgs};
use crate::error::BenchError;
use crate::phase::{BodyForm, Pacing, Phase, Reads, Sends, Shape, seconds, usage};
use crate::target::TopicForm;
use crate::template::Extras;

pub(crate) fn send(args: &SendArgs) -> Result<Phase, BenchError> {
    let pacing = match args.rate {
        Some(_) if args.messages.is_some() => return Err(usage("--messages goes without --rate only")),
        Some(rate) => Pacing::Rate { rate, shape: Shape::Even, tick_us: args.tick_us },
        None => Pacing::Window { requests: args.window, messages_max: args.messages },
    };
    Ok(Phase {
        name: "send".to_owned(),
        topic: topic(&args.topic),
        warmup: seconds("--warmup", args.warmup)?,
        duration: seconds("--duration", args.duration)?,
        sends: Some(sends(args.connections, pacing, args.size)),
        reads: None,
        backlog: None,
    })
}

pub(crate) fn tail(args: &TailArgs) -> Result<Phase, BenchError> {
    let pacing = Pacing::Rate { rate: args.rate, shape: Shape::Even, tick_us: args.tick_us };
    // The consumer begins where the queues end.
    let topic = TopicForm { check_offsets: true, ..topic(&args.topic) };
    Ok(Phase {
        name: "tail".to_owned(),
        topic,
        warmup: seconds("--warmup", args.warmup)?,
        duration: seconds("--duration", args.duration)?,
        sends: Some(sends(args.connections, pacing, args.size)),
        reads: Some(reads(args.consumer_connections, args.pull_messages)),
        backlog: None,
    })
}

pub(crate) fn consume(args: &ConsumeArgs) -> Result<Phase, BenchError> {
    if args.topic.topic.is_none() {
        return Err(usage("consume needs --topic: one that was sent to before"));
    }
    let topic = TopicForm { create: false, check_offsets: false, ..topic(&args.topic) };
    Ok(Phase {
        name: "consume".to_owned(),
        topic,
        warmup: seconds("--warmup", 0.0)?,
        duration: seconds("--duration", args.duration)?,
        sends: None,
        reads: Some(reads(args.connections, args.pull_messages)),
        backlog: None,
    })
}

fn topic(args: &TopicArgs) -> TopicForm {
    TopicForm {
        name: args.topic.clone(),
        queues: args.queues,
        wire: args.wire,
        create: !args.no_create,
        check_offsets: !args.no_offset_check,
    }
}

fn sends(connections: u16, pacing: Pacing, size: u32) -> Sends {
    let body = BodyForm::Sizes { min: size, max: size, random_share: 1.0 };
    Sends { connections, pacing, body, batch: 1, extras: Extras::default() }
}

fn reads(connections: u16, pull_messages: u16) -> Reads {
    Reads { connections, pull_messages, groups: 1, cold_groups: 0 }
}
