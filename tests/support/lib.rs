//! What the tests share: guests, stores, servers, hosts.

pub mod guests;
pub mod servers;
pub mod stores;
