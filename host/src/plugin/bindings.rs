//! Bindings that wasmtime generates from `wit/`. Nothing else in the crate is generated; nothing outside `plugin` sees it.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "rind:plugin/plugin",
    // Questions about the caller and parts of a payload are answered from memory: a future for each would cost more than
    // the answer.
    imports: { default: async | trappable, "rind:plugin/handles": trappable, "rind:plugin/caller": },
    exports: { default: async },
});
