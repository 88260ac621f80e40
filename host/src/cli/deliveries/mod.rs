//! `deliveries`: look at deliveries, and repair them.

mod change;
mod list;
pub(super) mod prune;
mod show;

use clap::{Args, Subcommand};

use super::exit::CommandResult;
use super::{Context, name};
use crate::delivery::{DeliveryId, Status};
use crate::store::{Change, List};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List deliveries, the latest first
    List(list::Arguments),
    /// Show one delivery with its event and its failed attempts
    Show(show::Arguments),
    /// Put buried deliveries back to pending, with all their attempts
    Redrive(change::Arguments),
    /// Park pending or processing deliveries; a run that goes on loses its lease
    Bury(change::Arguments),
    /// Make pending or processing deliveries due now; a run that goes on loses its lease
    Release(change::Arguments),
    /// Delete what was settled long enough ago
    Prune(prune::Arguments),
}

pub(super) async fn run(command: Command, context: &mut Context) -> CommandResult {
    match command {
        Command::List(arguments) => list::run(arguments, context).await,
        Command::Show(arguments) => show::run(&arguments, context).await,
        Command::Redrive(arguments) => change::run(arguments, Change::Redrive, context).await,
        Command::Bury(arguments) => change::run(arguments, Change::Bury, context).await,
        Command::Release(arguments) => change::run(arguments, Change::Release, context).await,
        Command::Prune(arguments) => prune::run(arguments, context).await,
    }
}

/// Which deliveries: all that meet every condition.
#[derive(Clone, Debug, Args)]
struct Filter {
    #[arg(long)]
    status: Option<Status>,
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// The exact topic
    #[arg(long)]
    topic: Option<String>,
    #[arg(long, value_parser = name)]
    tenant: Option<String>,
    /// Only those with a lower id: goes on where a list ended
    #[arg(long, value_name = "ID")]
    before: Option<DeliveryId>,
}

impl Filter {
    fn page(&self, limit: u32) -> List {
        let Self { status, handler, topic, tenant, before } = self.clone();
        List { status, tenant, handler, topic, before, limit }
    }
}
