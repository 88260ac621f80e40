//! A transaction pooler in front of the PostgreSQL server of the tests: the real pgbouncer, started here, gone when the test process is.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::servers;

/// Starts a pooler and says `ready`, or what went wrong; then waits for the end of its stdin, as the servers' keeper does.
///
/// Two sessions for everybody: whoever leaves something in one leaves it to others.
const KEEPER: &str = r#"
trap '' PIPE
run() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
port=$1 server=$2 ignored=$3
folder=$(run mktemp -d /tmp/relaybus-pgbouncer-XXXXXX) || exit
run tee "$folder/pgbouncer.ini" >"/dev/null" <<SETTINGS
[databases]
* = $server
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
logfile = $folder/log
pidfile = $folder/pid
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 400
ignore_startup_parameters = $ignored
SETTINGS
run pgbouncer -q -d "$folder/pgbouncer.ini" >"$folder/out" 2>&1
for _ in $(seq 300); do
    if grep -q 'process up' "$folder/log"; then break; fi
    sleep 0.1
done
if [ -s "$folder/pid" ]; then
    echo ready
    read -r _
    kill "$(cat "$folder/pid")"
else
    cat "$folder/out" "$folder/log"
fi
rm -rf "$folder"
"#;

/// What a pooler does with settings that come with the start of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupSettings {
    Refused,
    Ignored,
}

/// A running pooler. It goes with this value.
pub struct Pooler {
    keeper: Child,
    port: u16,
}

impl Pooler {
    /// # Errors
    /// If there is no pooler or no server to be had; the text says why.
    pub async fn start(settings: StartupSettings) -> Result<Self> {
        let server = servers::postgres().await?;
        tokio::task::spawn_blocking(move || start(&server, settings)).await?
    }

    /// The address of a database of the tests' server, through the pooler.
    ///
    /// # Panics
    /// If `url` is not that of a database.
    pub fn in_front_of(&self, url: &str) -> String {
        let (_, database) = url.rsplit_once('/').expect("the URL names a database");
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn start(server: &str, settings: StartupSettings) -> Result<Pooler> {
    let ignored = match settings {
        StartupSettings::Refused => "",
        StartupSettings::Ignored => "options",
    };
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER, "keeper", &port.to_string(), &connection_string(server)?, ignored])
        .process_group(0) // as the servers' keeper
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the pooler's keeper")?;
    let mut told = BufReader::new(keeper.stdout.take().context("the keeper has an output")?);
    let mut answer = String::new();
    told.read_line(&mut answer)?;
    if answer != "ready\n" {
        told.read_to_string(&mut answer)?;
        bail!("pgbouncer did not start; is the Debian package `pgbouncer` installed? {answer}");
    }
    Ok(Pooler { keeper, port })
}

/// `postgres://user:password@host:port` as pgbouncer writes it.
fn connection_string(server: &str) -> Result<String> {
    let rest = server.split_once("://").map(|(_, rest)| rest).context("the server has a URL")?;
    let (user, address) = rest.split_once('@').context("the server's URL names a user")?;
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let (host, port) = address.split_once(':').unwrap_or((address, "5432"));
    let password = if password.is_empty() { String::new() } else { format!(" password={password}") };
    Ok(format!("host={host} port={port} user={user}{password}"))
}
