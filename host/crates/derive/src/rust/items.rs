//! Reads public items of Rust source: their signature and docs.
//!
//! The output is Rust source for readers, not for a compiler: bodies are omitted and private fields
//! are removed.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Block, Field, Fields, File, Item, ItemEnum, ItemTrait, Meta, Signature, TraitItem,
    Type, TypeInfer, Visibility, parse_quote,
};

use super::RustItemOutline;
use super::attributes::{
    cfg_conditions, derived_traits, doc_comment_text, is_caller_relevant_attribute, is_doc_hidden,
    is_test_only, retain_doc_attributes,
};

/// Maximum length of a constant's line that includes its value, in bytes.
const MAX_CONSTANT_LINE_BYTES: usize = 120;

/// Identifier that stands for an omitted body until the item is printed; then it becomes `…`.
const OMITTED_BODY_PLACEHOLDER: &str = "__body_that_is_left_out";

/// Rust item as other crates see it.
pub(super) enum ItemWithVisibility {
    Public(Box<RustItemOutline>),
    /// A type or trait of this name that other crates cannot use.
    Private(String),
    /// Item that other crates cannot use, and that is not a type or trait.
    Nothing,
}

pub(super) fn read_item(mut item: Item) -> ItemWithVisibility {
    let Some((attributes, name, vis)) = take_attributes_and_name(&mut item) else {
        return ItemWithVisibility::Nothing;
    };
    if is_test_only(&attributes) {
        return ItemWithVisibility::Nothing;
    }
    let is_public = vis.is_none_or(|vis| matches!(vis, Visibility::Public(_)));
    if !is_public || is_doc_hidden(&attributes) {
        let is_type = matches!(
            item,
            Item::Enum(_)
                | Item::Struct(_)
                | Item::Trait(_)
                | Item::TraitAlias(_)
                | Item::Type(_)
                | Item::Union(_)
        );
        return if is_type {
            ItemWithVisibility::Private(name)
        } else {
            ItemWithVisibility::Nothing
        };
    }
    match item_kind_and_signature(item, &attributes, name) {
        Some((kind, name, signature)) => ItemWithVisibility::Public(Box::new(RustItemOutline {
            kind: kind.to_owned(),
            name,
            docs: doc_comment_text(&attributes),
            conditions: cfg_conditions(&attributes),
            signature,
            implements: derived_traits(&attributes),
            impls: Vec::new(),
        })),
        None => ItemWithVisibility::Nothing,
    }
}

