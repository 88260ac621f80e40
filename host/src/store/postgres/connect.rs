//! Settings of every connection, and whether they reach the session at the server.
//!
//! Between us and the server there may be a transaction pooler, such as pgbouncer, which lends a session for one transaction at a time. It
//! never carries what is said when a connection starts: by that it is recognised, without a word in the configuration.

use std::str::FromStr;

use futures::FutureExt;
use sqlx::Row;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use uuid::Uuid;

use super::calls::{Calls, is_refused_startup};
use crate::store::{ErrorKind, Result, StoreError, StoreOptions};

/// Whose the session is that a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sessions {
    /// The connection's own, for as long as it lives.
    Own,
    /// A pooler's, lent for one transaction. What is set, prepared or listened for in it would be somebody else's after that.
    Lent,
}

/// How to connect, and what to call the server in messages.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) connect: PgConnectOptions,
    /// Server and database, without the password.
    pub(super) server: String,
    pub(super) sessions: Sessions,
    /// The same settings for one transaction of a lent session.
    pub(super) set_local: String,
    /// As it was said to connect, with nothing that a pooler might refuse.
    plain: PgConnectOptions,
    /// Random; a session that knows it has heard our settings.
    mark: Uuid,
}

/// `jit` is off: our statements estimate many rows and read few, and compiling one costs a hundred times what running it does.
///
/// The server ends a statement slightly before the host gives the call up, so that the host learns that nothing was applied. It also ends
/// the transaction of a host that has stopped, or vanished, in the middle: claims pass over the rows that such a one has locked. A vanished
/// one it notices by keepalives, or by an answer that nobody acknowledges.
pub(super) fn settings(url: &str, options: &StoreOptions) -> Result<Settings> {
    let plain = PgConnectOptions::from_str(url).map_err(|error| {
        // The URL may hold a password: it is not repeated.
        let message = "expected a store such as `postgres://user@host:5432/database`";
        StoreError::new("open", ErrorKind::Misconfigured, message).with_source(error)
    })?;
    // We read numbers in binary, where there is no such thing as extra digits; poolers refuse to hear of them.
    let plain = plain.application_name("relaybus-host").extra_float_digits(None);
    let call_timeout_ms = options.call_timeout.as_millis().max(1).to_string();
    let statement_timeout_ms = options.call_timeout.mul_f64(0.9).as_millis().max(1).to_string();
    let of_transactions = [
        ("statement_timeout", statement_timeout_ms.as_str()),
        ("idle_in_transaction_session_timeout", call_timeout_ms.as_str()),
        ("client_min_messages", "warning"),
        ("jit", "off"),
    ];
    let mark = Uuid::new_v4();
    let connect = plain
        .clone()
        .options(of_transactions)
        .options([("tcp_keepalives_idle", 10), ("tcp_keepalives_interval", 5), ("tcp_keepalives_count", 3), ("tcp_user_timeout", 25_000)])
        .options([("relaybus.mark", mark)]);
    let set_local = of_transactions.map(|(name, value)| format!("; set local {name} = '{value}'")).concat();
    let database = plain.get_database().unwrap_or_else(|| plain.get_username());
    let server = format!("`{database}` at {}:{}", plain.get_host(), plain.get_port());
    Ok(Settings { connect, server, sessions: Sessions::Own, set_local, plain, mark })
}

/// Finds out whose the sessions are.
pub(super) async fn meet(settings: Settings, options: &StoreOptions) -> Result<Settings> {
    let (calls, mark) = (Calls::new(&settings, options, 1), settings.mark);
    let met = calls.run("open", move |connection| knows(connection, mark).boxed()).await;
    calls.close().await;
    match met {
        Ok(true) => return Ok(settings),
        Ok(false) => {}
        Err(error) if is_refused_startup(&error) => {}
        Err(error) => return Err(error),
    }
    tracing::info!(server = settings.server, "a transaction pooler lends the sessions; publishes elsewhere are found by polling");
    Ok(Settings { connect: settings.plain.clone(), sessions: Sessions::Lent, ..settings })
}

/// Unprepared, for whoever else gets the session.
async fn knows(connection: &mut PgConnection, mark: Uuid) -> sqlx::Result<bool> {
    let row = sqlx::raw_sql("select coalesce(current_setting('relaybus.mark', true), '') as mark").fetch_one(connection).await?;
    Ok(row.try_get::<String, _>("mark")? == mark.to_string())
}
