use super::calls::{Call, Trouble};
use super::clock::ServerClock;
use crate::lease::LeaseToken;
use crate::store::{Claim, Claimed};
use std::sync::Arc;
pub(super) async fn claim(_call: Call, _clock: Arc<ServerClock>, _request: Claim) -> Result<Claimed, Trouble> {
    todo!()
}
pub(super) async fn recover(_call: Call, _token: LeaseToken) -> Result<Claimed, Trouble> {
    todo!()
}
