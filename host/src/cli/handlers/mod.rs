//! `handlers`: look at handlers, and change who receives what.

mod list;
mod add;
mod remove;

use clap::Subcommand;

use super::exit::CommandResult;
use super::{Context, name};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List all handlers
    List,
    /// Store the subscriptions of components, without running them
    Add(add::Arguments),
    /// Remove a handler with its subscriptions
    Remove(remove::Arguments),
}

pub(super) async fn run(command: Command, context: &mut Context) -> CommandResult {
    match command {
        Command::List => list::run(context).await,
        Command::Add(arguments) => add::run(arguments, context).await,
        Command::Remove(arguments) => remove::run(arguments, context).await,
    }
}
