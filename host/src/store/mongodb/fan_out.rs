use super::calls::{Call, Trouble};
use crate::store::Backlog;
use uuid::Uuid;
/// Fans out what the completed deliveries `ids` have published.
pub(super) async fn of_deliveries(_call: &Call, _ids: &[Uuid]) -> Result<(), Trouble> {
    todo!()
}
pub(super) async fn backlog(_call: Call, _handlers: Vec<i64>) -> Result<Backlog, Trouble> {
    todo!()
}
