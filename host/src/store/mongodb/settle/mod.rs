//! Settles runs, fenced by the lease token (R11, R12).
//!
//! Each settlement is one update of one document, which also holds the events of a completed run: none is there without the other (R16).
//! What is the same for many is one statement, and a whole batch one command. What cannot be written keeps no other from being settled (T9).

mod statement;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::options::FindOptions;
use uuid::Uuid;

use self::statement::{Statement, statements};
use super::calls::{Call, Refusal, Trouble, code};
use super::documents::{DELIVERIES, ids, problem_of};
use super::fan_out;
use super::fields::{optional_text, optional_uuid, uuid};
use crate::store::{ErrorKind, Result, Settle, Settled, Settlement, StoreError};

/// How long one update may take before a document is taken for held by an open transaction: far longer than it takes if none is.
const PATIENCE: Duration = Duration::from_secs(2);
/// With less time than this, what is left is not tried any more.
const LAST_ROUND: Duration = Duration::from_millis(50);

type Answers = BTreeMap<usize, Result<Settled>>;

/// A settlement and its place in the request.
type Placed<'a> = (usize, &'a Settlement);

/// A delivery that is named twice is settled twice, one after the other: the second finds what the first has done, or failed to do.
pub(super) async fn settle(call: Call, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>, Trouble> {
    let mut answers = Answers::new();
    let mut waiting: Vec<Placed<'_>> = settlements.iter().enumerate().collect();
    while !waiting.is_empty() {
        let mut named = HashSet::new();
        let (once, again): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, settlement)| named.insert(settlement.lease.delivery));
        settle_each_once(&call, once, &mut answers).await?;
        waiting = again;
    }
    fan_out(&call, &settlements, &answers).await;
    Ok(answers.into_values().collect())
}

/// Settles deliveries of which none is named twice.
async fn settle_each_once(call: &Call, settlements: Vec<Placed<'_>>, answers: &mut Answers) -> Result<(), Trouble> {
    let (mut waiting, unsound): (Vec<Placed<'_>>, Vec<Placed<'_>>) =
        settlements.into_iter().partition(|(_, settlement)| problem_of_events(settlement).is_none());
    refuse(call, &unsound, answers).await?;
    // Two rounds could not tell their work from that of an earlier batch, but from that of one another they need not.
    let batch = Uuid::new_v4();
    while !waiting.is_empty() {
        waiting = round(call, waiting, batch, answers).await?;
    }
    Ok(())
}

/// Answers the settlements of which an event cannot be stored.
async fn refuse(call: &Call, unsound: &[Placed<'_>], answers: &mut Answers) -> Result<(), Trouble> {
    let standings = look(call, unsound).await?;
    for (place, settlement) in unsound {
        let answer = match (judge(&standings, settlement), problem_of_events(settlement)) {
            (Judgement::Held, Some(problem)) => {
                let message = format!("an event of the run was refused: {}", problem.message);
                Err(StoreError::new("settle", problem.kind, message).with_source(problem))
            }
            (Judgement::Held | Judgement::LeaseLost, _) => Ok(Settled::LeaseLost),
            (Judgement::Repeated, _) => Ok(Settled::Applied),
        };
        answers.insert(*place, answer);
    }
    Ok(())
}

/// Settles what it can, and answers what has to wait for another round. Each round answers at least one.
async fn round<'a>(call: &Call, waiting: Vec<Placed<'a>>, batch: Uuid, answers: &mut Answers) -> Result<Vec<Placed<'a>>, Trouble> {
    let statements = statements(&waiting);
    let commands = statements.iter().map(|statement| statement.command(batch)).collect();
    let patience = PATIENCE.min(call.time_left() / 4);
    let (refused, is_out_of_time) = match call.update_within(DELIVERIES, commands, patience).await {
        Ok(written) if written.n == waiting.len() as u64 => {
            answers.extend(waiting.into_iter().map(|(place, _)| (place, Ok(Settled::Applied))));
            return Ok(Vec::new());
        }
        Ok(written) => (written.refused, false),
        Err(trouble) if trouble.is_out_of_time() => (BTreeMap::new(), true),
        Err(trouble) => return Err(trouble),
    };
    let standings = look(call, &waiting).await?;
    let is_last = call.time_left() < LAST_ROUND;
    let mut left = Vec::new();
    // The server goes through the deliveries in this order, and no further than to the first that it cannot write: at all when its time is
    // over, in the same statement when that is refused.
    let mut is_behind_stuck = false;
    for (n, Statement { settlements, .. }) in statements.iter().enumerate() {
        is_behind_stuck &= is_out_of_time;
        for (place, settlement) in settlements {
            let is_done = standings.get(&settlement.lease.delivery.0).is_some_and(|standing| standing.settled_in == Some(batch));
            let answer = match judge(&standings, settlement) {
                _ if is_done => Ok(Settled::Applied),
                Judgement::Repeated => Ok(Settled::Applied),
                Judgement::LeaseLost => Ok(Settled::LeaseLost),
                Judgement::Held if is_behind_stuck && !is_last => {
                    left.push((*place, *settlement));
                    continue;
                }
                Judgement::Held => {
                    is_behind_stuck = true;
                    Err(why_not(refused.get(&n)))
                }
            };
            answers.insert(*place, answer);
        }
    }
    Ok(left)
}

