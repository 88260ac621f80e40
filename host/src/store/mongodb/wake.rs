use super::calls::Calls;
use super::clock::ServerClock;
use crate::store::work_signal::WorkSignal;
use std::sync::Arc;
pub(super) struct Wake {
    signal: Arc<WorkSignal>,
}
impl Wake {
    pub(super) fn start(_calls: Calls, _clock: Arc<ServerClock>, _is_replica_set: bool) -> Self {
        Self { signal: Arc::new(WorkSignal::new()) }
    }
    pub(super) fn signal(&self) -> &WorkSignal {
        &self.signal
    }
    pub(super) fn arrived(&self) {
        self.signal.arrived();
    }
    pub(super) async fn close(&self) {}
}
