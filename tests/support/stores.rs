//! Databases for tests: an empty one with our schema for whoever asks, on any backend.
//!
//! Nothing here knows a table or a column: stores are opened through `relaybus_host::store::open` alone.

use std::fmt;

use anyhow::{Context, Result};
use relaybus_host::store::{self, Backend, StoreOptions};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::servers;

/// Names backends, joined by commas, whose tests are to be skipped: `RELAYBUS_TEST_SKIP=postgres`.
pub const SKIP_VARIABLE: &str = "RELAYBUS_TEST_SKIP";

/// Every backend, in the order in which a run shows them.
pub const BACKENDS: [Backend; 3] = [Backend::Sqlite, Backend::Postgres, Backend::MongoDb];

/// The name of a backend in tests' names and in [`SKIP_VARIABLE`].
pub const fn name_of(backend: Backend) -> &'static str {
    match backend {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
        Backend::MongoDb => "mongodb",
    }
}

/// Whether this backend's tests are skipped by name. One that is merely missing makes them fail.
pub fn is_skipped(backend: Backend) -> bool {
    std::env::var(SKIP_VARIABLE).is_ok_and(|names| names.split(',').any(|name| name.trim() == name_of(backend)))
}

/// A database that nobody else uses. [`Database::remove`] it; a file goes by itself as well.
pub struct Database {
    pub backend: Backend,
    /// What `relaybus_host::store::open` and `--store` take.
    pub url: String,
    folder: Option<TempDir>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Database {
    /// A database with our schema.
    ///
    /// # Errors
    /// If the backend is missing, or its server cannot be started.
    pub async fn create(backend: Backend) -> Result<Self> {
        match backend {
            Backend::Sqlite => Self::create_empty(backend).await,
            // Nothing to copy from: there, whoever opens a database makes its collections.
            Backend::MongoDb => Self::create_empty(backend).await,
            Backend::Postgres => {
                let server = servers::postgres().await?;
                Self::create_on(&server, &format!("template {}", template(&server).await?)).await
            }
        }
    }

    /// A database that nobody has opened yet.
    ///
    /// # Errors
    /// If the backend is missing, or its server cannot be started.
    pub async fn create_empty(backend: Backend) -> Result<Self> {
        match backend {
            Backend::Sqlite => {
                let folder = tempfile::tempdir()?;
                let url = format!("sqlite:{}", folder.path().join("relaybus.db").display());
                Ok(Self { backend, url, folder: Some(folder) })
            }
            Backend::Postgres => Self::create_on(&servers::postgres().await?, "").await,
            Backend::MongoDb => Ok(Self::on_mongodb(&servers::mongodb().await?)),
        }
    }

    /// A database on this server that nobody has opened yet.
    ///
    /// # Errors
    /// If the server cannot be asked for it, or the backend has no servers.
    pub async fn create_empty_at(backend: Backend, server: &str) -> Result<Self> {
        match backend {
            Backend::Sqlite => anyhow::bail!("SQLite has no servers"),
            Backend::Postgres => Self::create_on(server, "").await,
            Backend::MongoDb => Ok(Self::on_mongodb(server)),
        }
    }

    /// A name on this MongoDB server, which makes a database of it once something is stored. The server is told to be taken as it is,
    /// and not for the other members that it may name.
    pub fn on_mongodb(server: &str) -> Self {
        let name = format!("relaybus_test_{}", uuid::Uuid::new_v4().simple());
        let (server, parameters) = server.split_once("/?").unwrap_or((server, "directConnection=true"));
        Self { backend: Backend::MongoDb, url: format!("{server}/{name}?{parameters}"), folder: None }
    }

    async fn create_on(server: &str, like: &str) -> Result<Self> {
        let name = format!("relaybus_test_{}", uuid::Uuid::new_v4().simple());
        execute(server, format!("create database {name} {like}")).await?;
        Ok(Self { backend: Backend::Postgres, url: format!("{server}/{name}"), folder: None })
    }

    /// Removes the database, whoever is still connected to it.
    pub async fn remove(&self) {
        match self.backend {
            Backend::Sqlite => {
                if let Some(folder) = &self.folder {
                    let _ = std::fs::remove_dir_all(folder.path());
                }
            }
            Backend::Postgres => {
                if let Some((server, name)) = self.url.rsplit_once('/') {
                    let _ = execute(server, format!("drop database if exists {name} with (force)")).await;
                }
            }
            Backend::MongoDb => {
                if let Ok(client) = mongodb::Client::with_uri_str(&self.url).await
                    && let Some(database) = client.default_database()
                {
                    let _ = database.drop().await;
                    client.shutdown().await;
                }
            }
        }
    }
}

/// Removes the template database, from a server that lives on without us. Call it when no more databases are wanted.
pub async fn remove_template() {
    if let (Some(Ok(template)), Ok(server)) = (TEMPLATE.get(), std::env::var(servers::POSTGRES_VARIABLE)) {
        let _ = execute(server.trim_end_matches('/'), format!("drop database if exists {template}")).await;
    }
}

static TEMPLATE: OnceCell<Result<String, String>> = OnceCell::const_new();

/// The database that all others are copied from: migrated once, and connected to by nobody.
async fn template(server: &str) -> Result<String> {
    let create = || async {
        let name = format!("relaybus_template_{}", uuid::Uuid::new_v4().simple());
        execute(server, format!("create database {name}")).await?;
        let store = store::open(&format!("{server}/{name}"), StoreOptions::default()).await.context("migrating the template database")?;
        store.store.close().await;
        anyhow::Ok(name)
    };
    let template = TEMPLATE.get_or_init(|| async { create().await.map_err(|error| format!("{error:#}")) });
    template.await.clone().map_err(anyhow::Error::msg)
}

async fn execute(server: &str, statement: String) -> Result<()> {
    let mut connection = PgConnection::connect(&format!("{server}/postgres")).await.context("connecting to the server")?;
    let done = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await;
    connection.close().await?;
    done.map(|_| ()).context("preparing a test's database")
}