/// Removes the attributes of an item, except those that tell callers how to use it. Returns all of
/// its attributes, its name and its visibility, which is `None` for an exported macro.
fn take_attributes_and_name(
    item: &mut Item,
) -> Option<(Vec<Attribute>, String, Option<Visibility>)> {
    let (attributes, name, vis) = match item {
        Item::Const(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::Enum(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::Fn(own) => (&mut own.attrs, &own.sig.ident, Some(&own.vis)),
        Item::Static(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::Struct(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::Trait(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::TraitAlias(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::Type(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::Union(own) => (&mut own.attrs, &own.ident, Some(&own.vis)),
        Item::Macro(own) => {
            let is_exported = |one: &Attribute| one.path().is_ident("macro_export");
            if !own.attrs.iter().any(is_exported) {
                return None;
            }
            (&mut own.attrs, own.ident.as_ref()?, None)
        }
        _ => return None,
    };
    let all = std::mem::take(attributes);
    attributes.extend(
        all.iter()
            .filter(|one| is_caller_relevant_attribute(one))
            .cloned(),
    );
    Some((all, name.to_string(), vis.cloned()))
}

/// Returns the kind, name and signature of a public item.
fn item_kind_and_signature(
    item: Item,
    attributes: &[Attribute],
    name: String,
) -> Option<(&'static str, String, String)> {
    Some(match item {
        Item::Fn(mut item) => {
            let (kind, name) = function_kind_and_name(attributes, &item.sig);
            item.block = Box::new(create_empty_function_body());
            (kind, name, remove_empty_body(&print_item(Item::Fn(item))))
        }
        Item::Struct(mut item) => {
            let is_cut = remove_private_fields(&mut item.fields);
            let text = print_item(Item::Struct(item));
            ("struct", name, append_private_fields_comment(&text, is_cut))
        }
        Item::Union(mut item) => {
            let mut fields = Fields::Named(item.fields);
            let is_cut = remove_private_fields(&mut fields);
            let Fields::Named(named) = fields else {
                return None;
            };
            item.fields = named;
            let text = print_item(Item::Union(item));
            ("union", name, append_private_fields_comment(&text, is_cut))
        }
        Item::Enum(mut item) => {
            let is_cut = remove_hidden_variants(&mut item);
            let text = print_item(Item::Enum(item));
            (
                "enum",
                name,
                append_omission_comment(&text, is_cut, "hidden variants"),
            )
        }
        Item::Trait(mut item) => {
            remove_method_bodies(&mut item);
            (
                "trait",
                name,
                replace_body_placeholders(&print_item(Item::Trait(item))),
            )
        }
        Item::Type(_) => ("type", name, print_item(item)),
        Item::Const(_) => (
            "constant",
            name,
            omit_long_constant_value(&print_item(item)),
        ),
        Item::Static(_) => ("static", name, omit_long_constant_value(&print_item(item))),
        Item::Macro(_) => {
            let signature = format!("macro_rules! {name}");
            ("macro", name, signature)
        }
        _ => return None,
    })
}

/// Returns the kind and name of a function. For a procedural macro, these are the kind and name
/// that its callers use.
fn function_kind_and_name(
    attributes: &[Attribute],
    signature: &Signature,
) -> (&'static str, String) {
    let name = signature.ident.to_string();
    for attribute in attributes {
        let path = attribute.path();
        if path.is_ident("proc_macro") {
            return ("function-like macro", name);
        }
        if path.is_ident("proc_macro_attribute") {
            return ("attribute macro", name);
        }
        if let Meta::List(list) = &attribute.meta
            && path.is_ident("proc_macro_derive")
        {
            let tokens = list.tokens.to_string();
            let derive = tokens
                .split(',')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned();
            return ("derive macro", derive);
        }
    }
    ("function", name)
}

/// Removes the bodies and hidden items of a trait. A provided method keeps a placeholder as its
/// body, which shows that implementers need not write the method.
fn remove_method_bodies(item: &mut ItemTrait) {
    let body = syn::Ident::new(OMITTED_BODY_PLACEHOLDER, Span::call_site());
    item.items.retain_mut(|inner| {
        let attributes = match inner {
            TraitItem::Fn(inner) => {
                if inner.default.is_some() {
                    inner.default = Some(parse_quote!({ #body }));
                    inner.semi_token = None;
                }
                &mut inner.attrs
            }
            TraitItem::Const(inner) => &mut inner.attrs,
            TraitItem::Type(inner) => &mut inner.attrs,
            _ => return false,
        };
        let is_shown = !is_doc_hidden(attributes);
        retain_doc_attributes(attributes);
        is_shown
    });
}

/// Replaces each placeholder, which stands for the body of a function, with `…`.
fn replace_body_placeholders(text: &str) -> String {
    let mut parts = text.split(OMITTED_BODY_PLACEHOLDER);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        whole.truncate(whole.trim_end().len());
        whole.push_str(" … ");
        whole.push_str(part.trim_start());
    }
    whole
}

/// Removes variants with `#[doc(hidden)]`. Returns whether there were any.
fn remove_hidden_variants(item: &mut ItemEnum) -> bool {
    let n_before = item.variants.len();
    let all = std::mem::take(&mut item.variants);
    let shown = all.into_iter().filter(|one| !is_doc_hidden(&one.attrs));
    item.variants = shown.collect();
    for variant in &mut item.variants {
        retain_doc_attributes(&mut variant.attrs);
        variant
            .fields
            .iter_mut()
            .for_each(|field| retain_doc_attributes(&mut field.attrs));
    }
    item.variants.len() < n_before
}

/// Removes private and hidden fields; in a tuple, only their types. Returns whether any were
/// removed.
fn remove_private_fields(fields: &mut Fields) -> bool {
    let is_public =
        |field: &Field| matches!(field.vis, Visibility::Public(_)) && !is_doc_hidden(&field.attrs);
    let has_private = !fields.iter().all(is_public);
    match fields {
        Fields::Named(named) => {
            let all = std::mem::take(&mut named.named);
            let public: Punctuated<Field, syn::Token![,]> =
                all.into_iter().filter(is_public).collect();
            named.named = public;
        }
        Fields::Unnamed(unnamed) => {
            for field in unnamed.unnamed.iter_mut().filter(|field| !is_public(field)) {
                let underscore_token = syn::Token![_](Span::call_site());
                field.ty = Type::Infer(TypeInfer { underscore_token });
                field.vis = Visibility::Inherited;
            }
        }
        Fields::Unit => {}
    }
    fields
        .iter_mut()
        .for_each(|field| retain_doc_attributes(&mut field.attrs));
    has_private && matches!(fields, Fields::Named(_))
}

fn append_private_fields_comment(text: &str, is_cut: bool) -> String {
    append_omission_comment(text, is_cut, "private fields")
}

fn append_omission_comment(text: &str, is_cut: bool, words: &str) -> String {
    match (is_cut, text.strip_suffix('}')) {
        (true, Some(before)) if before.ends_with('{') => {
            format!("{before} /* {words} */ }}")
        }
        (true, Some(before)) => format!("{before}    /* {words} */\n}}"),
        _ => text.to_owned(),
    }
}

pub(super) fn create_empty_function_body() -> Block {
    Block {
        brace_token: syn::token::Brace::default(),
        stmts: Vec::new(),
    }
}

/// Removes the empty body `{}` from the text of a printed function.
fn remove_empty_body(text: &str) -> String {
    let text = text.trim_end().trim_end_matches("{}").trim_end();
    format!("{};", text.trim_end_matches(','))
}

/// Shortens the text of a printed constant: a long value is omitted.
fn omit_long_constant_value(text: &str) -> String {
    match text.split_once(" = ") {
        Some((before, _)) if text.len() > MAX_CONSTANT_LINE_BYTES || text.contains('\n') => {
            format!("{before};")
        }
        _ => text.to_owned(),
    }
}

pub(super) fn print_item(item: Item) -> String {
    let file = File {
        shebang: None,
        attrs: Vec::new(),
        items: vec![item],
    };
    prettyplease::unparse(&file).trim_end().to_owned()
}
