use super::calls::{Call, Trouble};
use crate::lease::Renewal;
use crate::store::ExtendLeases;
pub(super) async fn extend(_call: Call, _request: ExtendLeases) -> Result<Vec<Renewal>, Trouble> {
    todo!()
}
