//! Bindings to every interface that a plugin may import, generated from `wit/`.
//!
//! They are generated once, in this crate. A plugin generates only its exports and shares these
//! types, so that the payload of a hook and the functions of this crate use the same `Message`.
//! Imports that a plugin never calls do not get into its component.

#![allow(
    unsafe_code,
    unreachable_pub,
    missing_docs,
    unused_lifetimes,
    reason = "generated; what is public of it is documented in wit/"
)]

wit_bindgen::generate!({
    path: "wit",
    world: "rind:plugin/imports",
    additional_derives: [PartialEq],
});
