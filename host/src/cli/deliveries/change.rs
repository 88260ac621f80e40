//! `deliveries redrive`, `bury` and `release`: the same arguments and the same loop, one verb each.

use clap::Args;
use serde::Serialize;

use super::{Context, Filter};
use crate::cli::exit::{CommandResult, Exit, Failure};
use crate::cli::output::{Form, Output, count};
use crate::delivery::{DeliveryId, Status};
use crate::store::{Change, Changed, Operators};

/// Deliveries per call: one transaction each.
const BATCH: u32 = 500;

/// Arguments of the three verbs.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// The deliveries
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<DeliveryId>,
    /// All deliveries that meet the conditions, and that the change is for
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
}

/// What is printed of a delivery.
#[derive(Serialize)]
struct Line {
    id: DeliveryId,
    result: &'static str,
    /// That forbids the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

pub(super) async fn run(arguments: Arguments, change: Change, context: &mut Context) -> CommandResult {
    if !arguments.all && arguments.filter.is_set() {
        return Err(Failure::refused("expected either ids, or `--all` with conditions"));
    }
    let statuses = match arguments.filter.status {
        None => statuses_for(change).to_vec(),
        Some(status) if statuses_for(change).contains(&status) => vec![status],
        Some(status) => {
            let allowed: Vec<_> = statuses_for(change).iter().map(|status| format!("`{status}`")).collect();
            return Err(Failure::refused(format!("expected the status {}, got `{status}`", allowed.join(" or "))));
        }
    };
    let store = context.open_store().await?;
    let mut tally = Tally::default();
    if arguments.all {
        for status in statuses {
            let filter = Filter { status: Some(status), ..arguments.filter.clone() };
            change_all(store.operators.as_ref(), filter, change, &mut tally, &mut context.output).await?;
        }
        if context.output.form() == Form::Text {
            context.output.line(format_args!("{} {}", done(change), count(tally.n_applied, "delivery", "deliveries")))?;
        }
    } else {
        for ids in arguments.ids.chunks(BATCH as usize) {
            let answers = store.operators.change(ids, change).await?;
            for (id, answer) in ids.iter().zip(answers) {
                tally.count(answer);
                print(*id, answer, change, &mut context.output)?;
            }
        }
    }
    store.store.close().await;
    // With `--all`, a delivery that went on by itself between list and change is no longer among those that were meant.
    Ok(if tally.n_left > 0 && !arguments.all { Exit::Partial } else { Exit::Done })
}

impl Filter {
    const fn is_set(&self) -> bool {
        let Self { status, handler, topic, tenant, before } = self;
        status.is_some() || handler.is_some() || topic.is_some() || tenant.is_some() || before.is_some()
    }
}

#[derive(Default)]
struct Tally {
    n_applied: u64,
    n_left: u64,
}

impl Tally {
    const fn count(&mut self, answer: Changed) {
        match answer {
            Changed::Applied => self.n_applied += 1,
            Changed::NotAllowed(_) | Changed::NotFound => self.n_left += 1,
        }
    }
}

/// The statuses that a change is for (O3 to O5).
const fn statuses_for(change: Change) -> &'static [Status] {
    match change {
        Change::Redrive => &[Status::Buried],
        Change::Bury | Change::Release => &[Status::Pending, Status::Processing],
    }
}

const fn done(change: Change) -> &'static str {
    match change {
        Change::Redrive => "redriven:",
        Change::Bury => "buried:",
        Change::Release => "released:",
    }
}

async fn change_all(
    operators: &dyn Operators,
    mut filter: Filter,
    change: Change,
    tally: &mut Tally,
    output: &mut Output,
) -> Result<(), Failure> {
    loop {
        let page = operators.list(filter.page(BATCH)).await?;
        let ids: Vec<_> = page.iter().map(|delivery| delivery.id).collect();
        let Some(last) = ids.last() else { return Ok(()) };
        filter.before = Some(*last);
        for (id, answer) in ids.iter().zip(operators.change(&ids, change).await?) {
            tally.count(answer);
            if output.form() == Form::Json {
                print(*id, answer, change, output)?;
            }
        }
    }
}

fn print(id: DeliveryId, answer: Changed, change: Change, output: &mut Output) -> std::io::Result<()> {
    let (result, status) = match answer {
        Changed::Applied => ("applied", None),
        Changed::NotAllowed(status) => ("not-allowed", Some(status)),
        Changed::NotFound => ("not-found", None),
    };
    match (output.form(), answer) {
        (Form::Json, _) => output.object(&Line { id, result, status }),
        (Form::Text, Changed::Applied) => output.line(format_args!("{} {id}", done(change))),
        (Form::Text, Changed::NotAllowed(status)) => output.line(format_args!("left alone: {id} is {status}")),
        (Form::Text, Changed::NotFound) => output.line(format_args!("not found: {id}")),
    }
}
