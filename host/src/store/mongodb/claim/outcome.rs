//! What a claim's update has done: known by its count, or else read.

use std::collections::HashSet;

use bson::{Document, doc};
use mongodb::options::FindOptions;

use super::look::Candidate;
use super::write::Group;
use crate::delivery::DeliveryId;
use crate::lease::LeaseToken;
use crate::store::mongodb::calls::{Call, Trouble, Written};
use crate::store::mongodb::documents::{DELIVERIES, ids};
use crate::store::mongodb::fields::{optional_uuid, text, uuid};

/// What became of the deliveries of an update. Those that it does not name went to somebody else.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) won: HashSet<DeliveryId>,
    /// Could not be written, though they were as they had been read.
    pub(super) stuck: Vec<DeliveryId>,
}

impl Outcome {
    /// Finds out what the update of `groups` has done, which answered `written`, or nothing because its time was over.
    pub(super) async fn of(call: &Call, groups: &[Group], token: LeaseToken, written: Option<&Written>) -> Result<Self, Trouble> {
        let candidates = || groups.iter().flat_map(|group| &group.candidates);
        if written.is_some_and(|written| written.n == candidates().count() as u64) {
            return Ok(Self { won: candidates().map(|candidate| candidate.due.id).collect(), stuck: Vec::new() });
        }
        let projection = doc! { "claimedIn": 1, "status": 1, "dueAt": 1 };
        let filter = doc! { "_id": { "$in": ids(candidates().map(|candidate| candidate.due.id.0)) } };
        let deliveries = call.find(DELIVERIES, filter, FindOptions::builder().projection(projection).build()).await?;
        let id = |delivery: &Document| uuid(delivery, "_id").map(DeliveryId);
        let is_won = |delivery: &&Document| optional_uuid(delivery, "claimedIn") == Ok(Some(token.0));
        let won: HashSet<DeliveryId> = deliveries.iter().filter(is_won).filter_map(|delivery| id(delivery).ok()).collect();
        let is_untouched = |candidate: &&Candidate| {
            !won.contains(&candidate.due.id)
                && deliveries.iter().any(|delivery| id(delivery) == Ok(candidate.due.id) && is_as_read(delivery, candidate))
        };
        // The server goes through the deliveries in our order, and no further than to the first one that it cannot write: at all when its
        // time is over, in the same statement when that is refused.
        let first_untouched = |groups: &[Group]| {
            let mut candidates = groups.iter().flat_map(|group| &group.candidates);
            candidates.find(is_untouched).map(|candidate| candidate.due.id)
        };
        let stuck = match written {
            None => first_untouched(groups).into_iter().collect(),
            Some(written) => {
                let refused = written.refused.keys().filter_map(|place| groups.get(*place));
                refused.filter_map(|group| first_untouched(std::slice::from_ref(group))).collect()
            }
        };
        Ok(Self { won, stuck })
    }
}

fn is_as_read(delivery: &Document, candidate: &Candidate) -> bool {
    let is_processing = text(delivery, "status").is_ok_and(|status| status == "processing");
    is_processing == candidate.due.is_expired && delivery.get_datetime("dueAt").is_ok_and(|due_at| *due_at == candidate.due_at)
}
