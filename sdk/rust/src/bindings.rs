//! The code that wit-bindgen makes of `wit/`.
//!
//! Nothing is written by hand here, and nothing of it is part of the crate's interface.

#![allow(unsafe_code, unreachable_pub, clippy::all, clippy::pedantic, missing_docs)]

wit_bindgen::generate!({
    path: "../../wit",
    world: "event-handler",
    pub_export_macro: true,
    default_bindings_module: "relaybus_sdk::bindings",
});
