//! `publish`: stores one event, or a file of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::event::EventArguments;
use super::exit::{CommandResult, Exit, Failure};
use super::ndjson::Defaults;
use super::output::{self, Form};
use super::{Context, import, name};
use crate::delivery::{DEFAULT_TENANT, EventId, NewEvent};
use crate::store::{ErrorKind, Outcome, Published, Store, StoreError};
use crate::topic::Topic;

/// A publish whose reply was lost may be repeated as it is; more often than this the store has another problem.
const MAX_TRIES: u32 = 3;

/// Arguments of `publish`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("input").args(["data", "file", "ndjson"]).required(true))]
pub(super) struct Arguments {
    /// The topic, such as `order.created`; with `--ndjson`, of the lines that name none
    #[arg(required_unless_present = "ndjson")]
    topic: Option<Topic>,
    #[command(flatten)]
    event: EventArguments,
    /// Publish a file of events (`-` is stdin), one JSON object a line:
    /// {topic?, data | data_base64, key?, content_type?, headers?, delay?, dedup_id?}
    #[arg(long, value_name = "FILE", conflicts_with_all = ["content_type", "key", "headers", "delay", "dedup_id"])]
    ndjson: Option<PathBuf>,
    /// Deliver the event after this time, such as `5s`
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    delay: Option<Duration>,
    /// Whose event it is
    #[arg(long, default_value = DEFAULT_TENANT, value_parser = name)]
    tenant: String,
    /// An event of the same tenant and topic with the same id is stored once
    #[arg(long, value_name = "ID")]
    dedup_id: Option<String>,
}

/// What is printed of an event.
#[derive(Serialize)]
pub(super) struct Line {
    /// Of the file that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    event_id: EventId,
    deliveries: u64,
    duplicate: bool,
}

impl Line {
    pub(super) const fn new(line: Option<u64>, published: &Published) -> Self {
        Self { line, event_id: published.event, deliveries: published.n_deliveries, duplicate: published.is_duplicate }
    }
}

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let max_payload_bytes = context.config.publish.max_payload_bytes;
    match (arguments.topic, arguments.ndjson) {
        (topic, Some(path)) => {
            let defaults = Defaults { topic, tenant: arguments.tenant, max_payload_bytes };
            import::run(&path, defaults, context).await
        }
        (Some(topic), None) => {
            let event = arguments.event.event(topic, arguments.tenant, max_payload_bytes)?;
            let event = NewEvent { delay: arguments.delay.unwrap_or_default(), dedup_id: arguments.dedup_id, ..event };
            publish_one(event, context).await
        }
        (None, None) => Err(Failure::refused("expected a topic")),
    }
}

async fn publish_one(event: NewEvent, context: &mut Context) -> CommandResult {
    let store = context.open_store().await?.store;
    let topic = event.topic.clone();
    let published = publish_batch(store.as_ref(), vec![event]).await?.pop();
    store.close().await;
    let published = published.unwrap_or_else(|| Err(no_answer()))?;
    match context.output.form() {
        Form::Json => context.output.object(&Line::new(None, &published))?,
        Form::Text if published.is_duplicate => {
            context.output.line(format_args!("{} was stored before under this dedup id", published.event))?;
        }
        Form::Text => {
            let deliveries = output::count(published.n_deliveries, "delivery", "deliveries");
            context.output.line(format_args!("{} {deliveries}", published.event))?;
        }
    }
    if published.n_deliveries == 0 && !published.is_duplicate {
        output::warn(format_args!("nobody subscribes to `{topic}`: the event is stored, and nobody will receive it"));
    }
    Ok(Exit::Done)
}

/// Publishes, again if the reply was lost: the events' ids make that safe (P5).
pub(super) async fn publish_batch(store: &dyn Store, events: Vec<NewEvent>) -> Result<Vec<Result<Published, StoreError>>, StoreError> {
    let mut n_tries = 1;
    loop {
        match store.publish(events.clone()).await {
            Err(error) if n_tries < MAX_TRIES && (error.kind == ErrorKind::Conflict || error.outcome == Outcome::Unknown) => n_tries += 1,
            answer => return answer,
        }
    }
}

fn no_answer() -> StoreError {
    StoreError::new("publish", ErrorKind::Corrupt, "the store did not answer for the event").with_outcome(Outcome::Unknown)
}
