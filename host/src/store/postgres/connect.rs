//! Settings of every connection.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use crate::store::{ErrorKind, Result, StoreError, StoreOptions};

/// How to connect, and what to call the server in messages.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) connect: PgConnectOptions,
    pub(super) server: String,
}

/// `jit` is off: our statements estimate many rows and read few, and compiling one costs a hundred times what running it does.
///
/// The server ends a statement slightly before the host gives the call up, so that the host learns that nothing was applied. It also ends
/// the transaction of a host that has stopped, or vanished, in the middle: claims pass over the rows that such a one has locked.
pub(super) fn settings(url: &str, options: &StoreOptions) -> Result<Settings> {
    let connect = PgConnectOptions::from_str(url).map_err(|error| {
        // The URL may hold a password: it is not repeated.
        let message = "expected a store such as `postgres://user@host:5432/database`";
        StoreError::new("open", ErrorKind::Misconfigured, message).with_source(error)
    })?;
    let call_timeout_ms = options.call_timeout.as_millis().max(1);
    let statement_timeout_ms = options.call_timeout.mul_f64(0.9).as_millis().max(1);
    let connect = connect
        .application_name("relaybus-host")
        .options([("statement_timeout", statement_timeout_ms), ("idle_in_transaction_session_timeout", call_timeout_ms)])
        .options([("tcp_keepalives_idle", 10), ("tcp_keepalives_interval", 5), ("tcp_keepalives_count", 3)])
        .options([("client_min_messages", "warning"), ("jit", "off")]);
    let database = connect.get_database().unwrap_or_else(|| connect.get_username());
    let server = format!("`{database}` at {}:{}", connect.get_host(), connect.get_port());
    Ok(Settings { connect, server })
}
