//! The real binary, run as a user runs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal};
use serde_json::Value;

/// The binary beside this test's own executable.
///
/// # Panics
/// If it is missing or older than its sources: cargo does not build it for the tests of another package.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().expect("a test knows its own path");
        let profile = test.parent().and_then(Path::parent).expect("tests lie in `deps` below their profile's folder");
        let binary = profile.join("relaybus-host");
        let built_at = std::fs::metadata(&binary).and_then(|metadata| metadata.modified());
        let sources = crate::root().join("host/src");
        match built_at {
            Ok(built_at) if built_at >= newest(&sources) => binary,
            Ok(_) => panic!("{} is older than its sources; build it first: cargo build -p relaybus-host", binary.display()),
            Err(_) => panic!("{} is missing; build it first: cargo build -p relaybus-host", binary.display()),
        }
    })
}

fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).expect("the sources are there").flatten();
    let times = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => newest(&entry.path()),
        metadata => metadata.and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH),
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The binary, to be run in `folder`, with nothing of ours in its environment.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["RELAYBUS_STORE", "RELAYBUS_CONFIG", "RELAYBUS_LOG", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The objects on stdout, one a line.
    ///
    /// # Panics
    /// If a line is no JSON.
    pub fn objects(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// The only object on stdout.
    ///
    /// # Panics
    /// If there is none, or another one.
    pub fn object(&self) -> Value {
        let mut objects = self.objects();
        assert_eq!(objects.len(), 1, "expected one object, got {self:?}");
        objects.remove(0)
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs the binary to its end.
///
/// # Panics
/// If it cannot be started.
pub fn run(folder: &Path, arguments: &[&str]) -> Ended {
    command(folder, arguments).output().expect("the binary runs").into()
}

/// Runs the binary to its end, with `input` on its stdin.
///
/// # Panics
/// If it cannot be started, or does not read its input.
pub fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut child = command(folder, arguments).stdin(Stdio::piped()).spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let ended = child.wait_with_output().expect("the binary ends").into();
    writer.join().expect("the writer ends").expect("the binary reads its input");
    ended
}

/// A host that goes on until it is told otherwise. Dropping it kills it.
pub struct Running {
    child: Child,
    /// Written by the thread that reads stderr, line by line.
    log: Arc<Mutex<Vec<String>>>,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<()>>,
}

/// Beyond the longest time that a host takes to stop, on a machine that others use too.
const LONGEST_STOP: Duration = Duration::from_secs(60);

impl Running {
    /// Starts `command`, as [`command`] makes it.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the binary runs");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, written) = (child.stderr.take().expect("stderr is a pipe"), Arc::clone(&log));
        let stderr = std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                written.lock().expect("no reader panics").push(line);
            }
        });
        let mut output = child.stdout.take().expect("stdout is a pipe");
        let stdout = std::thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).expect("the output is UTF-8");
            text
        });
        Self { child, log, stdout: Some(stdout), stderr: Some(stderr) }
    }

    /// What it has written to stderr so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().expect("no reader panics").clone()
    }

    /// How it ended, if it did.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the host is our child")
    }

    /// Memory that it holds right now.
    ///
    /// # Panics
    /// If it is gone.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the host is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// Sends a signal, such as `STOP` and `CONT`.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).expect("the host is there");
    }

    /// Kills it (SIGKILL), and returns when it is gone.
    ///
    /// # Panics
    /// If it had ended by itself.
    pub fn kill(&mut self) {
        assert_eq!(self.status(), None, "the host ended by itself: {}", self.log().join("\n"));
        self.child.kill().expect("the host is our child");
        self.child.wait().expect("the host is our child");
    }

    /// Asks it to stop (SIGTERM), and answers how it ended.
    ///
    /// # Panics
    /// If it had ended by itself, or does not end.
    pub async fn terminate(mut self) -> Ended {
        assert_eq!(self.status(), None, "the host ended by itself: {}", self.log().join("\n"));
        self.signal(Signal::TERM);
        let stopped = tokio::time::timeout(LONGEST_STOP, self.until_gone()).await;
        assert!(stopped.is_ok(), "the host does not stop: {}", self.log().join("\n"));
        self.ended().await
    }

    async fn until_gone(&mut self) {
        while self.status().is_none() {
            crate::pause().await;
        }
    }

    /// Waits for the end of a host that ends by itself, or was told to.
    pub async fn ended(mut self) -> Ended {
        self.until_gone().await;
        let code = self.status().and_then(|status| status.code());
        let stdout = self.stdout.take().map(|reader| reader.join().expect("the reader ends")).unwrap_or_default();
        if let Some(reader) = self.stderr.take() {
            reader.join().expect("the reader ends");
        }
        Ended { code, stdout, stderr: self.log().join("\n") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
