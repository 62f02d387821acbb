//! Expands a plugin's module into the module itself, plain functions that adapt the author's, and,
//! for wasm targets, a component that exports them.
//!
//! Native builds have no component, because native linkers reject the `@` in its export names. A
//! plugin's tests need only the plain functions.

use crate::exports::{self, Export};
use crate::module::Plugin;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

/// Folder of the contract, `wit/`.
const WIT: &str = env!("RIND_WIT");

/// Returns the version of the contract, which is in the first line of `world.wit`:
/// `package rind:plugin@0.1.0;`.
fn contract() -> &'static str {
    let wit = include_str!(concat!(env!("RIND_WIT"), "/world.wit"));
    let version = wit
        .split_once('@')
        .and_then(|(_, rest)| rest.split_once(';'));
    version.map_or("", |(version, _)| version)
}

/// Returns the custom section `rind:contract`, which tells the host the versions of the SDK and the
/// contract before it compiles the component.
fn stamp() -> TokenStream {
    let sdk = concat!("rind-sdk ", env!("CARGO_PKG_VERSION"));
    let text = format!(
        r#"{{"contract":"{}","language":"rust","sdk":"{sdk}"}}"#,
        contract()
    );
    let (len, bytes) = (text.len(), Literal::byte_string(text.as_bytes()));
    quote! {
        #[unsafe(link_section = "rind:contract")]
        #[used]
        static STAMP: [u8; #len] = *#bytes;
    }
}

/// Returns the expanded module.
pub(crate) fn expand(plugin: &Plugin) -> TokenStream {
    let mut exported: Vec<Export> = plugin
        .hooks
        .iter()
        .map(|(point, function)| exports::hook(point, function))
        .collect();
    exported.extend(exports::tools(plugin));
    exported.extend(exports::commands(plugin));
    exported.extend(exports::implementations(plugin));
    exported.extend(exports::run_loop(plugin));
    exported.extend(exports::agent_loop(plugin));
    let component = component(&exported, plugin);
    let code = exported.iter().map(|export| &export.code);
    let adapters = exported.iter().flat_map(|export| &export.adapters);
    let mut module = plugin.module.clone();
    if let Some((_, items)) = &mut module.content {
        items.push(syn::Item::Verbatim(quote! {
            #(#code)*
            #component
            // In a native build nothing else uses the adapters, and the compiler would report the
            // author's functions as unused.
            #[cfg(not(target_family = "wasm"))]
            const _: () = { #(_ = #adapters;)* };
        }));
    }
    quote!(#module)
}

fn component(exports: &[Export], plugin: &Plugin) -> TokenStream {
    let version = contract();
    let names = exports
        .iter()
        .map(|export| format!("export rind:plugin/{}@{version}; ", export.interface));
    let world = format!(
        "package rind:component; world component {{ {}}}",
        names.collect::<String>()
    );
    // A key in `with` that no exported interface uses is an error, so only the used ones are
    // listed.
    let mut shared = vec!["types"];
    if !plugin.hooks.is_empty() {
        shared.extend(["payloads", "outcomes"]);
    }
    if plugin.hooks.iter().any(|(point, _)| point.is_lent()) {
        shared.push("handles");
    }
    let keys = shared
        .iter()
        .map(|name| format!("rind:plugin/{name}@{version}"));
    let paths = shared.iter().map(|name| format_ident!("{name}"));
    let guests = exports.iter().map(|export| {
        let module = match export.interface.as_str() {
            "loop" => format_ident!("loop_"),
            name => format_ident!("{}", name.replace('-', "_")),
        };
        let guest = &export.guest;
        quote! {
            impl exports::rind::plugin::#module::Guest for Plugin {
                #guest
            }
        }
    });
    let stamp = stamp();
    quote! {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, missing_docs, unreachable_pub, unused, clippy::all, reason = "generated")]
        mod __rind_component {
            ::rind_sdk::macros::wit_bindgen::generate!({
                inline: #world,
                path: #WIT,
                with: { #(#keys: ::rind_sdk::#paths,)* },
                runtime_path: "::rind_sdk::macros::wit_bindgen::rt",
                generate_all,
            });
            use ::rind_sdk::types::Error;
            use ::std::{result::Result, string::String, vec::Vec};
            #stamp
            struct Plugin;
            #(#guests)*
            export!(Plugin);
        }
    }
}
