//! Payloads that the host uses as the contract has them, generated from `wit/payloads.wit`.
//!
//! A payload that needs more than that (a check, something that hooks are not shown, a place in events) is a type of
//! [`super::payload`] of the same name, which `plugin` converts. Data only: nothing here is called.

#[allow(missing_docs, reason = "generated; the contract has the docs")]
mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "package rind:host; world data { import rind:plugin/payloads@0.1.0; }",
        additional_derives: [PartialEq],
    });
}

pub use generated::rind::plugin::{payloads, types};
