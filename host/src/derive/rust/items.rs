//! One public item of Rust source: its signature without body, private fields and attributes, and its docs.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Block, Expr, ExprLit, Field, Fields, File, ImplItem, Item, ItemImpl, Lit, Meta,
    Signature, TraitItem, Type, TypeInfer, Visibility,
};

use super::ItemOutline;

/// Longest value of a constant that is shown, in bytes of its line.
const MAX_CONSTANT_BYTES: usize = 120;

/// Docs of an item, as one text.
pub(super) fn docs_of(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(meta) if meta.path.is_ident("doc") => literal(&meta.value),
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

/// The text of a literal.
pub(super) fn literal(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

pub(super) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_doc = attribute.path().is_ident("doc");
        is_doc && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string().split(',').any(|word| word.trim() == "hidden"))
    })
}

/// Whether it is compiled for tests only.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        meta => meta.path().is_ident("test"),
    })
}

/// Cargo features that it is compiled with, as the condition says them.
fn feature_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::List(list) = &attribute.meta else {
            return None;
        };
        let text = list.tokens.to_string();
        let feature = text.strip_prefix("feature = \"")?.strip_suffix('"')?;
        (list.path.is_ident("cfg") && !feature.contains('"')).then(|| feature.to_owned())
    })
}

/// Describes an item; `None` when it is not public, or is none that has a name.
pub(super) fn outline(item: Item) -> Option<ItemOutline> {
    let of = |kind: &str,
              attributes: &[Attribute],
              name: String,
              vis: Option<&Visibility>,
              signature: String| {
        let is_public = vis.is_none_or(|vis| matches!(vis, Visibility::Public(_)));
        let is_shown = is_public && !is_hidden(attributes) && !is_test(attributes);
        is_shown.then(|| ItemOutline {
            kind: kind.to_owned(),
            name,
            docs: docs_of(attributes),
            feature: feature_of(attributes),
            signature,
            methods: Vec::new(),
        })
    };
    match item {
        Item::Fn(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            let (kind, name) = kind_of_function(&attributes, &item.sig);
            item.block = Box::new(no_block());
            let vis = item.vis.clone();
            of(
                &kind,
                &attributes,
                name,
                Some(&vis),
                bodiless(&printed(Item::Fn(item))),
            )
        }
        Item::Struct(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            let is_cut = public_fields(&mut item.fields);
            let (name, vis) = (item.ident.to_string(), item.vis.clone());
            let text = printed(Item::Struct(item));
            of(
                "struct",
                &attributes,
                name,
                Some(&vis),
                with_note(&text, is_cut),
            )
        }
        Item::Union(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            let mut fields = Fields::Named(item.fields);
            let is_cut = public_fields(&mut fields);
            let Fields::Named(named) = fields else {
                return None;
            };
            item.fields = named;
            let (name, vis) = (item.ident.to_string(), item.vis.clone());
            of(
                "union",
                &attributes,
                name,
                Some(&vis),
                with_note(&printed(Item::Union(item)), is_cut),
            )
        }
        Item::Enum(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            for variant in &mut item.variants {
                only_docs(&mut variant.attrs);
                variant
                    .fields
                    .iter_mut()
                    .for_each(|field| only_docs(&mut field.attrs));
            }
            let (name, vis) = (item.ident.to_string(), item.vis.clone());
            of(
                "enum",
                &attributes,
                name,
                Some(&vis),
                printed(Item::Enum(item)),
            )
        }
        Item::Trait(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            for inner in &mut item.items {
                only_signature(inner);
            }
            let (name, vis) = (item.ident.to_string(), item.vis.clone());
            of(
                "trait",
                &attributes,
                name,
                Some(&vis),
                printed(Item::Trait(item)),
            )
        }
        Item::Type(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            let (name, vis) = (item.ident.to_string(), item.vis.clone());
            of(
                "type",
                &attributes,
                name,
                Some(&vis),
                printed(Item::Type(item)),
            )
        }
        Item::Const(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            let (name, vis) = (item.ident.to_string(), item.vis.clone());
            let text = constant(&printed(Item::Const(item)));
            of("constant", &attributes, name, Some(&vis), text)
        }
        Item::Static(mut item) => {
            let attributes = std::mem::take(&mut item.attrs);
            let (name, vis) = (item.ident.to_string(), item.vis.clone());
            let text = constant(&printed(Item::Static(item)));
            of("static", &attributes, name, Some(&vis), text)
        }
        Item::Macro(item)
            if item
                .attrs
                .iter()
                .any(|own| own.path().is_ident("macro_export")) =>
        {
            let name = item.ident?.to_string();
            let signature = format!("macro_rules! {name}");
            of("macro", &item.attrs, name, None, signature)
        }
        _ => None,
    }
}

