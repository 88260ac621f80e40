//! The writer's open transaction, as the verbs see it.
//!
//! `BEGIN IMMEDIATE`: what a verb reads is still true when it writes, for nobody else can write meanwhile. Savepoints nest; all have the
//! same name, and each statement means the innermost.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor, Row};

use super::fan_out::Subscriptions;
use super::time::StoreTime;

pub(super) struct Transaction {
    pub(super) connection: SqliteConnection,
    /// Who handles what, by tenant, read at most once per transaction.
    subscriptions: HashMap<String, Arc<Subscriptions>>,
}

impl Transaction {
    pub(super) fn new(connection: SqliteConnection) -> Self {
        Self { connection, subscriptions: HashMap::new() }
    }

    /// The present by the store's clock. A verb asks once and uses the same instant throughout.
    pub(super) fn now(&self) -> StoreTime {
        StoreTime::now()
    }

    /// A number that changes when another connection has committed. To be called between transactions.
    pub(super) async fn data_version(&mut self) -> sqlx::Result<i64> {
        sqlx::query(include_str!("sql/data_version.sql")).fetch_one(&mut self.connection).await?.try_get(0)
    }

    pub(super) async fn begin(&mut self) -> sqlx::Result<()> {
        self.subscriptions.clear();
        self.connection.execute("begin immediate").await.map(drop)
    }

    pub(super) async fn commit(&mut self) -> sqlx::Result<()> {
        self.connection.execute("commit").await.map(drop)
    }

    pub(super) async fn roll_back(&mut self) -> sqlx::Result<()> {
        self.connection.execute("rollback").await.map(drop)
    }

    pub(super) async fn savepoint(&mut self) -> sqlx::Result<()> {
        self.connection.execute("savepoint part").await.map(drop)
    }

    pub(super) async fn release(&mut self) -> sqlx::Result<()> {
        self.connection.execute("release part").await.map(drop)
    }

    /// Takes back everything since the innermost savepoint, and the savepoint too.
    pub(super) async fn roll_back_to_savepoint(&mut self) -> sqlx::Result<()> {
        self.forget_subscriptions();
        self.connection.execute("rollback to part").await?;
        self.release().await
    }

    /// Who handles what in `tenant`.
    pub(super) async fn subscriptions(&mut self, tenant: &str) -> sqlx::Result<Arc<Subscriptions>> {
        if let Some(known) = self.subscriptions.get(tenant) {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(Subscriptions::read(&mut self.connection, tenant).await?);
        self.subscriptions.insert(tenant.to_owned(), Arc::clone(&read));
        Ok(read)
    }

    /// To be called by whoever changes subscriptions.
    pub(super) fn forget_subscriptions(&mut self) {
        self.subscriptions.clear();
    }
}
