use super::calls::{Call, Trouble};
use crate::delivery::NewEvent;
use crate::store::{Published, Result};
pub(super) async fn publish(_call: Call, _events: Vec<NewEvent>) -> Result<Vec<Result<Published>>, Trouble> {
    todo!()
}