/// A function that is a procedural macro is called by other names.
fn kind_of_function(attributes: &[Attribute], signature: &Signature) -> (String, String) {
    let name = signature.ident.to_string();
    for attribute in attributes {
        let path = attribute.path();
        if path.is_ident("proc_macro") {
            return ("function-like macro".to_owned(), name);
        }
        if path.is_ident("proc_macro_attribute") {
            return ("attribute macro".to_owned(), name);
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
            return ("derive macro".to_owned(), derive);
        }
    }
    ("function".to_owned(), name)
}

/// The public methods and constants of an `impl` that is of no trait, with the name of its type.
pub(super) fn methods(item: ItemImpl) -> Option<(String, Vec<ItemOutline>)> {
    if item.trait_.is_some() || is_test(&item.attrs) || is_hidden(&item.attrs) {
        return None;
    }
    let Type::Path(path) = &*item.self_ty else {
        return None;
    };
    let name = path.path.segments.last()?.ident.to_string();
    let feature = feature_of(&item.attrs);
    let methods = item.items.into_iter().filter_map(|inner| {
        let mut outline = match inner {
            ImplItem::Fn(inner) => outline(Item::Fn(syn::ItemFn {
                attrs: inner.attrs,
                vis: inner.vis,
                sig: inner.sig,
                block: Box::new(no_block()),
            })),
            ImplItem::Const(inner) => outline(Item::Const(syn::ItemConst {
                attrs: inner.attrs,
                vis: inner.vis,
                const_token: inner.const_token,
                ident: inner.ident,
                generics: inner.generics,
                colon_token: inner.colon_token,
                ty: Box::new(inner.ty),
                eq_token: inner.eq_token,
                expr: Box::new(inner.expr),
                semi_token: inner.semi_token,
            })),
            _ => None,
        }?;
        outline.feature = outline.feature.or_else(|| feature.clone());
        Some(outline)
    });
    let methods: Vec<ItemOutline> = methods.collect();
    (!methods.is_empty()).then_some((name, methods))
}

fn only_docs(attributes: &mut Vec<Attribute>) {
    attributes.retain(
        |attribute| matches!(&attribute.meta, Meta::NameValue(meta) if meta.path.is_ident("doc")),
    );
}

fn only_signature(item: &mut TraitItem) {
    match item {
        TraitItem::Fn(inner) => {
            only_docs(&mut inner.attrs);
            inner.default = None;
            inner.semi_token = Some(syn::token::Semi::default());
        }
        TraitItem::Const(inner) => {
            only_docs(&mut inner.attrs);
            inner.default = None;
        }
        TraitItem::Type(inner) => only_docs(&mut inner.attrs),
        _ => {}
    }
}

/// Removes private fields; of a tuple, their types. Returns whether there were any.
fn public_fields(fields: &mut Fields) -> bool {
    let is_public = |field: &Field| matches!(field.vis, Visibility::Public(_));
    let has_private = !fields.iter().all(is_public);
    fields
        .iter_mut()
        .for_each(|field| only_docs(&mut field.attrs));
    match fields {
        Fields::Named(named) => {
            let all = std::mem::take(&mut named.named);
            let public: Punctuated<Field, syn::Token![,]> =
                all.into_iter().filter(is_public).collect();
            named.named = public;
            has_private
        }
        Fields::Unnamed(unnamed) => {
            for field in unnamed.unnamed.iter_mut().filter(|field| !is_public(field)) {
                let underscore_token = syn::Token![_](Span::call_site());
                field.ty = Type::Infer(TypeInfer { underscore_token });
            }
            false
        }
        Fields::Unit => false,
    }
}

fn with_note(text: &str, is_cut: bool) -> String {
    match (is_cut, text.strip_suffix('}')) {
        (true, Some(before)) if before.ends_with('{') => {
            format!("{before} /* private fields */ }}")
        }
        (true, Some(before)) => format!("{before}    /* private fields */\n}}"),
        _ => text.to_owned(),
    }
}

fn no_block() -> Block {
    Block {
        brace_token: syn::token::Brace::default(),
        stmts: Vec::new(),
    }
}

/// The printed function without its empty body.
fn bodiless(text: &str) -> String {
    let text = text.trim_end().trim_end_matches("{}").trim_end();
    format!("{};", text.trim_end_matches(','))
}

/// The printed constant; a long value is left out.
fn constant(text: &str) -> String {
    match text.split_once(" = ") {
        Some((before, _)) if text.len() > MAX_CONSTANT_BYTES || text.contains('\n') => {
            format!("{before};")
        }
        _ => text.to_owned(),
    }
}

fn printed(item: Item) -> String {
    let file = File {
        shebang: None,
        attrs: Vec::new(),
        items: vec![item],
    };
    prettyplease::unparse(&file).trim_end().to_owned()
}
