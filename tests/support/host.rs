//! The real binary, run as a user runs it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

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
