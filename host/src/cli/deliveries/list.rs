//! `deliveries list`

use clap::Args;

use super::{Context, Filter};
use crate::cli::exit::{CommandResult, Exit};
use crate::cli::output::{Form, count, time};

/// Arguments of `deliveries list`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// The most deliveries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

const HEADER: [&str; 7] = ["ID", "STATUS", "HANDLER", "TOPIC", "ATTEMPTS", "WHEN", "REASON"];

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let store = context.open_store().await?;
    let found = store.operators.list(arguments.filter.page(arguments.limit)).await?;
    store.store.close().await;
    match context.output.form() {
        Form::Json => {
            for delivery in &found {
                context.output.object(delivery)?;
            }
        }
        Form::Text => {
            let rows = found.iter().map(|delivery| {
                let times = [("due", delivery.due_at), ("leased to", delivery.lease_expires_at), ("settled", delivery.settled_at)];
                let when = times.iter().find_map(|(what, at)| at.map(|at| format!("{what} {}", time(at))));
                vec![
                    delivery.id.to_string(),
                    delivery.status.to_string(),
                    delivery.handler.clone(),
                    delivery.topic.clone(),
                    format!("{}/{}", delivery.attempts, delivery.max_attempts),
                    when.unwrap_or_default(),
                    delivery.reason.clone().unwrap_or_default(),
                ]
            });
            context.output.table(&HEADER, rows)?;
            if found.len() as u64 == u64::from(arguments.limit)
                && let Some(last) = found.last()
            {
                let shown = count(found.len() as u64, "delivery", "deliveries");
                eprintln!("{shown} shown; `--before {}` goes on, `--limit` shows more", last.id);
            }
        }
    }
    Ok(Exit::Done)
}
