use super::calls::{Call, Trouble};
use crate::store::{Result, Settled, Settlement};
pub(super) async fn settle(_call: Call, _settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>, Trouble> {
    todo!()
}
