//! `publish`: stores one event, or a file of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::io::{AsyncBufRead, BufReader};

use super::event::EventArguments;
use super::exit::{CommandResult, Exit, Failure};
use super::ndjson::{self, Defaults, Lines};
use super::output::{self, Form, Output};
use super::{Context, name};
use crate::delivery::{DEFAULT_TENANT, EventId, NewEvent};
use crate::store::{ErrorKind, Outcome, Published, Store, StoreError};
use crate::topic::Topic;

/// One transaction a batch: larger ones gain little.
const BATCH_EVENTS: usize = 500;
/// Whatever the payloads, a batch stays small enough to be held twice in memory.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
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
struct Line {
    /// Of the file that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    event_id: EventId,
    deliveries: u64,
    duplicate: bool,
}

impl Line {
    const fn new(line: Option<u64>, published: &Published) -> Self {
        Self { line, event_id: published.event, deliveries: published.n_deliveries, duplicate: published.is_duplicate }
    }
}

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let max_payload_bytes = context.config.publish.max_payload_bytes;
    match (arguments.topic, arguments.ndjson) {
        (topic, Some(path)) => {
            let defaults = Defaults { topic, tenant: arguments.tenant, max_payload_bytes };
            publish_file(&path, defaults, context).await
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

async fn publish_file(path: &Path, defaults: Defaults, context: &mut Context) -> CommandResult {
    let (source, n_bytes): (Box<dyn AsyncBufRead + Unpin + Send>, _) = if path.as_os_str() == "-" {
        (Box::new(BufReader::new(tokio::io::stdin())), None)
    } else {
        let cannot_read = |error| Failure::refused(format!("`{}` cannot be read: {error}", path.display()));
        let file = tokio::fs::File::open(path).await.map_err(cannot_read)?;
        let metadata = file.metadata().await.map_err(cannot_read)?;
        (Box::new(BufReader::with_capacity(256 * 1024, file)), metadata.is_file().then_some(metadata.len()))
    };
    let store = context.open_store().await?.store;
    let mut lines = Lines::new(source, defaults.max_payload_bytes);
    let mut import = Import {
        store: Arc::clone(&store),
        batch: Vec::new(),
        n_batch_bytes: 0,
        totals: Totals::default(),
        progress: progress_bar(n_bytes),
    };
    while let Some((number, line)) = lines.next().await? {
        match line.and_then(|line| if line.trim_ascii().is_empty() { Ok(None) } else { ndjson::parse(&line, &defaults).map(Some) }) {
            Ok(Some(event)) => import.add(number, event, &mut context.output).await?,
            Ok(None) => {}
            Err(problem) => import.reject(number, &problem),
        }
        import.progress.set_position(lines.n_bytes());
    }
    import.store_batch(&mut context.output).await?;
    import.progress.finish_and_clear();
    store.close().await;
    import.totals.tell(&mut context.output)
}

/// A file on its way into the store.
struct Import {
    store: Arc<dyn Store>,
    /// Events with their line numbers.
    batch: Vec<(u64, NewEvent)>,
    n_batch_bytes: usize,
    totals: Totals,
    progress: ProgressBar,
}

#[derive(Default)]
struct Totals {
    n_published: u64,
    n_deliveries: u64,
    n_duplicates: u64,
    n_without_deliveries: u64,
    n_rejected: u64,
}

impl Import {
    async fn add(&mut self, number: u64, event: NewEvent, output: &mut Output) -> Result<(), Failure> {
        self.n_batch_bytes += event.payload.len();
        self.batch.push((number, event));
        if self.batch.len() >= BATCH_EVENTS || self.n_batch_bytes >= BATCH_BYTES { self.store_batch(output).await } else { Ok(()) }
    }

    async fn store_batch(&mut self, output: &mut Output) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.n_batch_bytes = 0;
        let (numbers, events): (Vec<_>, Vec<_>) = std::mem::take(&mut self.batch).into_iter().unzip();
        let answers = publish_batch(self.store.as_ref(), events).await.map_err(|error| {
            let (first, n_stored) = (numbers.first().copied().unwrap_or_default(), self.totals.n_published + self.totals.n_duplicates);
            Failure::from(error)
                .with_hint(format!("{n_stored} events before line {first} are stored; the lines from there on are not, or not for sure"))
        })?;
        for (number, answer) in numbers.into_iter().zip(answers) {
            match answer {
                Ok(published) => {
                    self.totals.count(&published);
                    if output.form() == Form::Json {
                        output.object(&Line::new(Some(number), &published))?;
                    }
                }
                Err(error) => self.reject(number, &super::exit::chain(&error)),
            }
        }
        Ok(output.flush()?)
    }

    fn reject(&mut self, number: u64, problem: &str) {
        self.totals.n_rejected += 1;
        self.progress.suspend(|| eprintln!("line {number}: {problem}"));
    }
}

impl Totals {
    fn count(&mut self, published: &Published) {
        if published.is_duplicate {
            self.n_duplicates += 1;
        } else {
            self.n_published += 1;
            self.n_deliveries += published.n_deliveries;
            self.n_without_deliveries += u64::from(published.n_deliveries == 0);
        }
    }

    fn tell(&self, output: &mut Output) -> CommandResult {
        if output.form() == Form::Text {
            let (events, deliveries) =
                (output::count(self.n_published, "event", "events"), output::count(self.n_deliveries, "delivery", "deliveries"));
            output.line(format_args!(
                "published {events}, {deliveries}; {} stored before",
                output::count(self.n_duplicates, "was", "were")
            ))?;
        }
        if self.n_without_deliveries > 0 {
            output::warn(format_args!(
                "nobody subscribes to {}: stored, and nobody will receive them",
                output::count(self.n_without_deliveries, "event", "events")
            ));
        }
        if self.n_rejected > 0 {
            eprintln!("error: {} not accepted", output::count(self.n_rejected, "line was", "lines were"));
            return Ok(Exit::Partial);
        }
        Ok(Exit::Done)
    }
}

/// Publishes, again if the reply was lost: the events' ids make that safe (P5).
async fn publish_batch(store: &dyn Store, events: Vec<NewEvent>) -> Result<Vec<Result<Published, StoreError>>, StoreError> {
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

/// On stderr, and hidden where that is no terminal.
fn progress_bar(n_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match n_bytes {
        Some(n_bytes) => (ProgressBar::new(n_bytes), "publishing {wide_bar} {bytes}/{total_bytes} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} publishing {bytes} {elapsed}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
