//! Leases: the time-limited right to settle a delivery.
//!
//! The fence of every write is the delivery's id *and* the lease token (R11). Nothing here knows what time it is at the store.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::delivery::DeliveryId;

/// Proves that a worker still holds what one claim call handed to it. Random and new for every claim call (R2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseToken(pub Uuid);

impl LeaseToken {
    /// A new random token (122 random bits).
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

/// Shows the first eight digits only: a token in a log would be a key left in the door.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.simple().to_string();
        write!(f, "LeaseToken({}…)", &text[..8])
    }
}

/// The right to settle one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub delivery: DeliveryId,
    pub token: LeaseToken,
}

/// What a renewal found (R3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease now ends one lease duration after the store ran the statement.
    Renewed,
    /// The delivery is no longer processing under our token: stop the run.
    Lost,
    /// Still ours as far as anybody can tell, but its row was locked or not reached: not a lost lease.
    Unknown,
}

/// How often leases are renewed: every third of their duration, so that two rounds may fail.
pub fn renewal_interval(lease_duration: Duration) -> Duration {
    lease_duration / 3
}
