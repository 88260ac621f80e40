//! `handlers add`: stores subscriptions without running anything, so that events find their handlers before the first host starts.

use std::path::PathBuf;

use clap::Args;

use super::{Context, name};
use crate::cli::exit::{CommandResult, Exit, Failure};
use crate::cli::output::Form;
use crate::cli::{components, engine};
use crate::delivery::DEFAULT_TENANT;

/// Arguments of `handlers add`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[arg(required = true, value_name = "HANDLER.wasm|DIR")]
    paths: Vec<PathBuf>,
    #[arg(long, default_value = DEFAULT_TENANT, value_parser = name)]
    tenant: String,
}

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let engine = engine(&context.config)?;
    let loaded = components::load(&engine, &arguments.paths, &arguments.tenant, &context.config).await;
    if !loaded.problems.is_empty() {
        return Err(Failure::problems("nothing was added", loaded.problems));
    }
    let store = context.open_store().await?.store;
    for handler in loaded.handlers {
        let subscribed = store.subscribe(handler.subscription()).await?;
        let topics: Vec<_> = handler.topics.iter().map(ToString::to_string).collect();
        let digest = handler.component.digest();
        match context.output.form() {
            Form::Json => context.output.object(&serde_json::json!({
                "tenant": handler.tenant,
                "name": handler.name,
                "topics": topics,
                "digest": digest,
                "previous_digest": subscribed.previous_digest,
            }))?,
            Form::Text => {
                let change = match subscribed.previous_digest {
                    None => "added",
                    Some(previous) if previous == digest => "unchanged",
                    Some(_) => "replaced",
                };
                context.output.line(format_args!("{change}: {}/{}, subscribed to {}", handler.tenant, handler.name, topics.join(" ")))?;
            }
        }
    }
    store.close().await;
    Ok(Exit::Done)
}
