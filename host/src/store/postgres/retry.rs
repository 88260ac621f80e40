//! Tries a transaction again that met another one: a deadlock's victim has lost nothing but time.

use futures::future::BoxFuture;
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::calls::is_conflict;

/// How often a transaction that met another one is tried again.
const MAX_CONFLICTS: usize = 5;

/// Runs `work` in a transaction of its own and commits it.
pub(super) async fn in_transaction<T, F>(connection: &mut PgConnection, work: F) -> sqlx::Result<T>
where
    F: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>>,
{
    let mut n_conflicts = 0;
    loop {
        let mut transaction = connection.begin().await?;
        match work(&mut transaction).await {
            Ok(answer) => return transaction.commit().await.map(|()| answer),
            Err(error) if is_conflict(&error) && n_conflicts < MAX_CONFLICTS => {
                n_conflicts += 1;
                transaction.rollback().await?;
            }
            Err(error) => return Err(error),
        }
    }
}
