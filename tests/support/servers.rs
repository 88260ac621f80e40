//! The database servers that tests run against: real ones, started here, gone when the test process is.
//!
//! Nothing here knows what a delivery is, and nothing may outlive the test process, however that ends.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use tokio::sync::OnceCell;

/// Names a server to use instead of one that is started here: `postgres://user@host:port`, whose user may create databases.
pub const POSTGRES_VARIABLE: &str = "RELAYBUS_TEST_POSTGRES";

/// Makes a server in a folder of its own and says `ready`, or what went wrong. Then it waits for the end of its stdin, which comes when the
/// test process ends in whatever way, stops the server and removes the folder. An output that nobody reads any more
/// must not end it before that.
///
/// `fsync` is off (`$3`) for tests: they end clients in every way but never this server, and what was committed outlives any client without it.
/// It makes a database per case affordable.
const KEEPER: &str = r#"
trap '' PIPE
run() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
bin=$1 port=$2 fsync=$3
folder=$(run mktemp -d /tmp/relaybus-postgres-XXXXXX) || exit
if run "$bin/initdb" -D "$folder/data" --auth=trust --username=postgres --no-sync --encoding=UTF8 --locale=C.UTF-8 >"$folder/out" 2>&1 &&
    run "$bin/pg_ctl" start -D "$folder/data" -l "$folder/log" -o "-k $folder -p $port -c fsync=$fsync -c max_connections=400" >"$folder/out" 2>&1
then
    echo ready
    read -r _
    run "$bin/pg_ctl" stop -D "$folder/data" -m immediate -s
else
    cat "$folder/out" "$folder/log"
fi
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
            Err(_) => {
                let started = tokio::task::spawn_blocking(|| start_postgres("off")).await;
                started.map_err(anyhow::Error::from).flatten().map_err(|error| format!("{error:#}"))
            }
        }
    });
    address.await.clone().map_err(anyhow::Error::msg)
}

/// The address of a PostgreSQL server that waits for the disk, as one does for work: for measurements. It replaces that of [`postgres`].
///
/// # Errors
/// If there is no server to be had.
pub async fn durable_postgres() -> Result<String> {
    match std::env::var(POSTGRES_VARIABLE) {
        Ok(address) => Ok(address.trim_end_matches('/').to_owned()),
        Err(_) => tokio::task::spawn_blocking(|| start_postgres("on")).await?,
    }
}

/// Stops the server and waits until it is gone. Without this call the same happens right after the process has ended.
pub fn stop() {
    let keeper = POSTGRES_KEEPER.lock().ok().and_then(|mut keeper| keeper.take());
    if let Some(mut keeper) = keeper {
        drop(keeper.stdin.take());
        let _ = keeper.wait();
    }
}

fn start_postgres(fsync: &str) -> Result<String> {
    let bin = newest_installation()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER, "keeper"])
        .arg(&bin)
        .args([&port.to_string(), fsync])
        .process_group(0) // so that Ctrl-C, which goes to a whole group, does not end it before it has cleaned up
        .current_dir("/") // where the server's user may be, too
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the server's keeper")?;
    let mut told = BufReader::new(keeper.stdout.take().context("the keeper has an output")?);
    let mut answer = String::new();
    told.read_line(&mut answer)?;
    if answer != "ready\n" {
        told.read_to_string(&mut answer)?;
        bail!("the PostgreSQL server did not start: {answer}");
    }
    if let Ok(mut place) = POSTGRES_KEEPER.lock() {
        *place = Some(keeper);
    }
    Ok(format!("postgres://postgres@127.0.0.1:{port}"))
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
