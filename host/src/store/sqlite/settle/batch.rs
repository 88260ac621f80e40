//! Sorts settlements by verb, as the statements take them.

use serde::Serialize;

use super::standing::Run;
use crate::delivery::NewEvent;
use crate::store::soundness::{clean_message, clean_output};
use crate::store::sqlite::attempt_records::NewAttemptRecord;
use crate::store::sqlite::rows::hex;
use crate::store::sqlite::time::StoreTime;
use crate::store::{Attempt, Settle, Settlement};

/// Settlements sorted by verb, as the statements take them.
#[derive(Default)]
pub(super) struct Batch<'a> {
    pub(super) events: Vec<&'a NewEvent>,
    pub(super) records: Vec<NewAttemptRecord>,
    pub(super) completed: Vec<SettledRow>,
    pub(super) rescheduled: Vec<SettledRow>,
    pub(super) buried: Vec<SettledRow>,
    pub(super) released: Vec<SettledRow>,
}

/// For `settle_*.sql`; each takes what it needs.
#[derive(Serialize)]
pub(super) struct SettledRow {
    id: String,
    due_at: Option<StoreTime>,
    is_snoozed: bool,
    reason: Option<&'static str>,
}

impl<'a> Batch<'a> {
    pub(super) fn add(&mut self, settlement: &'a Settlement, run: &Run, now: StoreTime) {
        let id = hex(settlement.lease.delivery.0);
        let reason = settlement.report.as_ref().map(|report| report.reason.as_str());
        let row = |due_at| SettledRow { id: id.clone(), due_at, is_snoozed: false, reason };
        match &settlement.settle {
            Settle::Complete { events } => {
                self.events.extend(events);
                self.completed.push(row(None));
            }
            Settle::Reschedule { delay, attempt } => {
                self.rescheduled.push(SettledRow { is_snoozed: *attempt == Attempt::Snoozed, ..row(Some(now.after(*delay))) });
            }
            Settle::Bury => self.buried.push(row(None)),
            Settle::Release { delay } => self.released.push(row(delay.map(|delay| now.after(delay)))),
        }
        if let Some(report) = &settlement.report {
            self.records.push(NewAttemptRecord {
                delivery_id: id,
                tenant: run.tenant.clone(),
                attempt: run.attempt,
                worker: report.worker.0.to_string(),
                started_at: now.before(report.ran_for),
                ended_at: now,
                reason: report.reason.as_str(),
                message: clean_message(&report.message),
                output: clean_output(&report.output),
            });
        }
    }
}
