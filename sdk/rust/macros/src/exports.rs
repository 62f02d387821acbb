//! Expands each kind of export into adapters in the author's module, which call the author's
//! functions, and functions of the exported interface, which call the adapters.

use crate::function::Function;
use crate::module::Plugin;
use crate::points::Point;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Type};

/// An exported interface.
pub(crate) struct Export {
    /// Name of the interface.
    pub(crate) interface: String,
    /// Names of the adapters in the author's module that the component calls.
    pub(crate) adapters: Vec<Ident>,
    /// Code of the adapters, for the author's module.
    pub(crate) code: TokenStream,
    /// Functions of the interface, for the component.
    pub(crate) guest: TokenStream,
}

/// Returns the export of a hook.
pub(crate) fn hook(point: &Point, function: &Function) -> Export {
    let adapter = format_ident!("__rind_hook_{}", point.snake());
    let (payload, outcome) = (point.payload(), point.outcome());
    // A handle is already a reference; `call` adds the `&` again.
    let call = call(function, |_| match point.is_lent() {
        true => quote!(*payload),
        false => quote!(payload),
    });
    let body = quote_spanned!(here(function.output_span())=> ::rind_sdk::IntoOutcome::<#outcome>::into_outcome(#call));
    Export {
        interface: point.name.to_owned(),
        code: quote! {
            pub(crate) fn #adapter(
                payload: #payload,
            ) -> ::std::result::Result<#outcome, ::rind_sdk::types::Error> {
                #body
            }
        },
        guest: quote! {
            fn run(payload: #payload) -> Result<#outcome, Error> {
                super::#adapter(payload)
            }
        },
        adapters: vec![adapter],
    }
}

