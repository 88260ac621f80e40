//! Brings the collections and indexes up to date.
//!
//! There is no lock: each migration is idempotent, so hosts that start together may all carry it out.

use bson::{Bson, doc};
use mongodb::options::FindOptions;

use super::calls::{Call, Trouble};
use super::documents::{MIGRATIONS, indexes};
use super::fields::integer;

/// The version of the schema that this program makes.
const VERSION: i64 = 1;

/// # Errors
/// `Unfit` if the schema is newer than this program.
pub(super) async fn migrate(call: Call, is_replica_set: bool) -> Result<(), Trouble> {
    let latest = FindOptions::builder().sort(doc! { "_id": -1 }).limit(1).build();
    let applied = call.find(MIGRATIONS, doc! {}, latest).await?;
    let applied = applied.first().map(|migration| integer(migration, "_id")).transpose().map_err(Trouble::Corrupt)?.unwrap_or(0);
    if applied > VERSION {
        let problem =
            format!("the schema has version {applied}, and this program knows versions up to {VERSION}: use a newer relaybus-host");
        return Err(Trouble::Unfit(problem));
    }
    if applied == VERSION {
        return Ok(());
    }
    create_indexes(&call, is_replica_set).await?;
    let record = doc! {
        "q": { "_id": VERSION },
        "u": [{ "$set": { "appliedAt": { "$ifNull": ["$appliedAt", "$$NOW"] } } }],
        "upsert": true,
    };
    let written = call.update(MIGRATIONS, vec![record]).await?;
    // Another host may have inserted the same record at the same time, which is as good.
    match written.refused.into_values().find(|refusal| refusal.code != super::calls::code::DUPLICATE_KEY) {
        Some(refusal) => Err(Trouble::Unfit(format!("the schema's version cannot be recorded: {}", refusal.message))),
        None => Ok(()),
    }
}

/// On a replica set they are there once a majority has them: one member that is down keeps nobody from starting.
async fn create_indexes(call: &Call, is_replica_set: bool) -> Result<(), Trouble> {
    for (collection, indexes) in indexes() {
        let indexes: Vec<Bson> = indexes.into_iter().map(Bson::Document).collect();
        let mut command = doc! { "createIndexes": collection, "indexes": indexes };
        if is_replica_set {
            command.insert("commitQuorum", "majority");
        }
        call.database().run_command(command).await?;
    }
    Ok(())
}
