//! From rows to the words of `crate::delivery`.
//!
//! A row that cannot be read is described, field by field, and never an error of the statement (R23).

use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};

use crate::delivery::{ClaimedDelivery, DeliveryId, EventId, HandlerId, Header, Status};
use crate::store::Malformed;

/// What is wrong with a field of a row; it is named.
pub(super) type Problem = String;

/// Reads a row of `claim_read.sql`.
pub(super) fn claimed_delivery(row: &PgRow) -> sqlx::Result<Result<ClaimedDelivery, Malformed>> {
    let id = DeliveryId(row.try_get("id")?);
    let handler = HandlerId(row.try_get("handler_id")?);
    Ok(read_claimed(row, id, handler).map_err(|problem| Malformed { id, handler, problem }))
}

fn read_claimed(row: &PgRow, id: DeliveryId, handler: HandlerId) -> Result<ClaimedDelivery, Problem> {
    if !field::<bool>(row, "has_event")? {
        return Err("event: expected a row with the id that the delivery names, got none".to_owned());
    }
    Ok(ClaimedDelivery {
        id,
        event_id: EventId(field(row, "event_id")?),
        handler,
        topic: field::<String>(row, "topic")?.parse().map_err(|error| format!("topic: {error}"))?,
        key: field(row, "key")?,
        attempt: count(row, "attempts")?,
        max_attempts: count(row, "max_attempts")?,
        crashes: count(row, "crashes")?,
        snoozes: count(row, "snoozes")?,
        published_at: field(row, "published_at")?,
        content_type: field(row, "content_type")?,
        headers: headers(row)?,
        payload: field::<Vec<u8>>(row, "payload")?.into(),
    })
}

pub(super) fn field<'r, T: Decode<'r, Postgres> + Type<Postgres>>(row: &'r PgRow, name: &str) -> Result<T, Problem> {
    row.try_get(name).map_err(|error| format!("{name}: {error}"))
}

pub(super) fn count(row: &PgRow, name: &str) -> Result<u32, Problem> {
    let number: i64 = field(row, name)?;
    u32::try_from(number).map_err(|_| format!("{name}: expected a count, got `{number}`"))
}

pub(super) fn headers(row: &PgRow) -> Result<Vec<Header>, Problem> {
    let text: String = field(row, "headers")?;
    let cut: String = text.chars().take(80).collect();
    serde_json::from_str(&text).map_err(|error| format!("headers: expected a JSON list of names and values, got `{cut}`: {error}"))
}

pub(super) fn status(row: &PgRow) -> Result<Status, Problem> {
    let text: String = field(row, "status")?;
    [Status::Pending, Status::Processing, Status::Completed, Status::Buried]
        .into_iter()
        .find(|status| status.as_str() == text)
        .ok_or_else(|| format!("status: expected `pending`, `processing`, `completed` or `buried`, got `{text}`"))
}

/// Makes a problem the error of a whole statement, where no other row could suffer.
pub(super) fn corrupt(problem: Problem) -> sqlx::Error {
    sqlx::Error::Decode(problem.into())
}
