//! `migrate`: creates the store, or brings its schema up to date. Opening a store does both.

use super::Context;
use super::exit::{CommandResult, Exit};
use super::output::Form;
use crate::store::Backend;

pub(super) async fn run(context: &mut Context) -> CommandResult {
    let store = context.open_store().await?.store;
    let backend = match store.capabilities().backend {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
        Backend::MongoDb => "mongodb",
    };
    store.close().await;
    match context.output.form() {
        Form::Json => context.output.object(&serde_json::json!({ "backend": backend, "schema": "current" }))?,
        Form::Text => context.output.line(format_args!("the {backend} store is ready, its schema up to date"))?,
    }
    Ok(Exit::Done)
}
