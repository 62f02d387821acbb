//! Bindings that wasmtime generates from `wit/`. Types that [`point`](crate::point) uses unchanged
//! are imported from `point` instead of being generated a second time.

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "rind:plugin/plugin",
        // Caller queries, reads of a payload, settings, messages and session state are synchronous:
        // they are answered from memory, and a future for each call would cost more than the
        // answer.
        imports: {
            default: async | trappable,
            "rind:plugin/handles": trappable,
            "rind:plugin/config": trappable,
            "rind:plugin/session": trappable,
            "rind:plugin/state": trappable,
            "rind:plugin/caller":
        },
        exports: { default: async },
        trappable_error_type: { "rind:plugin/types.error" => crate::point::handle::HostFunctionError },
        with: {
            "rind:plugin/types": crate::point::contract::types,
            "rind:plugin/payloads": crate::point::contract::payloads,
            "rind:plugin/outcomes": crate::point::contract::outcomes,
        },
    });
}

pub(super) use generated::exports;

/// Interfaces that the host implements for plugins.
pub(super) mod rind {
    /// Interfaces of the WIT package `rind:plugin`.
    pub(crate) mod plugin {
        pub(crate) use super::super::generated::rind::plugin::*;
        pub(crate) use crate::point::contract::{outcomes, payloads, types};
    }
}
