//! A database server for one test alone, which the test may stop, crash and start again.
//!
//! Unlike the servers that tests share, what it has confirmed outlives its own crash. It is gone when its value is dropped, or the test process.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use relaybus_host::store::Backend;

use crate::servers::{self, Confirms, REPLICA_SET};

/// Answers each line of its stdin with `ready`, or with what went wrong; the first answer comes by itself. At the end of its stdin it stops
/// the server and removes the folder. The functions `make`, `start` and `stop` come before it.
const LOOP: &str = r#"
trap '' PIPE
try() { if "$@" >"$folder/out" 2>&1; then echo ready; else tr '\n' ' ' <"$folder/out"; echo; fi; }
make_and_start() { make && start; }
try make_and_start
while read -r verb how; do try "$verb" "$how"; done
stop crash >"$folder/out" 2>&1
rm -rf "$folder"
"#;

/// `fsync` is off: a server that crashes on a machine that goes on loses nothing without it.
const POSTGRES: &str = r#"
bin=$1 port=$2
run() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
folder=$(run mktemp -d /tmp/relaybus-postgres-XXXXXX) || exit
make() { run "$bin/initdb" -D "$folder/data" --auth=trust --username=postgres --no-sync --encoding=UTF8 --locale=C.UTF-8; }
start() { run "$bin/pg_ctl" start -w -D "$folder/data" -l "$folder/log" -o "-k $folder -p $port -c fsync=off -c max_connections=200"; }
stop() { if [ "$1" = crash ]; then mode=immediate; else mode=fast; fi; run "$bin/pg_ctl" stop -w -D "$folder/data" -m "$mode"; }
"#;

const MONGODB: &str = r#"
mongod=$1 port=$2 set=$3
folder=$(mktemp -d /tmp/relaybus-mongodb-XXXXXX) || exit
make() { mkdir "$folder/data"; }
start() {
    "$mongod" --fork --dbpath "$folder/data" --logpath "$folder/log" --logappend --pidfilepath "$folder/pid" --port "$port" \
        --bind_ip 127.0.0.1 --nounixsocket --wiredTigerCacheSizeGB 1 --setParameter diagnosticDataCollectionEnabled=false --replSet "$set"
}
stop() {
    pid=$(cat "$folder/pid") || return
    if [ "$1" = crash ]; then kill -9 "$pid"; else kill "$pid"; fi
    while kill -0 "$pid"; do sleep 0.05; done
}
"#;

/// How a server goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    /// It ends its sessions and writes what it holds.
    Orderly,
    /// It is gone at once, and recovers at the next start.
    Crash,
}

/// See the module.
pub struct PrivateServer {
    backend: Backend,
    address: String,
    keeper: Child,
    stdin: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl PrivateServer {
    /// A server that serves.
    ///
    /// # Errors
    /// If the backend has no servers, or its server does not start; the text says why.
    pub async fn start(backend: Backend) -> Result<Self> {
        let port = quiet_port()?;
        let (script, program, scheme) = match backend {
            Backend::Sqlite => bail!("SQLite has no servers"),
            Backend::Postgres => (POSTGRES, servers::newest_installation()?, "postgres://postgres@"),
            Backend::MongoDb => (MONGODB, servers::mongod()?, "mongodb://"),
        };
        let mut keeper = Command::new("sh")
            .args(["-c", &format!("{script}{LOOP}"), "keeper"])
            .arg(program)
            .args([&port.to_string(), REPLICA_SET])
            .process_group(0) // as for the servers that tests share
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the server's keeper")?;
        let stdin = keeper.stdin.take();
        let answers = BufReader::new(keeper.stdout.take().context("the keeper has an output")?);
        let address = format!("{scheme}127.0.0.1:{port}");
        let mut server = Self { backend, address, keeper, stdin, answers };
        server.expect_ready()?;
        if backend == Backend::MongoDb {
            servers::initiate_replica_set(&server.address, Confirms::OnceInTheJournal).await?;
        }
        Ok(server)
    }

    /// Its address, the same for as long as it lives: what [`Database::create_empty_at`](crate::stores::Database::create_empty_at) takes.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Takes the server down, and returns when it is.
    ///
    /// # Errors
    /// If it does not go.
    pub fn stop(&mut self, down: Down) -> Result<()> {
        self.tell(match down {
            Down::Orderly => "stop orderly",
            Down::Crash => "stop crash",
        })
    }

    /// Starts the server again, and returns when it serves.
    ///
    /// # Errors
    /// If it does not.
    pub async fn start_again(&mut self) -> Result<()> {
        self.tell("start")?;
        match self.backend {
            Backend::MongoDb => servers::until_primary(&self.address).await,
            Backend::Sqlite | Backend::Postgres => Ok(()),
        }
    }

    /// Takes it down and starts it again.
    ///
    /// # Errors
    /// If either fails.
    pub async fn restart(&mut self, down: Down) -> Result<()> {
        self.stop(down)?;
        self.start_again().await
    }

    fn tell(&mut self, command: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the keeper has an input")?;
        writeln!(stdin, "{command}").context("telling the server's keeper")?;
        self.expect_ready()
    }

    fn expect_ready(&mut self) -> Result<()> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.as_str() {
            "ready\n" => Ok(()),
            problem => bail!("the server at {} does not do as it is told: {problem}", self.address),
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// A free port that no client is given by chance. While the server is down, a client that knocks at a port of the usual range may be given
/// that very port for its own end, and keep it.
///
/// # Errors
/// If there is none.
pub fn quiet_port() -> Result<u16> {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (0..1000).map(|_| rand::random_range(20_000..32_000)).find(is_free).context("expected a free port between 20000 and 32000")
}
