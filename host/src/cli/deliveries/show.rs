//! `deliveries show`

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Context;
use crate::cli::event;
use crate::cli::exit::{CommandResult, Exit};
use crate::cli::output::{Form, Output, indented, time};
use crate::delivery::DeliveryId;
use crate::store::{AttemptRecord, DeliveryDetails};

/// Arguments of `deliveries show`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    id: DeliveryId,
}

/// A delivery as JSON, its payload as in a line of `publish --ndjson`.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    details: &'a DeliveryDetails,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

pub(super) async fn run(arguments: &Arguments, context: &mut Context) -> CommandResult {
    let store = context.open_store().await?;
    let details = store.operators.show(arguments.id).await?;
    store.store.close().await;
    match context.output.form() {
        Form::Json => {
            let data = as_json(&details);
            let data_base64 = data.is_none().then(|| BASE64_STANDARD.encode(&details.payload));
            context.output.object(&Shown { details: &details, data, data_base64 })?;
        }
        Form::Text => print(&details, &mut context.output)?,
    }
    Ok(Exit::Done)
}

/// The payload if it is JSON, on one line. A line break in JSON is always between tokens, so it may become a space.
fn as_json(details: &DeliveryDetails) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(&details.payload).ok().filter(|_| event::is_json(&details.content_type))?;
    RawValue::from_string(text.replace(['\n', '\r'], " ").trim().to_owned()).ok()
}

fn print(details: &DeliveryDetails, output: &mut Output) -> std::io::Result<()> {
    let delivery = &details.summary;
    let headers: Vec<_> = details.headers.iter().map(|header| format!("{}={}", header.name, header.value)).collect();
    output.fields(&[
        ("delivery", Some(delivery.id.to_string())),
        ("event", Some(delivery.event_id.to_string())),
        ("tenant", Some(delivery.tenant.clone())),
        ("handler", Some(delivery.handler.clone())),
        ("topic", Some(delivery.topic.clone())),
        ("key", delivery.key.clone()),
        ("status", Some(delivery.status.to_string())),
        ("attempts", Some(format!("{} of {}", delivery.attempts, delivery.max_attempts))),
        ("crashes", (delivery.crashes > 0).then(|| delivery.crashes.to_string())),
        ("published", Some(time(delivery.published_at))),
        ("due", delivery.due_at.map(time)),
        ("leased to", delivery.lease_expires_at.map(time)),
        ("settled", delivery.settled_at.map(time)),
        ("worker", delivery.worker.clone()),
        ("reason", delivery.reason.clone()),
        ("message", delivery.message.clone()),
        ("type", Some(details.content_type.clone())),
        ("headers", (!headers.is_empty()).then(|| headers.join(", "))),
    ])?;
    for record in &details.attempt_records {
        print_attempt(record, output)?;
    }
    output.line(format_args!("\npayload ({} bytes)", details.payload.len()))?;
    output.line(indented(&readable(details)))
}

fn print_attempt(record: &AttemptRecord, output: &mut Output) -> std::io::Result<()> {
    let ran_for = (record.ended_at - record.started_at).num_milliseconds();
    output.line(format_args!("\nattempt {}: {}", record.attempt, record.reason))?;
    output.line(format_args!("  {} for {ran_for} ms on worker {}", time(record.started_at), record.worker))?;
    if !record.message.is_empty() {
        output.line(indented(&record.message))?;
    }
    if !record.output.is_empty() {
        output.line(format_args!("  output\n{}", indented(&indented(&record.output))))?;
    }
    Ok(())
}

/// JSON with line breaks, other text as it is, anything else as base64.
fn readable(details: &DeliveryDetails) -> String {
    let pretty = as_json(details).and_then(|json| {
        let mut pretty = Vec::new();
        let mut source = serde_json::Deserializer::from_str(json.get());
        serde_transcode::transcode(&mut source, &mut serde_json::Serializer::pretty(&mut pretty)).ok()?;
        String::from_utf8(pretty).ok()
    });
    let is_plain = |text: &&str| !text.contains(|symbol: char| symbol.is_control() && !symbol.is_whitespace());
    let as_text = || std::str::from_utf8(&details.payload).ok().filter(is_plain).map(str::to_owned);
    pretty.or_else(as_text).unwrap_or_else(|| BASE64_STANDARD.encode(&details.payload))
}
