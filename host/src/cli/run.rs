//! `run`: serves handlers until it is told to stop, or until there is nothing left to do.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::components::{self, Loaded};
use super::exit::{CommandResult, Exit, Failure, after_signal};
use super::output::{self, Form, Output, count};
use super::{Context, name};
use crate::config::Config;
use crate::delivery::DEFAULT_TENANT;
use crate::dispatch::{Counts, Dispatcher, DispatcherOptions, Served, StopReport};
use crate::retention;
use crate::store::{Backlog, OpenStore, Store};

/// How often `--until-idle` says what it waits for.
const SAY_AGAIN: Duration = Duration::from_secs(5);

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Components, or folders of them
    #[arg(required = true, value_name = "HANDLER.wasm|DIR")]
    paths: Vec<PathBuf>,
    /// Stop once nothing is pending or processing for these handlers, retries included
    #[arg(long)]
    until_idle: bool,
    /// Runs at a time, all handlers together [default: `dispatcher.concurrency`, 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: Option<u32>,
    /// Run the good handlers although others have problems
    #[arg(long)]
    keep_going: bool,
    /// Whose handlers they are
    #[arg(long, default_value = DEFAULT_TENANT, value_parser = name)]
    tenant: String,
}

/// The last line of a host that has stopped.
#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    counts: Counts,
    elapsed_ms: u64,
}

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let started_at = Instant::now();
    let mut signals = Signals::new()?;
    if let Some(concurrency) = arguments.concurrency {
        context.config.dispatcher.concurrency = concurrency;
    }
    let engine = super::engine(&context.config)?;
    let loaded = components::load(&engine, &arguments.paths, &arguments.tenant, &context.config).await;
    let handlers = accept(loaded, arguments.keep_going)?;
    warn_of_absent_handlers(&context.config, &handlers);

    let OpenStore { store, operators } = context.open_store().await?;
    let dispatcher = Dispatcher::start(store.clone(), handlers, options(&context.config)).await.map_err(Failure::from)?;
    let stop = tokio::select! {
        () = dispatcher.until_idle(Waiting::default().into_callback()), if arguments.until_idle => Stop::Idle,
        signal = signals.next() => Stop::Signal(signal),
        // Better no host than one that does nothing.
        () = dispatcher.has_panicked() => Stop::Panic,
        () = retention::keep(operators.as_ref(), context.config.retention) => unreachable!("it goes on for ever"),
    };
    if let Stop::Signal(signal) = stop {
        tracing::info!(signal, "signal received: stopping; a second one ends it at once");
    }

    let report = tokio::select! {
        report = wind_down(dispatcher, store.as_ref(), context.config.dispatcher.shutdown_timeout) => report,
        signal = signals.next() => std::process::exit(after_signal(signal)),
    };
    let summary = Summary { counts: report.counts, elapsed_ms: u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX) };
    print(&summary, &mut context.output)?;
    Ok(if report.left.is_empty() { Exit::Done } else { Exit::Partial })
}

/// Why a host stops.
enum Stop {
    Idle,
    Panic,
    Signal(i32),
}

/// The handlers to serve: none at all if anything is wrong, unless `keep_going`.
fn accept(loaded: Loaded, keep_going: bool) -> Result<Vec<Served>, Failure> {
    let Loaded { handlers, problems } = loaded;
    match (problems.is_empty(), keep_going && !handlers.is_empty()) {
        (true, _) => Ok(handlers),
        (false, true) => {
            problems.iter().for_each(output::warn);
            Ok(handlers)
        }
        (false, false) => {
            let failure = Failure::problems("nothing was started", problems);
            Err(if handlers.is_empty() { failure } else { failure.with_hint("`--keep-going` runs the good ones") })
        }
    }
}

/// The file may be shared by hosts that serve other handlers, so this is no problem, but it may be a mistake.
fn warn_of_absent_handlers(config: &Config, handlers: &[Served]) {
    let is_absent = |name: &&String| !handlers.iter().any(|served| served.name == **name);
    for name in config.handlers.keys().filter(is_absent) {
        output::warn(format_args!("the configuration has `handlers.{name}`, and this host serves no such handler"));
    }
}

fn options(config: &Config) -> DispatcherOptions {
    DispatcherOptions {
        concurrency: config.dispatcher.concurrency,
        prefetch: config.dispatcher.prefetch,
        prefetch_bytes: config.dispatcher.prefetch_bytes,
        lease_duration: config.dispatcher.lease_duration,
        poll_interval: config.dispatcher.poll_interval,
        max_payload_bytes: config.publish.max_payload_bytes,
    }
}

/// Stops the dispatcher, then closes the store with what is left of `timeout` (R21).
async fn wind_down(dispatcher: Dispatcher, store: &dyn Store, timeout: Duration) -> StopReport {
    let asked_at = Instant::now();
    let report = dispatcher.stop(timeout).await;
    if tokio::time::timeout(timeout.saturating_sub(asked_at.elapsed()), store.close()).await.is_err() {
        tracing::warn!("the store was not closed in time");
    }
    report
}

fn print(summary: &Summary, output: &mut Output) -> std::io::Result<()> {
    match output.form() {
        Form::Json => output.object(summary),
        Form::Text => {
            let Counts { completed, buried, rescheduled, released, lease_lost } = summary.counts;
            let lost = if lease_lost > 0 { format!(", {} lost", count(lease_lost, "lease", "leases")) } else { String::new() };
            let elapsed = Duration::from_millis(summary.elapsed_ms).as_secs_f64();
            output.line(format_args!(
                "{completed} completed, {buried} buried, {rescheduled} rescheduled, {released} released{lost}, in {elapsed:.1} s"
            ))
        }
    }
}

/// Says on stderr what `--until-idle` waits for, at first and then now and again.
#[derive(Default)]
struct Waiting {
    last_said: Option<(Instant, Backlog)>,
}

impl Waiting {
    fn into_callback(mut self) -> impl FnMut(Backlog) {
        move |backlog| {
            let is_news = self.last_said.is_none_or(|(said_at, said)| said != backlog && said_at.elapsed() >= SAY_AGAIN);
            if is_news {
                let n_left = backlog.n_pending + backlog.n_processing;
                eprintln!(
                    "waiting for {}: {} pending, {} processing",
                    count(n_left, "delivery", "deliveries"),
                    backlog.n_pending,
                    backlog.n_processing
                );
                self.last_said = Some((Instant::now(), backlog));
            }
        }
    }
}

/// The signals that ask for a stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The number of the next one.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
        }
    }
}
