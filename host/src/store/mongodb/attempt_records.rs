//! How attempt records are kept: in their delivery, oldest first, the last few of them.
//!
//! Here are expressions for updates, nothing is sent. Texts come from guests: they are cleaned and cut, and never read as expressions.

use bson::{Document, doc};

use super::documents::delay_ms;
use crate::store::soundness::{clean_message, clean_output};
use crate::store::{AttemptReport, MAX_ATTEMPT_RECORDS};
use crate::verdict::Reason;

/// What `records` becomes when `record` is appended.
pub(super) fn with(record: Document) -> Document {
    let kept = doc! { "$cond": [{ "$isArray": "$records" }, "$records", []] };
    doc! { "$slice": [{ "$concatArrays": [kept, [record]] }, -i64::from(MAX_ATTEMPT_RECORDS)] }
}

/// C7: of a lease that was found expired, for its worker cannot leave one any more.
pub(super) fn of_lost_lease() -> Document {
    doc! {
        "attempt": "$attempts",
        "worker": { "$ifNull": ["$worker", ""] },
        "startedAt": { "$ifNull": ["$claimedAt", "$dueAt"] },
        "endedAt": "$dueAt",
        "reason": Reason::LeaseExpired.as_str(),
        "message": "the lease ended before the run was settled",
        "output": "",
    }
}

/// T8: of a run that failed, which ends now.
pub(super) fn of_run(report: &AttemptReport) -> Document {
    doc! {
        "attempt": "$attempts",
        "worker": report.worker.0.to_string(),
        "startedAt": { "$subtract": ["$$NOW", delay_ms(report.ran_for)] },
        "endedAt": "$$NOW",
        "reason": report.reason.as_str(),
        "message": { "$literal": clean_message(&report.message) },
        "output": { "$literal": clean_output(&report.output) },
    }
}