/// Returns the export of all tools; `None` if there are none.
pub(crate) fn tools(plugin: &Plugin) -> Option<Export> {
    if plugin.tools.is_empty() {
        return None;
    }
    let specs = plugin.tools.iter().map(|tool| {
        let (name, description) = (&tool.name, &tool.function.docs);
        let effect = format_ident!("{}", tool.effect);
        let parameters = match tool.function.parameter.as_ref().map(pointee) {
            Some(ty) => quote_spanned!(here(ty.span())=> ::rind_sdk::macros::schema::<#ty>()),
            None => quote!(::rind_sdk::macros::no_arguments()),
        };
        quote! {
            ::rind_sdk::macros::Tool {
                name: #name,
                description: #description,
                parameters: #parameters,
                effect: ::rind_sdk::types::EffectClass::#effect,
            }
        }
    });
    let arms = tool_arms(plugin);
    Some(Export {
        interface: "tools".to_owned(),
        code: quote! {
            pub(crate) fn __rind_tools() -> ::std::vec::Vec<::rind_sdk::macros::Tool> {
                ::std::vec![#(#specs),*]
            }

            pub(crate) fn __rind_call_tool(
                __name: &str,
                __arguments: &str,
            ) -> ::std::result::Result<::rind_sdk::types::Answer, ::rind_sdk::types::Error> {
                _ = __arguments;
                match __name {
                    #(#arms)*
                    _ => ::rind_sdk::macros::unknown("tool", __name),
                }
            }
        },
        guest: quote! {
            fn list() -> Vec<exports::rind::plugin::tools::ToolSpec> {
                let spec = |tool: ::rind_sdk::macros::Tool| exports::rind::plugin::tools::ToolSpec {
                    name: String::from(tool.name),
                    description: String::from(tool.description),
                    parameters: tool.parameters,
                    effect_class: tool.effect,
                };
                super::__rind_tools().into_iter().map(spec).collect()
            }

            fn call(name: String, arguments: String) -> Result<::rind_sdk::types::Answer, Error> {
                super::__rind_call_tool(&name, &arguments)
            }
        },
        adapters: vec![
            format_ident!("__rind_tools"),
            format_ident!("__rind_call_tool"),
        ],
    })
}

fn tool_arms(plugin: &Plugin) -> impl Iterator<Item = TokenStream> {
    plugin.tools.iter().map(|tool| {
        let name = &tool.name;
        let call = call(
            &tool.function,
            |ty| quote!(::rind_sdk::macros::arguments::<#ty>(__name, __arguments)?),
        );
        let answer = if tool.function.returns_result() {
            "result_answer"
        } else {
            "answer"
        };
        let answer = Ident::new(answer, here(tool.function.output_span()));
        let body =
            quote_spanned!(here(tool.function.output_span())=> ::rind_sdk::macros::#answer(#call));
        quote!(#name => #body,)
    })
}

/// Returns the export of all commands; `None` if there are none.
pub(crate) fn commands(plugin: &Plugin) -> Option<Export> {
    if plugin.commands.is_empty() {
        return None;
    }
    let specs = plugin.commands.iter().map(|(name, function)| {
        let description = function
            .docs
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .replace('\n', " ");
        let arguments = match schema_of(function) {
            Some(ty) => {
                let schema = quote_spanned!(here(ty.span())=> ::rind_sdk::macros::schema::<#ty>());
                quote!(::std::option::Option::Some(#schema))
            }
            None if function.parameter.is_none() => {
                quote!(::std::option::Option::Some(
                    ::rind_sdk::macros::no_arguments()
                ))
            }
            None => quote!(::std::option::Option::None),
        };
        quote! {
            ::rind_sdk::macros::Command {
                name: #name,
                description: #description,
                arguments: #arguments,
            }
        }
    });
    let arms = plugin.commands.iter().map(|(name, function)| {
        let call = call(function, |ty| match schema_of(function) {
            Some(_) => quote!(::rind_sdk::macros::arguments::<#ty>(__name, &__arguments)?),
            None => quote!(__arguments),
        });
        let body = quote_spanned! {here(function.output_span())=>
            ::rind_sdk::IntoOutcome::<::rind_sdk::CommandOutcome>::into_outcome(#call)
        };
        quote!(#name => #body,)
    });
    Some(Export {
        interface: "commands".to_owned(),
        code: quote! {
            pub(crate) fn __rind_commands() -> ::std::vec::Vec<::rind_sdk::macros::Command> {
                ::std::vec![#(#specs),*]
            }

            pub(crate) fn __rind_run_command(
                __name: &str,
                __arguments: ::std::string::String,
            ) -> ::std::result::Result<::rind_sdk::CommandOutcome, ::rind_sdk::types::Error> {
                _ = &__arguments;
                match __name {
                    #(#arms)*
                    _ => ::rind_sdk::macros::unknown("command", __name),
                }
            }
        },
        guest: quote! {
            fn list() -> Vec<exports::rind::plugin::commands::CommandSpec> {
                let spec = |command: ::rind_sdk::macros::Command| {
                    exports::rind::plugin::commands::CommandSpec {
                        name: String::from(command.name),
                        description: String::from(command.description),
                        arguments: command.arguments,
                    }
                };
                super::__rind_commands().into_iter().map(spec).collect()
            }

            fn run(
                name: String,
                arguments: String,
            ) -> Result<exports::rind::plugin::commands::CommandOutcome, Error> {
                use exports::rind::plugin::commands::CommandOutcome as Out;
                Ok(match super::__rind_run_command(&name, arguments)? {
                    ::rind_sdk::CommandOutcome::Text(text) => Out::Text(text),
                    ::rind_sdk::CommandOutcome::Prompt(text) => Out::Prompt(text),
                    ::rind_sdk::CommandOutcome::Nothing => Out::Nothing,
                })
            }
        },
        adapters: vec![
            format_ident!("__rind_commands"),
            format_ident!("__rind_run_command"),
        ],
    })
}

/// Returns the type of a command's arguments; `None` for a command that accepts free text or
/// nothing.
fn schema_of(function: &Function) -> Option<&Type> {
    let ty = pointee(function.parameter.as_ref()?);
    let is_text = match ty {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|last| last.ident == "String" || last.ident == "str")
        }
        _ => false,
    };
    (!is_text).then_some(ty)
}

/// Returns the export of all implementations of other plugins' points; `None` if there are none.
pub(crate) fn implementations(plugin: &Plugin) -> Option<Export> {
    if plugin.implementations.is_empty() {
        return None;
    }
    let arms = plugin.implementations.iter().map(|(point, function)| {
        let call = call(
            function,
            |ty| quote!(::rind_sdk::macros::payload::<#ty>(point, payload)?),
        );
        let answer = if function.returns_result() {
            "result_point_answer"
        } else {
            "point_answer"
        };
        let answer = Ident::new(answer, here(function.output_span()));
        let body =
            quote_spanned!(here(function.output_span())=> ::rind_sdk::macros::#answer(#call));
        quote!(#point => #body,)
    });
    Some(Export {
        interface: "implement".to_owned(),
        code: quote! {
            pub(crate) fn __rind_implement(
                point: &str,
                payload: &str,
            ) -> ::std::result::Result<::rind_sdk::PointOutcome, ::rind_sdk::types::Error> {
                _ = payload;
                match point {
                    #(#arms)*
                    _ => ::rind_sdk::macros::unknown("implementation of", point),
                }
            }
        },
        guest: quote! {
            fn run(
                point: String,
                payload: String,
            ) -> Result<exports::rind::plugin::implement::Outcome, Error> {
                use exports::rind::plugin::implement::{Outcome, Verdict};
                let outcome = super::__rind_implement(&point, &payload)?;
                Ok(Outcome {
                    verdict: match outcome.verdict {
                        ::rind_sdk::PointVerdict::Pass => Verdict::Pass,
                        ::rind_sdk::PointVerdict::Value(value) => Verdict::Value(value),
                        ::rind_sdk::PointVerdict::Ask(reason) => Verdict::Ask(reason),
                        ::rind_sdk::PointVerdict::Block(reason) => Verdict::Block(reason),
                    },
                    effects: outcome.effects,
                })
            }
        },
        adapters: vec![format_ident!("__rind_implement")],
    })
}

/// Returns the export of the loop, if there is one.
pub(crate) fn run_loop(plugin: &Plugin) -> Option<Export> {
    let function = plugin.run_loop.as_ref()?;
    let call = call(function, |_| TokenStream::new());
    let body = quote_spanned!(here(function.output_span())=> ::rind_sdk::IntoOutcome::<::rind_sdk::LoopOutcome>::into_outcome(#call));
    Some(Export {
        interface: "loop".to_owned(),
        code: quote! {
            pub(crate) fn __rind_loop() -> ::std::result::Result<::rind_sdk::LoopOutcome, ::rind_sdk::types::Error> {
                #body
            }
        },
        guest: quote! {
            fn run() -> Result<exports::rind::plugin::loop_::LoopOutcome, Error> {
                use exports::rind::plugin::loop_::{LoopOutcome, NextRun};
                Ok(match super::__rind_loop()? {
                    ::rind_sdk::LoopOutcome::Done => LoopOutcome::Done,
                    ::rind_sdk::LoopOutcome::Again { after, reason } => LoopOutcome::Again(NextRun {
                        after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                        reason,
                    }),
                })
            }
        },
        adapters: vec![format_ident!("__rind_loop")],
    })
}

/// Returns the export of the agent loop, if there is one.
pub(crate) fn agent_loop(plugin: &Plugin) -> Option<Export> {
    let function = plugin.agent_loop.as_ref()?;
    let call = call(function, |_| TokenStream::new());
    let body = quote_spanned!(here(function.output_span())=> ::rind_sdk::IntoOutcome::<()>::into_outcome(#call));
    Some(Export {
        interface: "agent-loop".to_owned(),
        code: quote! {
            pub(crate) fn __rind_agent_loop() -> ::std::result::Result<(), ::rind_sdk::types::Error> {
                #body
            }
        },
        guest: quote! {
            fn run() -> Result<(), Error> {
                super::__rind_agent_loop()
            }
        },
        adapters: vec![format_ident!("__rind_agent_loop")],
    })
}

/// Returns a call of the author's function, with `value` of the parameter's type as its argument if
/// it has a parameter. The argument has the span of the parameter's type, where the compiler then
/// reports a wrong type.
fn call(function: &Function, value: impl Fn(&Type) -> TokenStream) -> TokenStream {
    let name = &function.name;
    let argument = function.parameter.as_ref().map(|ty| {
        let inner = value(pointee(ty));
        let reference = matches!(ty, Type::Reference(_)).then(|| quote!(&));
        at(ty.span(), quote!(#reference #inner))
    });
    // The call has the span of the return type for the same reason.
    quote_spanned!(here(function.output_span())=> #name(#argument))
}

/// Returns the type that a reference type points to; any other type is returned unchanged.
fn pointee(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => &reference.elem,
        other => other,
    }
}

/// Returns a span for errors to show `span`, with names resolved as at the macro's call.
fn here(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// Returns the same tokens with another span. Tokens within groups keep theirs.
fn at(span: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(here(span));
        token
    });
    moved.collect()
}
