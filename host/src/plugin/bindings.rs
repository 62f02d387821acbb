//! What wasmtime generates from `wit/`. Nothing else in the crate is generated; nothing outside `plugin` sees it.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "rind:plugin/plugin",
    imports: { default: async | trappable },
    exports: { default: async },
});
