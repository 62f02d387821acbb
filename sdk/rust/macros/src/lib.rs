//! Attribute macros of `rind-sdk`, which re-exports them; depend on that crate instead of this one.
//!
//! [`macro@plugin`] does the work: it reads the functions of a module and generates the bindings of
//! exactly the interfaces that these functions need. The other attributes only mark functions for
//! it, or derive traits for types.

mod data;
mod expand;
mod exports;
mod function;
mod module;
mod points;

use proc_macro::TokenStream;
use proc_macro2::Span;
use syn::Error;

/// Turns a module of functions into a plugin.
///
/// Each function marked [`macro@hook`], [`macro@tool`], [`macro@command`], [`macro@implements`],
/// [`macro@run_loop`] or [`macro@agent_loop`] is exported; everything else in the module stays as it
/// is. A crate has one such module, in its `lib.rs`.
#[proc_macro_attribute]
pub fn plugin(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = data::without_options(attribute.into(), "plugin")
        .and_then(|()| syn::parse(item))
        .and_then(module::Plugin::parse)
        .map(|plugin| expand::expand(&plugin));
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

/// Marks a hook. The function has the name of its extension point, such as `pre_tool`.
///
/// The function takes the point's payload, and returns the point's outcome or a `Result` of it.
/// Hooks of points that only observe may return nothing.
#[proc_macro_attribute]
pub fn hook(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("hook")
}

/// Marks a tool, which the model may call. The doc comment is the tool's description.
///
/// `effect` is the effect of running the tool: `"read"`, `"write"`, `"execute"` or `"external"`.
/// The tool has the function's name unless `name` is given. The function takes a type marked
/// [`macro@args`] or nothing, and returns something that can be displayed, or a `Result` of it.
#[proc_macro_attribute]
pub fn tool(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("tool")
}

/// Marks a slash command, which the person types at the terminal. The doc comment is the command's
/// description.
///
/// The function takes one of three things: a type marked [`macro@args`], from which the JSON Schema
/// of the arguments is generated; a `String` with the text after the command's name; or nothing. It
/// returns a `CommandOutcome`, a `String` to show, nothing, or a `Result` of one of them. A
/// function `snake_case` becomes the command `/snake-case`.
#[proc_macro_attribute]
pub fn command(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("command")
}

/// Marks the implementation of another plugin's extension point: `#[implements("owner.name")]`.
///
/// The function takes any type that can be read from JSON. It returns any type that can be written
/// as JSON, or a `PointOutcome`, which can also refuse and ask, or a `Result` of either. The
/// manifest must name the point under `[implements]`.
#[proc_macro_attribute]
pub fn implements(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("implements")
}

/// Marks the plugin's loop, which the host runs again and again while it serves. The function
/// returns a `LoopOutcome`, nothing when it is done, or a `Result` of either.
#[proc_macro_attribute]
pub fn run_loop(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("run_loop")
}

/// Marks the agent loop, which runs a turn of the agent with the primitives of `agent_turn`. The
/// function returns nothing, or a `Result` of it, once the turn is over.
#[proc_macro_attribute]
pub fn agent_loop(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("agent_loop")
}

/// Marks a type that a tool takes as its arguments, or a type within them. The model reads the doc
/// comments of its fields.
///
/// Derives `Deserialize`, `JsonSchema`, `Debug` and `Clone`; a struct refuses unknown fields.
#[proc_macro_attribute]
pub fn args(attribute: TokenStream, item: TokenStream) -> TokenStream {
    data::args(attribute.into(), item.into())
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// Marks a type that is stored in `state` or `store`, read from `config`, or passed through a
/// point.
///
/// Derives `Serialize`, `Deserialize`, `Debug` and `Clone`.
#[proc_macro_attribute]
pub fn data(attribute: TokenStream, item: TokenStream) -> TokenStream {
    data::data(attribute.into(), item.into())
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn outside(name: &str) -> TokenStream {
    let message =
        format!("`#[{name}]` belongs on a function in a module marked `#[rind_sdk::plugin]`");
    Error::new(Span::call_site(), message)
        .into_compile_error()
        .into()
}
