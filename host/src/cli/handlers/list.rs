//! `handlers list`

use super::Context;
use crate::cli::exit::{CommandResult, Exit};
use crate::cli::output::Form;

const HEADER: [&str; 8] = ["TENANT", "NAME", "TOPICS", "PENDING", "PROCESSING", "COMPLETED", "BURIED", "DIGEST"];
/// Of the digest's hex digits, for people.
const DIGEST_DIGITS: usize = 12;

pub(super) async fn run(context: &mut Context) -> CommandResult {
    let store = context.open_store().await?;
    let handlers = store.operators.list_handlers().await?;
    store.store.close().await;
    match context.output.form() {
        Form::Json => {
            for handler in &handlers {
                context.output.object(handler)?;
            }
        }
        Form::Text => {
            let rows = handlers.into_iter().map(|handler| {
                vec![
                    handler.tenant,
                    handler.name,
                    handler.topics.join(" "),
                    handler.pending.to_string(),
                    handler.processing.to_string(),
                    handler.completed.to_string(),
                    handler.buried.to_string(),
                    handler.digest.chars().take(DIGEST_DIGITS).collect(),
                ]
            });
            context.output.table(&HEADER, rows)?;
        }
    }
    Ok(Exit::Done)
}
