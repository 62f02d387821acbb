//! Reads the attributes of Rust items: those that matter to readers of the docs, and those that
//! hide an item.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, MetaList, Path, Token};

/// Text in an outline between the name of a trait and the condition under which a type implements
/// it.
pub(super) const CFG_CONDITION_PREFIX: &str = " with cfg(";

/// Attributes that tell callers how an item may be used.
const CALLER_RELEVANT_ATTRIBUTES: [&str; 3] = ["deprecated", "must_use", "non_exhaustive"];

pub(super) fn doc_comment_text(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(meta) if meta.path.is_ident("doc") => string_literal_value(&meta.value),
            _ => None,
        });
    let mut docs = String::new();
    for line in lines {
        for line in line.split('\n') {
            docs.push_str(line.strip_prefix(' ').unwrap_or(line).trim_end());
            docs.push('\n');
        }
    }
    docs.trim().to_owned()
}

fn string_literal_value(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

/// Returns the file path that a `#[path]` attribute of a module names.
pub(super) fn path_attribute_value(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let value = &attribute
            .meta
            .require_name_value()
            .ok()
            .filter(|meta| meta.path.is_ident("path"))?
            .value;
        string_literal_value(value)
    })
}

pub(super) fn is_doc_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_doc = attribute.path().is_ident("doc");
        is_doc && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string().split(',').any(|word| word.trim() == "hidden"))
    })
}

pub(super) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = format_condition(&list.tokens);
            condition == "test" || condition.starts_with("all(test,")
        }
        meta => meta.path().is_ident("test"),
    })
}

/// Returns the `cfg` conditions under which an item is compiled, as written.
pub(super) fn cfg_conditions(attributes: &[Attribute]) -> Vec<String> {
    let conditions = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::List(list) if list.path.is_ident("cfg") => Some(format_condition(&list.tokens)),
            _ => None,
        });
    conditions.collect()
}

/// Returns the derived traits, each with the condition of its `cfg_attr`, if any.
pub(super) fn derived_traits(attributes: &[Attribute]) -> BTreeSet<String> {
    let mut traits = BTreeSet::new();
    for attribute in attributes {
        let Meta::List(list) = &attribute.meta else {
            continue;
        };
        if list.path.is_ident("derive") {
            traits.extend(trait_names_in_derive(list));
        } else if list.path.is_ident("cfg_attr") {
            let all = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let mut all = all.into_iter().flatten();
            let condition = all
                .next()
                .map(|meta| format_condition(&attribute_argument_tokens(&meta)));
            let condition = condition.unwrap_or_default();
            for meta in all {
                if let Meta::List(list) = &meta
                    && list.path.is_ident("derive")
                {
                    let names = trait_names_in_derive(list).into_iter();
                    traits.extend(
                        names.map(|name| format!("{name}{CFG_CONDITION_PREFIX}{condition})")),
                    );
                }
            }
        }
    }
    traits
}

fn trait_names_in_derive(list: &MetaList) -> Vec<String> {
    let paths = list.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
    let names = paths.into_iter().flatten().filter_map(|path| {
        let last = path.segments.last()?;
        Some(last.ident.to_string())
    });
    names.collect()
}

/// Removes all attributes except docs, `cfg` conditions, and [`CALLER_RELEVANT_ATTRIBUTES`].
pub(super) fn retain_doc_attributes(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| {
        let is_docs = matches!(&attribute.meta, Meta::NameValue(meta) if meta.path.is_ident("doc"));
        is_docs || is_caller_relevant_attribute(attribute) || attribute.path().is_ident("cfg")
    });
}

pub(super) fn is_caller_relevant_attribute(attribute: &Attribute) -> bool {
    CALLER_RELEVANT_ATTRIBUTES
        .iter()
        .any(|name| attribute.path().is_ident(name))
}

fn attribute_argument_tokens(meta: &Meta) -> TokenStream {
    match meta {
        Meta::List(list) => {
            let path = list.path.get_ident().map(ToString::to_string);
            let text = format!("{}({})", path.unwrap_or_default(), list.tokens);
            text.parse().unwrap_or_default()
        }
        Meta::NameValue(meta) => {
            let name = meta.path.get_ident().map(ToString::to_string);
            let value = string_literal_value(&meta.value).unwrap_or_default();
            let text = format!("{} = {value:?}", name.unwrap_or_default());
            text.parse().unwrap_or_default()
        }
        Meta::Path(path) => {
            let name = path.get_ident().map(ToString::to_string);
            name.unwrap_or_default().parse().unwrap_or_default()
        }
    }
}

/// Formats the tokens of a condition with the usual spaces.
fn format_condition(tokens: &TokenStream) -> String {
    tokens.to_string().replace(" (", "(").replace(" ,", ",")
}
