//! `deliveries prune`, also reachable as `prune`.

use std::time::Duration;

use clap::Args;

use super::Context;
use crate::cli::exit::{CommandResult, Exit};
use crate::cli::output::{Form, count};
use crate::store::Retention;

/// Arguments of `deliveries prune`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Keep completed deliveries this long [default: `retention.completed`, 1 day]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    completed: Option<Duration>,
    /// Keep buried deliveries this long [default: `retention.buried`, 14 days]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    buried: Option<Duration>,
}

pub(in crate::cli) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let defaults = context.config.retention;
    let retention =
        Retention { completed: arguments.completed.unwrap_or(defaults.completed), buried: arguments.buried.unwrap_or(defaults.buried) };
    let store = context.open_store().await?;
    let pruned = store.operators.prune(retention).await?;
    store.store.close().await;
    match context.output.form() {
        Form::Json => {
            context.output.object(&serde_json::json!({ "deliveries": pruned.n_deliveries, "events": pruned.n_events }))?;
        }
        Form::Text => {
            let (deliveries, events) = (count(pruned.n_deliveries, "delivery", "deliveries"), count(pruned.n_events, "event", "events"));
            context.output.line(format_args!("deleted {deliveries} and {events}"))?;
        }
    }
    Ok(Exit::Done)
}
