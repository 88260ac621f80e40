//! The database servers that tests run against: real ones, started here, gone when the test process is.
//!
//! Nothing here knows what a delivery is, and nothing may outlive the test process, however that ends.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sqlx::{Connection, PgConnection};
use tokio::sync::OnceCell;

/// Names a server to use instead of one that is started here: `postgres://user@host:port`, whose user may create databases.
pub const POSTGRES_VARIABLE: &str = "RELAYBUS_TEST_POSTGRES";

/// A cold start on a busy machine takes a second or two.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Runs the server as a child and waits for the end of its own stdin, which comes when the test process ends in whatever way; then it
/// stops the server and removes its folder. Ctrl-C goes to the whole process group, and must not stop the keeper before it is done.
const KEEPER: &str = r#"
trap '' INT
run() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
bin=$1 folder=$2 port=$3
run "$bin/postgres" -D "$folder/data" -k "$folder" -p "$port" -c fsync=off -c max_connections=400 >"$folder/log" 2>&1 &
read -r _
run "$bin/pg_ctl" stop -D "$folder/data" -m immediate -s
wait
rm -rf "$folder"
"#;

/// The process that keeps a server alive for as long as this one lives.
static POSTGRES_KEEPER: Mutex<Option<Child>> = Mutex::new(None);

/// The address of the PostgreSQL server of this test process, started at the first call.
///
/// # Errors
/// If there is no server to be had; the text says why, and is the same for every caller.
pub async fn postgres() -> Result<String> {
    static ADDRESS: OnceCell<Result<String, String>> = OnceCell::const_new();
    let address = ADDRESS.get_or_init(|| async {
        match std::env::var(POSTGRES_VARIABLE) {
            Ok(address) => Ok(address.trim_end_matches('/').to_owned()),
            Err(_) => start_postgres().await.map_err(|error| format!("{error:#}")),
        }
    });
    address.await.clone().map_err(anyhow::Error::msg)
}

/// Stops the server and waits until it is gone. Without this call the same happens right after the process has ended.
pub fn stop() {
    let keeper = POSTGRES_KEEPER.lock().ok().and_then(|mut keeper| keeper.take());
    if let Some(mut keeper) = keeper {
        drop(keeper.stdin.take());
        let _ = keeper.wait();
    }
}

// `fsync` is off in the keeper's command line: these tests end clients in every way, but never the server, and what was committed
// outlives any client without it. It makes a database per case affordable.
async fn start_postgres() -> Result<String> {
    let bin = newest_installation()?;
    let folder = output(as_server_user("mktemp").args(["-d", "/tmp/relaybus-postgres-XXXXXX"]))?;
    output(as_server_user(bin.join("initdb")).arg("-D").arg(format!("{folder}/data")).args([
        "--auth=trust",
        "--username=postgres",
        "--no-sync",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
    ]))?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let keeper = Command::new("sh")
        .args(["-c", KEEPER, "keeper"])
        .arg(&bin)
        .args([&folder, &port.to_string()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the server's keeper")?;
    if let Ok(mut place) = POSTGRES_KEEPER.lock() {
        *place = Some(keeper);
    }
    let address = format!("postgres://postgres@127.0.0.1:{port}");
    let started = Instant::now();
    while let Err(error) = PgConnection::connect(&format!("{address}/postgres")).await {
        if started.elapsed() > START_DEADLINE {
            bail!("the PostgreSQL server did not start: {error}\n{}", fs::read_to_string(format!("{folder}/log")).unwrap_or_default());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(address)
}

/// Where Debian keeps the newest server that is installed.
fn newest_installation() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version_of = |path: &Path| path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u32>().ok());
    let newest = versions.map(|entry| entry.path()).filter_map(|path| version_of(&path).map(|version| (version, path))).max();
    let (_, folder) = newest.with_context(|| {
        format!("expected a PostgreSQL server below /usr/lib/postgresql: install one, or name a running one in {POSTGRES_VARIABLE}")
    })?;
    Ok(folder.join("bin"))
}

/// A command that runs as `postgres` where this process is root, as which the server refuses to run.
fn as_server_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/");
    command
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
