//! `invoke`: runs one handler once, without a queue. What it publishes is printed and goes nowhere.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use serde_json::{Value, json};

use super::event::{self, EventArguments};
use super::exit::{CommandResult, Exit, Failure};
use super::output::{Form, Output};
use super::{Context, components, name, output};
use crate::clock::Instant;
use crate::delivery::{ClaimedDelivery, DEFAULT_TENANT, DeliveryId, HandlerId, NewEvent};
use crate::engine::Abort;
use crate::topic::Topic;
use crate::verdict::{NextStep, RunReport, Verdict};

/// The lease of a run without a queue: it outlives any timeout.
const NO_LEASE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Arguments of `invoke`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("input").args(["data", "file"]).required(true))]
pub(super) struct Arguments {
    #[arg(value_name = "HANDLER.wasm")]
    path: PathBuf,
    /// The topic of the event
    #[arg(long)]
    topic: Topic,
    #[command(flatten)]
    event: EventArguments,
    /// Which attempt the handler is told that this is
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    attempt: u32,
    /// Whose event and handler they are
    #[arg(long, default_value = DEFAULT_TENANT, value_parser = name)]
    tenant: String,
}

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let max_payload_bytes = context.config.publish.max_payload_bytes;
    let event = arguments.event.event(arguments.topic, arguments.tenant.clone(), max_payload_bytes)?;
    let engine = super::engine(&context.config)?;
    let loaded = components::load(&engine, &[arguments.path], &arguments.tenant, &context.config).await;
    let served = match <[_; 1]>::try_from(loaded.handlers) {
        Ok([served]) if loaded.problems.is_empty() => served,
        Ok(_) => return Err(Failure::problems("nothing was run", loaded.problems)),
        Err(handlers) if loaded.problems.is_empty() => {
            return Err(Failure::refused(format!("expected one handler, got {}", handlers.len())));
        }
        Err(_) => return Err(Failure::problems("nothing was run", loaded.problems)),
    };
    if !served.topics.iter().any(|pattern| pattern.matches(&event.topic)) {
        output::warn(format_args!("handler `{}` does not subscribe to `{}`", served.name, event.topic));
    }
    let delivery = delivery(event, &served.name, arguments.attempt, served.settings.max_attempts);
    let report = served.component.run(served.run(delivery, max_payload_bytes, Abort::new(Instant::now() + NO_LEASE))).await;
    match context.output.form() {
        Form::Json => context.output.object(&as_json(&report))?,
        Form::Text => print(&report, &mut context.output)?,
    }
    Ok(if matches!(report.verdict, Verdict::Ok { .. }) { Exit::Done } else { Exit::Failed })
}

/// The event as the handler's delivery, as if it had just been claimed.
fn delivery(event: NewEvent, handler: &str, attempt: u32, max_attempts: u32) -> ClaimedDelivery {
    ClaimedDelivery {
        id: DeliveryId::derive(event.id, &event.tenant, handler),
        event_id: event.id,
        handler: HandlerId(0),
        topic: event.topic,
        key: event.key,
        attempt,
        max_attempts: max_attempts.max(attempt),
        crashes: 0,
        snoozes: 0,
        published_at: chrono::Utc::now(),
        content_type: event.content_type,
        headers: event.headers,
        payload: event.payload,
    }
}

/// The name of a verdict, the reason where it is not ok, and the message where there is one.
fn describe(verdict: &Verdict) -> (&'static str, Option<&'static str>, Option<String>) {
    match verdict {
        Verdict::Ok { .. } => ("ok", None, None),
        Verdict::Failed(failure) => ("failed", Some("failed"), Some(failure.describe())),
        Verdict::Trapped { reason, message } => ("trapped", Some(reason.as_str()), Some(message.clone())),
        Verdict::Aborted(abort) => ("aborted", Some(abort.reason().as_str()), None),
        Verdict::HostFault { message } => ("host-fault", Some("host-fault"), Some(message.clone())),
    }
}

/// What the handler asked for, if it returned a failure.
fn next_step(verdict: &Verdict) -> Option<String> {
    let Verdict::Failed(failure) = verdict else { return None };
    Some(match failure.next {
        NextStep::Retry => "retry".to_owned(),
        NextStep::RetryAfter(delay) => format!("retry after {}", humantime::format_duration(delay)),
        NextStep::Snooze(delay) => format!("snooze {}", humantime::format_duration(delay)),
        NextStep::Bury => "bury".to_owned(),
    })
}

fn published(verdict: &Verdict) -> &[NewEvent] {
    if let Verdict::Ok { events } = verdict { events } else { &[] }
}

fn as_json(report: &RunReport) -> Value {
    let (verdict, reason, message) = describe(&report.verdict);
    json!({
        "verdict": verdict,
        "reason": reason,
        "message": message,
        "next": next_step(&report.verdict),
        "output": report.output,
        "events": published(&report.verdict).iter().map(event_as_json).collect::<Vec<_>>(),
        "elapsed_ms": report.ran_for.as_secs_f64() * 1_000.0,
    })
}

/// As a line of `publish --ndjson`.
fn event_as_json(event: &NewEvent) -> Value {
    let headers: serde_json::Map<_, _> = event.headers.iter().map(|header| (header.name.clone(), json!(header.value))).collect();
    let mut line = json!({ "topic": event.topic, "content_type": event.content_type, "headers": headers });
    let is_json = event::is_json(&event.content_type);
    match serde_json::from_slice::<Value>(&event.payload) {
        Ok(data) if is_json => line["data"] = data,
        Ok(_) | Err(_) => line["data_base64"] = json!(BASE64_STANDARD.encode(&event.payload)),
    }
    let delay = (!event.delay.is_zero()).then(|| humantime::format_duration(event.delay).to_string());
    for (name, value) in [("key", &event.key), ("dedup_id", &event.dedup_id), ("delay", &delay)] {
        if let Some(value) = value {
            line[name] = json!(value);
        }
    }
    line
}

fn print(report: &RunReport, output: &mut Output) -> std::io::Result<()> {
    let (verdict, reason, message) = describe(&report.verdict);
    output.fields(&[
        ("verdict", Some(verdict.to_owned())),
        ("reason", reason.filter(|reason| *reason != verdict).map(str::to_owned)),
        ("message", message),
        ("next", next_step(&report.verdict)),
        ("time", Some(format!("{:.3} ms", report.ran_for.as_secs_f64() * 1_000.0))),
    ])?;
    if !report.output.is_empty() {
        output.line(format_args!("\noutput\n{}", output::indented(&report.output)))?;
    }
    for event in published(&report.verdict) {
        output.line(format_args!("\npublished {}", event_as_json(event)))?;
    }
    Ok(())
}
