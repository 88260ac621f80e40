//! The database servers that tests run against: real ones, started here, gone when the test process is.
//!
//! Nothing here knows what a delivery is, and nothing may outlive the test process, however that ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bson::doc;
use tokio::sync::OnceCell;

/// Names a server to use instead of one that is started here: `postgres://user@host:port`, whose user may create databases.
pub const POSTGRES_VARIABLE: &str = "RELAYBUS_TEST_POSTGRES";

/// The same for MongoDB: `mongodb://host:port`, a replica set.
pub const MONGODB_VARIABLE: &str = "RELAYBUS_TEST_MONGODB";

/// Makes a PostgreSQL server in a folder of its own and says `ready`, or what went wrong. Then it waits for the end of its stdin, which comes when the
/// test process ends in whatever way, stops the server and removes the folder. An output that nobody reads any more
/// must not end it before that.
///
/// `fsync` is off (`$3`) for tests: they end clients in every way but never this server, and what was committed outlives any client without it.
/// It makes a database per case affordable.
const POSTGRES_KEEPER: &str = r#"
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

/// The same for MongoDB: `$3` names the replica set, if it is to be one.
const MONGODB_KEEPER: &str = r#"
trap '' PIPE
folder=$(mktemp -d /tmp/relaybus-mongodb-XXXXXX) || exit
mkdir "$folder/data"
if [ "$3" ]; then set -- "$1" "$2" --replSet "$3"; fi
mongod=$1 port=$2
shift 2
if "$mongod" --fork --dbpath "$folder/data" --logpath "$folder/log" --pidfilepath "$folder/pid" --port "$port" --bind_ip 127.0.0.1 \
    --nounixsocket --wiredTigerCacheSizeGB 1 --setParameter diagnosticDataCollectionEnabled=false "$@" >"$folder/out" 2>&1
then
    echo ready
    read -r _
    kill -9 "$(cat "$folder/pid")"
else
    cat "$folder/out"
fi
rm -rf "$folder"
"#;

/// The processes that keep the servers alive for as long as this one lives.
static KEEPERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

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

/// The address of the MongoDB server of this test process, a replica set of one, started at the first call.
///
/// # Errors
/// If there is no server to be had; the text says why, and is the same for every caller.
pub async fn mongodb() -> Result<String> {
    static ADDRESS: OnceCell<Result<String, String>> = OnceCell::const_new();
    let address = ADDRESS.get_or_init(|| async {
        match std::env::var(MONGODB_VARIABLE) {
            Ok(address) => Ok(address.trim_end_matches('/').to_owned()),
            Err(_) => start_replica_set().await.map_err(|error| format!("{error:#}")),
        }
    });
    address.await.clone().map_err(anyhow::Error::msg)
}

/// The address of a MongoDB server that is no replica set, started at the first call.
///
/// # Errors
/// If there is no server to be had; the text says why, and is the same for every caller.
pub async fn standalone_mongodb() -> Result<String> {
    static ADDRESS: OnceCell<Result<String, String>> = OnceCell::const_new();
    let start = || async { tokio::task::spawn_blocking(|| start_mongodb("")).await? };
    let address = ADDRESS.get_or_init(|| async { start().await.map_err(|error: anyhow::Error| format!("{error:#}")) });
    address.await.clone().map_err(anyhow::Error::msg)
}

/// Stops the servers and waits until they are gone. Without this call the same happens right after the process has ended.
pub fn stop() {
    let keepers = KEEPERS.lock().map(|mut keepers| std::mem::take(&mut *keepers)).unwrap_or_default();
    for mut keeper in keepers {
        drop(keeper.stdin.take());
        let _ = keeper.wait();
    }
}

fn start_postgres(fsync: &str) -> Result<String> {
    let port = free_port()?;
    start(POSTGRES_KEEPER, &[newest_installation()?.as_os_str(), port.to_string().as_ref(), fsync.as_ref()])?;
    Ok(format!("postgres://postgres@127.0.0.1:{port}"))
}

fn start_mongodb(replica_set: &str) -> Result<String> {
    let port = free_port()?;
    start(MONGODB_KEEPER, &[mongod()?.as_os_str(), port.to_string().as_ref(), replica_set.as_ref()])?;
    Ok(format!("mongodb://127.0.0.1:{port}"))
}

/// A server of its own is a majority of its set. It may confirm what is not on the disk yet, as `fsync` off has it.
async fn start_replica_set() -> Result<String> {
    let address = tokio::task::spawn_blocking(|| start_mongodb("relaybus")).await??;
    let member = doc! { "_id": 0, "host": address.trim_start_matches("mongodb://") };
    let settings = doc! { "_id": "relaybus", "members": [member], "writeConcernMajorityJournalDefault": false };
    let client = mongodb::Client::with_uri_str(format!("{address}/?directConnection=true")).await?;
    client.database("admin").run_command(doc! { "replSetInitiate": settings }).await.context("making a replica set")?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.database("admin").run_command(doc! { "hello": 1 }).await?.get_bool("isWritablePrimary")? {
        if Instant::now() > deadline {
            bail!("the MongoDB server has not become the primary of its replica set");
        }
        crate::pause().await;
    }
    client.shutdown().await;
    Ok(address)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Starts a server under the keeper `script`, and returns when it serves.
fn start(script: &str, arguments: &[&OsStr]) -> Result<()> {
    let mut keeper = Command::new("sh")
        .args(["-c", script, "keeper"])
        .args(arguments)
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
        bail!("the server did not start: {answer}");
    }
    if let Ok(mut keepers) = KEEPERS.lock() {
        keepers.push(keeper);
    }
    Ok(())
}

/// A `mongod` on the PATH, or the one that `tests/run.sh` has put below the target folder.
fn mongod() -> Result<PathBuf> {
    let on_path =
        std::env::var_os("PATH").and_then(|path| std::env::split_paths(&path).map(|folder| folder.join("mongod")).find(|it| it.exists()));
    let test = std::env::current_exe()?;
    let installed = test.ancestors().nth(3).map(|target| target.join("tools/mongod")).filter(|path| path.exists());
    on_path.or(installed).with_context(|| {
        format!("expected `mongod` on the PATH: install it, run `tests/run.sh`, or name a running server in {MONGODB_VARIABLE}")
    })
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
