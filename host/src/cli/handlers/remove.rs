//! `handlers remove`

use clap::Args;

use super::{Context, name};
use crate::cli::exit::{CommandResult, Exit, Failure};
use crate::cli::output::Form;
use crate::delivery::DEFAULT_TENANT;
use crate::store::{ErrorKind, RemoveHandler, Unfinished};

/// Arguments of `handlers remove`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[arg(value_parser = name)]
    name: String,
    #[arg(long, default_value = DEFAULT_TENANT, value_parser = name)]
    tenant: String,
    /// Bury its pending and processing deliveries, instead of refusing because of them
    #[arg(long)]
    bury: bool,
}

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let Arguments { name, tenant, bury } = arguments;
    let store = context.open_store().await?;
    let unfinished = if bury { Unfinished::Bury } else { Unfinished::Refuse };
    let removed = store.operators.remove_handler(RemoveHandler { tenant: tenant.clone(), name: name.clone(), unfinished }).await;
    store.store.close().await;
    removed.map_err(|error| match error.kind {
        ErrorKind::Conflict => Failure::from(error).with_hint("`--bury` buries its unfinished deliveries"),
        ErrorKind::LeaseLost
        | ErrorKind::NotFound
        | ErrorKind::Unavailable
        | ErrorKind::Timeout
        | ErrorKind::Corrupt
        | ErrorKind::Misconfigured => error.into(),
    })?;
    match context.output.form() {
        Form::Json => context.output.object(&serde_json::json!({ "tenant": tenant, "name": name, "removed": true }))?,
        Form::Text => context.output.line(format_args!("removed: {tenant}/{name}"))?,
    }
    Ok(Exit::Done)
}
