//! From a URL to clients, and to what the server is.
//!
//! Nothing here reads or writes our collections.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::options::{ClientOptions, ReadPreference, SelectionCriteria};
use mongodb::{Client, Database};
use tokio::time::Instant;

use super::calls::Trouble;
use crate::store::{ErrorKind, Result, StoreError, StoreOptions};

/// The database of a URL that names none.
const DEFAULT_DATABASE: &str = "relaybus";
/// The wire protocol of MongoDB 6.0.
const OLDEST_WIRE_VERSION: i32 = 17;
/// More than a server that is merely slow leaves unanswered: it ends commands by their own time limit, and says so.
const MAX_UNANSWERED: u32 = 3;

/// The databases that calls go to, and what to call the server in messages.
pub(super) struct Connections {
    pub(super) calls: Arc<Reach>,
    /// On connections of its own: renewals and wake-ups, which busy calls must not starve (R3).
    pub(super) apart: Arc<Reach>,
    pub(super) server: String,
}

/// A database, by whatever client leads to it.
///
/// The driver gives a new connection no time limit for its first exchange with the server, and makes two at a time. Where connections are
/// accepted and then not served, such as by a proxy that has lost its server, these two would keep a client from making any other, for good.
pub(super) struct Reach {
    settings: ClientOptions,
    name: String,
    current: RwLock<Database>,
    /// Calls in a row to which the server has not said a word.
    n_unanswered: AtomicU32,
}

impl Reach {
    fn open(settings: ClientOptions, name: String) -> mongodb::error::Result<Self> {
        let current = RwLock::new(Client::with_options(settings.clone())?.database(&name));
        Ok(Self { settings, name, current, n_unanswered: AtomicU32::new(0) })
    }

    pub(super) fn database(&self) -> Database {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server has said something.
    pub(super) fn answered(&self) {
        self.n_unanswered.store(0, Ordering::Relaxed);
    }

    /// A call was given up. After a few in a row, the next ones go by a new client; what still uses the old one keeps it.
    pub(super) fn not_answered(&self) {
        if self.n_unanswered.fetch_add(1, Ordering::Relaxed) + 1 < MAX_UNANSWERED {
            return;
        }
        self.n_unanswered.store(0, Ordering::Relaxed);
        match Client::with_options(self.settings.clone()) {
            Ok(client) => *self.current.write().unwrap_or_else(PoisonError::into_inner) = client.database(&self.name),
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "no new client for a server that does not answer"),
        }
    }
}

/// # Errors
/// `Misconfigured` if the URL cannot be read.
pub(super) async fn connect(url: &str, options: &StoreOptions) -> Result<Connections> {
    let mut settings = ClientOptions::parse(url).await.map_err(|error| {
        // The URL may hold a password: it is not repeated.
        let message = "expected a store such as `mongodb://user@host:27017/database`";
        StoreError::new("open", ErrorKind::Misconfigured, message).with_source(error)
    })?;
    settings.app_name.get_or_insert_with(|| "relaybus-host".to_owned());
    settings.server_selection_timeout = Some(options.call_timeout / 2);
    settings.connect_timeout = Some(options.call_timeout / 2);
    // Whatever the URL says of reads: what we decide by must be the latest.
    settings.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    let name = settings.default_database.clone().unwrap_or_else(|| DEFAULT_DATABASE.to_owned());
    let hosts: Vec<String> = settings.hosts.iter().map(ToString::to_string).collect();
    let server = format!("`{name}` at {}", hosts.join(","));
    let open = |max_connections: u32| {
        let mut settings = settings.clone();
        settings.max_pool_size = Some(max_connections);
        Reach::open(settings, name.clone()).map(Arc::new)
    };
    let misconfigured = |error| StoreError::new("open", ErrorKind::Misconfigured, format!("{server} cannot be used")).with_source(error);
    let calls = open(options.max_connections.max(1)).map_err(misconfigured)?;
    // One for renewals, one for the change stream, one for what they are told by.
    let apart = open(3).map_err(misconfigured)?;
    Ok(Connections { calls, apart, server })
}

/// What the server says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hello {
    /// When it was asked, by the clock of this host.
    pub(super) asked_at: Instant,
    pub(super) local_time: bson::DateTime,
    pub(super) is_replica_set: bool,
}

/// Asks the server what it is, and what time it is there.
pub(super) async fn hello(database: &Database, patience: Duration) -> Result<Hello, Trouble> {
    let asked_at = Instant::now();
    let answer = tokio::time::timeout(patience, database.run_command(doc! { "hello": 1 })).await.map_err(|_| Trouble::TooLate)??;
    let wire_version = answer.get_i32("maxWireVersion").unwrap_or(0);
    if wire_version < OLDEST_WIRE_VERSION {
        return Err(Trouble::Unfit(format!("expected MongoDB 6.0 or later, got one of wire version {wire_version}")));
    }
    let local_time = *answer.get_datetime("localTime").map_err(|_| Trouble::Unfit(unexpected(&answer)))?;
    Ok(Hello { asked_at, local_time, is_replica_set: answer.contains_key("setName") })
}

fn unexpected(answer: &Document) -> String {
    format!("expected the answer of a MongoDB server to `hello`, got the fields {:?}", answer.keys().collect::<Vec<_>>())
}
