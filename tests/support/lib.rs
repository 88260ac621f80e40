//! What the tests share: guests, stores, servers, hosts.

pub mod guests;
pub mod host;
pub mod lossy;
pub mod rig;
pub mod sandbox;
pub mod servers;
pub mod stores;

/// A short pause between two looks at something that will change: the only sleep that tests may use, always under a deadline.
pub async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}
