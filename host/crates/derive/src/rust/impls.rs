//! Reads `impl` blocks: their type, the members that they add to it, and the trait that they
//! implement.
//!
//! Paths are not resolved here; `read/attach.rs` finds the types that they refer to.

use syn::punctuated::Punctuated;
use syn::{
    GenericArgument, GenericParam, ImplItem, Item, ItemImpl, Path, PathArguments, PathSegment,
    Token, Type, parse_quote,
};

use super::attributes::{CFG_CONDITION_PREFIX, cfg_conditions, is_doc_hidden, is_test_only};
use super::items::{ItemWithVisibility, create_empty_function_body, print_item, read_item};
use super::{ImplBlockOutline, RustItemOutline};

/// `impl` block. `path` is the path of its type, relative to the module of the block.
pub(super) struct ImplBlock {
    pub(super) path: Vec<String>,
    pub(super) gives: ImplBlockMembers,
}

/// Methods or trait that an `impl` block adds to its type.
pub(super) enum ImplBlockMembers {
    Methods(ImplBlockOutline),
    /// Trait that the block implements: its path, and the text to display.
    Trait(Vec<String>, String),
}

/// Reads an `impl` block; `None` if it adds nothing that other crates can use.
pub(super) fn read_impl(mut item: ItemImpl) -> Option<ImplBlock> {
    if is_test_only(&item.attrs) || is_doc_hidden(&item.attrs) {
        return None;
    }
    let Type::Path(own) = &*item.self_ty else {
        return None;
    };
    let path = path_segment_names(&own.path);
    if own.qself.is_some() || is_generic_parameter(&item, &path) {
        return None;
    }
    let conditions = cfg_conditions(&item.attrs);
    let items = std::mem::take(&mut item.items);
    if let Some((is_not, of, _)) = &item.trait_ {
        let shown = match has_unrestricted_generics(&item) {
            true => format_last_path_segment(of)?,
            false => impl_header(&item),
        };
        let not = if is_not.is_some() { "not " } else { "" };
        let mut shown = format!("{not}{shown}");
        if !conditions.is_empty() {
            shown.push_str(&format!("{CFG_CONDITION_PREFIX}{})", conditions.join(", ")));
        }
        let of = path_segment_names(of);
        return Some(ImplBlock {
            path,
            gives: ImplBlockMembers::Trait(of, shown),
        });
    }
    let items: Vec<RustItemOutline> = items.into_iter().filter_map(read_method).collect();
    (!items.is_empty()).then(|| ImplBlock {
        path,
        gives: ImplBlockMembers::Methods(ImplBlockOutline {
            header: (!has_unrestricted_generics(&item)).then(|| impl_header(&item)),
            conditions,
            items,
        }),
    })
}

fn read_method(item: ImplItem) -> Option<RustItemOutline> {
    let item = match item {
        ImplItem::Fn(inner) => Item::Fn(syn::ItemFn {
            attrs: inner.attrs,
            vis: inner.vis,
            sig: inner.sig,
            block: Box::new(create_empty_function_body()),
        }),
        ImplItem::Const(inner) => Item::Const(syn::ItemConst {
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
        }),
        _ => return None,
    };
    match read_item(item) {
        ItemWithVisibility::Public(outline) => Some(*outline),
        ItemWithVisibility::Private(_) | ItemWithVisibility::Nothing => None,
    }
}

/// Returns the names in a path, without generic arguments.
fn path_segment_names(path: &Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

/// Whether the type is a generic parameter of the `impl`, which is then a blanket implementation.
fn is_generic_parameter(item: &ItemImpl, path: &[String]) -> bool {
    let [name] = path else { return false };
    item.generics.type_params().any(|own| own.ident == name)
}

/// Whether the `impl` applies to all arguments of its type, without bounds or concrete arguments,
/// so that its header says no more than the name of the type.
fn has_unrestricted_generics(item: &ItemImpl) -> bool {
    let is_free = |param: &GenericParam| match param {
        GenericParam::Type(own) => own.bounds.is_empty(),
        GenericParam::Lifetime(own) => own.bounds.is_empty(),
        GenericParam::Const(_) => true,
    };
    let generics = &item.generics;
    let is_own = |argument: &GenericArgument| match argument {
        GenericArgument::Lifetime(own) => own.ident != "static",
        GenericArgument::Type(Type::Path(own)) => own.path.get_ident().is_some_and(|name| {
            let names = generics.params.iter().filter_map(|param| match param {
                GenericParam::Type(own) => Some(&own.ident),
                GenericParam::Const(own) => Some(&own.ident),
                GenericParam::Lifetime(_) => None,
            });
            names.into_iter().any(|own| own == name)
        }),
        _ => false,
    };
    let Type::Path(own) = &*item.self_ty else {
        return false;
    };
    let arguments = own.path.segments.last().map(|last| &last.arguments);
    let are_own = match arguments {
        Some(PathArguments::AngleBracketed(arguments)) => arguments.args.iter().all(is_own),
        _ => true,
    };
    generics.where_clause.is_none() && generics.params.iter().all(is_free) && are_own
}

/// Returns the header of an `impl` block without its items.
fn impl_header(item: &ItemImpl) -> String {
    let mut item = item.clone();
    item.attrs.clear();
    let text = print_item(Item::Impl(item));
    let text = text.trim_end().trim_end_matches("{}").trim_end();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches(',').to_owned()
}

/// Returns the last name of a path with its generic arguments.
fn format_last_path_segment(path: &Path) -> Option<String> {
    let last: PathSegment = path.segments.last()?.clone();
    let mut segments: Punctuated<PathSegment, Token![::]> = Punctuated::new();
    segments.push(last);
    let path = Path {
        leading_colon: None,
        segments,
    };
    let text = print_item(parse_quote!(type T = #path;));
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let text = text.strip_prefix("type T = ")?.strip_suffix(';')?;
    Some(text.to_owned())
}
