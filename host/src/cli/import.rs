//! `publish --ndjson`: a file of events, in batches. What is wrong with a line is told, and the rest goes on.

use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::io::{AsyncBufRead, BufReader};

use super::Context;
use super::exit::{CommandResult, Exit, Failure};
use super::ndjson::{self, Defaults, Lines};
use super::output::{self, Form, Output};
use super::publish::{Line, publish_batch};
use crate::delivery::NewEvent;
use crate::store::{Published, Store};

/// One transaction a batch: larger ones gain little.
const BATCH_EVENTS: usize = 500;
/// Whatever the payloads, a batch stays small enough to be held twice in memory.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Publishes the file at `path`, or stdin for `-`.
pub(super) async fn run(path: &Path, defaults: Defaults, context: &mut Context) -> CommandResult {
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
