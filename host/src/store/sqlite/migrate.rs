//! Brings the schema up to date, under the file's write lock.
//!
//! It never changes a migration that has run, and never touches a schema that is newer than this program.

use std::path::Path;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row};

use super::time::StoreTime;
use super::trouble::Trouble;
use crate::store::{ErrorKind, Outcome};

/// In order: the first is version 1.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_initial.sql")];

/// Runs what has not run yet. Two processes may call this on the same fresh file at once: the second finds nothing left to do.
///
/// Takes the write lock even if there is nothing to do, so that a file that cannot be written is found at start.
pub(super) async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), Trouble> {
    let driver = |error| Trouble::from_driver(error, path);
    let mut transaction = connection.begin_with("begin immediate").await.map_err(driver)?;
    sqlx::query(include_str!("sql/migrations_table.sql")).execute(&mut *transaction).await.map_err(driver)?;
    let row = sqlx::query(include_str!("sql/migrations_version.sql")).fetch_one(&mut *transaction).await.map_err(driver)?;
    let found: i64 = row.try_get("version").map_err(driver)?;
    for (version, migration) in (1_i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        sqlx::raw_sql(*migration).execute(&mut *transaction).await.map_err(driver)?;
        sqlx::query(include_str!("sql/migrations_applied.sql"))
            .bind(version)
            .bind(StoreTime::now())
            .execute(&mut *transaction)
            .await
            .map_err(driver)?;
    }
    let known = MIGRATIONS.len();
    if usize::try_from(found).is_ok_and(|found| found > known) {
        return Err(Trouble::new(
            ErrorKind::Misconfigured,
            Outcome::NotApplied,
            format!("`{}` has schema version {found}, this program knows up to {known}: update the program", path.display()),
        ));
    }
    transaction.commit().await.map_err(driver)
}
