//! One run in a sandbox of its own: a fresh store, a fresh instance, one call, and nothing of it left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use wasmtime::Store;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime::error::Context;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::Shared;
use super::abort::Abort;
use super::compile::{Component, Descriptor};
use super::epoch::{self, Stopped};
use super::imports::{EventHandlerPre, FailureRecord};
use super::limits::{Limiter, Limits};
use super::output::Output;
use super::problem::Problem;
use super::trap::{self, NotInstantiated};
use crate::clock::Instant;
use crate::delivery::{ClaimedDelivery, NewEvent};
use crate::verdict::{AbortReason, Reason, RunReport, Verdict};

/// `describe` only returns constants; whoever takes longer is broken.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
/// A component must be able to say how much memory its runs need, so this is not their limit.
const DESCRIBE_MEMORY_BYTES: u64 = 1 << 30;

/// One attempt to handle a delivery.
pub struct Run {
    pub delivery: ClaimedDelivery,
    pub tenant: String,
    /// Counted from the start of [`Component::run`].
    pub timeout: Duration,
    pub limits: Limits,
    pub abort: Abort,
}

/// What the guest's `delivery` handle stands for. It carries the number of its run, and the data stays with the host.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct DeliveryHandle;

/// The state of one store.
pub(super) struct RunState {
    pub(super) table: ResourceTable,
    pub(super) abort: Abort,
    pub(super) output: Output,
    /// `None` while a component describes itself: nothing is granted then.
    pub(super) run: Option<Granted>,
    wasi: WasiCtx,
    pub(super) limiter: Limiter,
}

/// What a run may see and touch.
pub(super) struct Granted {
    number: u32,
    pub(super) handler: String,
    pub(super) tenant: String,
    pub(super) delivery: ClaimedDelivery,
    pub(super) limits: Limits,
    pub(super) events: Vec<NewEvent>,
}

impl RunState {
    fn new(limits: &Limits, abort: Abort, output: Output, run: Option<Granted>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles as usize);
        let wasi = WasiCtxBuilder::new().stdout(output.stdout()).stderr(output.stderr()).build();
        Self { table, abort, output, run, wasi, limiter: Limiter::new(limits) }
    }

    /// Ends the guest's call if the run must stop.
    pub(super) fn look_at_the_clock(&self) -> wasmtime::Result<()> {
        match self.abort.stopped() {
            Some(reason) => Err(Stopped(reason).into()),
            None => Ok(()),
        }
    }

    /// The run's delivery, if the handle is of this run.
    pub(super) fn delivery(&self, handle: &Resource<DeliveryHandle>) -> wasmtime::Result<&ClaimedDelivery> {
        self.look_at_the_clock()?;
        match &self.run {
            Some(run) if run.number == handle.rep() => Ok(&run.delivery),
            _ => Err(wasmtime::Error::msg("this delivery belongs to a run that has ended")),
        }
    }
}

impl WasiView for RunState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl Component {
    /// Runs the handler once, on the guests' threads, in a task of its own: a panic of the host becomes a failed run. Always returns, and soon
    /// after the run's abort says stop.
    pub async fn run(&self, run: Run) -> RunReport {
        let started_at = Instant::now();
        let output = Output::new(run.limits.output_bytes);
        let abort = run.abort.clone();
        abort.begin(run.timeout);
        // Whoever no longer waits for the run wants no run.
        let task = AbortOnDropHandle::new(self.shared.guests().spawn(handle(self.clone(), run, output.clone())));
        let verdict = task.await.unwrap_or_else(|error| Verdict::Trapped {
            reason: Reason::Trap,
            message: format!("the host panicked while it ran the handler: {error}"),
        });
        RunReport { verdict, signalled: abort.signalled(), output: output.text(), ran_for: started_at.elapsed() }
    }
}

async fn handle(component: Component, run: Run, output: Output) -> Verdict {
    let abort = run.abort.clone();
    let number = component.shared.next_run.fetch_add(1, Ordering::Relaxed) & i32::MAX.unsigned_abs();
    let limits = run.limits.clone();
    let granted = Granted {
        number,
        handler: component.descriptor().name.clone(),
        tenant: run.tenant,
        delivery: run.delivery,
        limits: run.limits,
        events: Vec::new(),
    };
    let mut store = store(&component.shared, RunState::new(&limits, abort.clone(), output, Some(granted)), &limits);
    let ended = tokio::select! {
        biased;
        ended = call(&component, &mut store, number) => ended,
        // Where the guest waits in the host no epoch reaches it: the wait itself is dropped.
        reason = abort.until_stopped() => Err(Stopped(reason).into()),
    };
    let state = store.into_data();
    match ended {
        // Whatever it returned, it did so without the right to.
        Ok(_) if abort.stopped() == Some(AbortReason::LeaseLost) => Verdict::Aborted(AbortReason::LeaseLost),
        Ok(Ok(())) => Verdict::Ok { events: state.run.map(|run| run.events).unwrap_or_default() },
        Ok(Err(failure)) => Verdict::Failed(failure.into()),
        Err(error) => trap::verdict(&error, &state.limiter, &state.output),
    }
}

async fn call(component: &Component, store: &mut Store<RunState>, number: u32) -> wasmtime::Result<Result<(), FailureRecord>> {
    let instance = component.pre.instantiate_async(&mut *store).await.context(NotInstantiated)?;
    instance.relaybus_handler_handler().call_handle(store, Resource::new_own(number)).await
}

fn store(shared: &Shared, state: RunState, limits: &Limits) -> Store<RunState> {
    let abort = state.abort.clone();
    let mut store = Store::new(&shared.wasm, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(usize::try_from(limits.host_call_bytes).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    epoch::watch(&mut store, abort);
    store
}

/// Asks a component what it is.
pub(super) async fn describe(shared: &Arc<Shared>, pre: &EventHandlerPre<RunState>) -> Result<Descriptor, Problem> {
    let limits = Limits { memory_bytes: DESCRIBE_MEMORY_BYTES, ..Limits::default() };
    let output = Output::new(limits.output_bytes);
    let abort = Abort::new(Instant::now() + DESCRIBE_TIMEOUT * 2);
    abort.begin(DESCRIBE_TIMEOUT);
    let mut store = store(shared, RunState::new(&limits, abort.clone(), output, None), &limits);
    let pre = pre.clone();
    let task = AbortOnDropHandle::new(shared.guests().spawn(async move {
        let described = tokio::select! {
            biased;
            described = async { pre.instantiate_async(&mut store).await.context(NotInstantiated)?.relaybus_handler_describe().call_describe(&mut store).await } => described,
            reason = abort.until_stopped() => Err(Stopped(reason).into()),
        };
        described.map_err(|error| trap::verdict(&error, &store.data().limiter, &store.data().output))
    }));
    let problem = match task.await {
        Ok(Ok(descriptor)) => return Ok(descriptor.into()),
        Ok(Err(Verdict::Trapped { reason, message })) => format!("{reason}: {message}"),
        Ok(Err(Verdict::Aborted(_))) => format!("it did not answer within {DESCRIBE_TIMEOUT:?}"),
        Ok(Err(Verdict::HostFault { message })) => message,
        Ok(Err(Verdict::Ok { .. } | Verdict::Failed(_))) => unreachable!("these are no errors of a call"),
        Err(error) => format!("the host panicked: {error}"),
    };
    Err(Problem::new(format!("`describe` failed: {problem}")).with_hint("it is called with nothing granted, and should return constants"))
}
