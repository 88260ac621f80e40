//! From a store's URL to an open store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::mongodb::MongoStore;
use super::postgres::PostgresStore;
use super::sqlite::SqliteStore;
use super::{ErrorKind, Operators, Result, Store, StoreError};

/// How much of the drivers' logs is wanted, unless somebody names them: they say for each connection what the host says once of the store.
pub const DRIVER_LOG: &str = "sqlx_core::pool=warn";

/// Settings that every backend understands.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// After this long a call fails with [`ErrorKind::Timeout`] and its connection is closed. Below a third of the lease duration, so that
    /// one hanging call cannot cost a lease.
    pub call_timeout: Duration,
    /// The most connections; one more is kept for lease renewals, and on PostgreSQL another for wake-ups.
    pub max_connections: u32,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { call_timeout: Duration::from_secs(5), max_connections: 8 }
    }
}

/// An open store: two views of the same thing.
#[derive(Clone)]
pub struct OpenStore {
    pub store: Arc<dyn Store>,
    pub operators: Arc<dyn Operators>,
}

/// Opens the store that `url` names (`sqlite:PATH`, `postgres://...`, `mongodb://...`), bringing its schema up to date.
///
/// # Errors
/// `Misconfigured` for a URL that names no known store, a file that is no database, or a schema newer than this program; `Unavailable` for
/// one that cannot be reached or written.
pub async fn open(url: &str, options: StoreOptions) -> Result<OpenStore> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        let store = Arc::new(SqliteStore::open(Path::new(path), options).await?);
        return Ok(OpenStore { store: Arc::<SqliteStore>::clone(&store), operators: store });
    }
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        let store = Arc::new(PostgresStore::open(url, &options).await?);
        return Ok(OpenStore { store: Arc::<PostgresStore>::clone(&store), operators: store });
    }
    if url.starts_with("mongodb:") || url.starts_with("mongodb+srv:") {
        let store = Arc::new(MongoStore::open(url, &options).await?);
        return Ok(OpenStore { store: Arc::<MongoStore>::clone(&store), operators: store });
    }
    let message =
        format!("expected a store such as `sqlite:relaybus.db`, `postgres://user@host/database` or `mongodb://host/database`, got `{url}`");
    Err(StoreError::new("open", ErrorKind::Misconfigured, message))
}
