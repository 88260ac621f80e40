//! What the tests share: guests, stores, servers, hosts.

pub mod faketime;
pub mod faulty;
pub mod guests;
pub mod history;
pub mod host;
pub mod invariants;
pub mod lossy;
pub mod pgbouncer;
pub mod private_server;
pub mod proxy;
pub mod rig;
pub mod runs;
pub mod sandbox;
pub mod servers;
pub mod size;
pub mod stores;

/// The folder of the workspace. As it is when this runs: checkouts that share a target folder may share a test program as well.
///
/// # Panics
/// If a test is not started by cargo.
pub fn root() -> std::path::PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    std::path::Path::new(&package).parent().expect("the tests package lies in the workspace").to_owned()
}

/// How long something that is meant to be slow takes. Not for waiting.
pub(crate) async fn pause_for(duration: std::time::Duration) {
    tokio::time::sleep(duration).await;
}

/// A short pause between two looks at something that will change: the only sleep that tests may use, always under a deadline.
pub async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}