fn problem_of_events(settlement: &Settlement) -> Option<StoreError> {
    events_of(settlement).iter().find_map(|event| problem_of("settle", event))
}

fn events_of(settlement: &Settlement) -> &[crate::delivery::NewEvent] {
    match &settlement.settle {
        Settle::Complete { events } => events,
        Settle::Reschedule { .. } | Settle::Bury | Settle::Release { .. } => &[],
    }
}

/// Why a delivery that is still held was not settled.
fn why_not(refusal: Option<&Refusal>) -> StoreError {
    let (kind, message) = match refusal {
        Some(refusal) if refusal.code == code::TOO_LARGE => {
            (ErrorKind::Corrupt, format!("the events of the run do not fit in a MongoDB document together: {}", refusal.message))
        }
        Some(refusal) => (ErrorKind::Corrupt, format!("MongoDB refuses the settlement: {}", refusal.message)),
        None => (ErrorKind::Conflict, "another transaction holds the delivery".to_owned()),
    };
    StoreError::new("settle", kind, message)
}

/// Where a delivery stands.
struct Standing {
    is_processing: bool,
    token: Option<Uuid>,
    verb: Option<String>,
    settled_in: Option<Uuid>,
}

/// What the holder of a lease may do.
enum Judgement {
    Held,
    /// The same holder has said the same before (T3).
    Repeated,
    LeaseLost,
}

/// T1 to T3.
fn judge(standings: &HashMap<Uuid, Standing>, settlement: &Settlement) -> Judgement {
    match standings.get(&settlement.lease.delivery.0) {
        Some(standing) if standing.token != Some(settlement.lease.token.0) => Judgement::LeaseLost,
        Some(standing) if standing.is_processing => Judgement::Held,
        Some(standing) if standing.verb.as_deref() == Some(settlement.settle.verb()) => Judgement::Repeated,
        Some(_) | None => Judgement::LeaseLost,
    }
}

async fn look(call: &Call, settlements: &[Placed<'_>]) -> Result<HashMap<Uuid, Standing>, Trouble> {
    if settlements.is_empty() {
        return Ok(HashMap::new());
    }
    let filter = doc! { "_id": { "$in": ids(settlements.iter().map(|(_, settlement)| settlement.lease.delivery.0)) } };
    let projection = doc! { "status": 1, "leaseToken": 1, "settleVerb": 1, "settledIn": 1 };
    let deliveries = call.find(DELIVERIES, filter, FindOptions::builder().projection(projection).build()).await?;
    let text = |delivery: &Document, name| optional_text(delivery, name).ok().flatten();
    let token = |delivery: &Document, name| optional_uuid(delivery, name).ok().flatten();
    let standing = |delivery: &Document| Standing {
        is_processing: text(delivery, "status").is_some_and(|status| status == "processing"),
        token: token(delivery, "leaseToken"),
        verb: text(delivery, "settleVerb"),
        settled_in: token(delivery, "settledIn"),
    };
    Ok(deliveries.iter().filter_map(|delivery| Some((uuid(delivery, "_id").ok()?, standing(delivery)))).collect())
}

/// Hands out what the completed runs have published. What fails here is done later: `fanoutAt` says that it is still to do.
async fn fan_out(call: &Call, settlements: &[Settlement], answers: &Answers) {
    let is_applied = |place: &usize| matches!(answers.get(place), Some(Ok(Settled::Applied)));
    let published = settlements.iter().enumerate().filter(|(place, settlement)| is_applied(place) && !events_of(settlement).is_empty());
    let published: Vec<Uuid> = published.map(|(_, settlement)| settlement.lease.delivery.0).collect();
    if published.is_empty() {
        return;
    }
    if let Err(trouble) = fan_out::of_deliveries(call, &published).await {
        tracing::warn!(problem = ?trouble, "events of completed runs are not handed out yet");
    }
}
