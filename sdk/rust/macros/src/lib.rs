//! The attribute macros of `rind-sdk`, which re-exports them; depend on that crate.
//!
//! [`macro@plugin`] does the work: it reads the functions of a module and writes the bindings of
//! exactly the interfaces that these functions need. The other attributes mark functions for it.

mod data;
mod expand;
mod exports;
mod function;
mod module;
mod points;

use proc_macro::TokenStream;
use proc_macro2::Span;
use syn::Error;

/// Makes a module of functions into a plugin.
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

/// Marks a hook: the function's name is the extension point's, such as `pre_tool`.
///
/// It takes the point's payload and returns the point's outcome or a `Result`
/// of it. Hooks of points that only observe may return nothing.
#[proc_macro_attribute]
pub fn hook(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("hook")
}

/// Marks a tool, which the model may call. The doc comment is its description.
///
/// `effect` is the effect of running it: `"read"`, `"write"`, `"execute"` or `"external"`. It is
/// called as the function is unless `name` says otherwise. The function takes a type marked
/// [`macro@args`] or nothing, and returns something that can be displayed, or a `Result` of it.
#[proc_macro_attribute]
pub fn tool(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("tool")
}

/// Marks a slash command, for the person at the terminal. The doc comment is its description.
///
/// The function takes one type marked [`macro@args`], from which its JSON Schema is made, the
/// `String` written after the command's name, or nothing, and returns a `CommandOutcome`, a
/// `String` to show, nothing, or a `Result` of one of them. `snake_case` becomes `/snake-case`.
#[proc_macro_attribute]
pub fn command(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("command")
}

/// Marks the implementation of another plugin's extension point: `#[implements("owner.name")]`.
///
/// The function takes any type that is read from JSON, and returns any type that can be written as
/// JSON, or a `PointOutcome`, which can also refuse and ask, or a `Result` of either. The manifest
/// names the point in `[implements]`.
#[proc_macro_attribute]
pub fn implements(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("implements")
}

/// Marks the function of a loop, which the host runs again and again while it serves; it returns a
/// `LoopOutcome`, nothing when it is done, or a `Result` of either.
#[proc_macro_attribute]
pub fn run_loop(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("run_loop")
}

/// Marks the function that orders a turn of the agent with the primitives of `agent_turn`; it returns
/// nothing, or a `Result` of it, once the turn is over.
#[proc_macro_attribute]
pub fn agent_loop(_: TokenStream, _: TokenStream) -> TokenStream {
    outside("agent_loop")
}

/// Marks a type that a tool takes as its arguments, or a part of it. Doc comments on fields are for
/// the model.
///
/// Derives `Deserialize`, `JsonSchema`, `Debug` and `Clone`; a struct refuses fields that it does
/// not have.
#[proc_macro_attribute]
pub fn args(attribute: TokenStream, item: TokenStream) -> TokenStream {
    data::args(attribute.into(), item.into())
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// Marks a type that is kept in `state` or `store`, read from `config`, or passed through a point.
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
