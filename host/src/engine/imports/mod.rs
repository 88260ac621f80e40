//! What guests may import, one file for each WIT interface.
//!
//! Every function here looks at the run's clock first: a guest that must stop gets no further host call done (R9).

pub(super) mod context;
mod delivery;
mod log;
mod publisher;

pub(super) use context::milliseconds;

wasmtime::component::bindgen!({
    path: "../wit",
    world: "event-handler",
    with: {
        "relaybus:handler/types.delivery": super::instance::DeliveryHandle,
        "relaybus:handler/publisher.event": publisher::EventDraft,
    },
    imports: {
        default: trappable,
        "relaybus:handler/context.sleep-ms": async | trappable,
    },
    exports: { default: async },
});

pub(super) use exports::relaybus::handler::describe::{Descriptor as DescriptorRecord, GuestIndices as DescribeIndices};
pub(super) use exports::relaybus::handler::handler::GuestIndices as HandlerIndices;
pub(super) use relaybus::handler::types::{Failure as FailureRecord, NextStep as NextStepVariant};
