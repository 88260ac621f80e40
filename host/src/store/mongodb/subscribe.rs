use super::calls::{Call, Trouble};
use crate::store::{Subscribe, Subscribed};
pub(super) async fn subscribe(_call: Call, _request: Subscribe) -> Result<Subscribed, Trouble> {
    todo!()
}
