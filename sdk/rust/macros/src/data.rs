//! Expands `#[args]` and `#[data]` into derives that use the SDK's own serde and schemars, so that
//! plugins need not depend on these crates.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Result};

/// Checks that an attribute was written without options.
pub(crate) fn without_options(attribute: TokenStream, name: &str) -> Result<()> {
    if attribute.is_empty() {
        return Ok(());
    }
    Err(Error::new_spanned(
        attribute,
        format!("`#[{name}]` has no options"),
    ))
}

/// Expands `#[args]`.
pub(crate) fn args(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    without_options(attribute, "args")?;
    let item: DeriveInput = syn::parse2(item)?;
    let strict = match &item.data {
        // The model can correct a misspelt argument only if it is reported as an error.
        Data::Struct(data) if matches!(data.fields, Fields::Named(_)) && !flattens(data) => {
            quote!(#[serde(deny_unknown_fields)])
        }
        Data::Struct(_) | Data::Enum(_) => quote!(),
        Data::Union(_) => {
            return Err(Error::new(
                Span::call_site(),
                "a union cannot be read from JSON",
            ));
        }
    };
    Ok(quote! {
        #[derive(
            ::core::clone::Clone,
            ::core::fmt::Debug,
            ::rind_sdk::serde::Deserialize,
            ::rind_sdk::schemars::JsonSchema,
        )]
        #[serde(crate = "::rind_sdk::serde")]
        #[schemars(crate = "::rind_sdk::schemars")]
        #strict
        #item
    })
}

/// Expands `#[data]`.
pub(crate) fn data(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    without_options(attribute, "data")?;
    let item: DeriveInput = syn::parse2(item)?;
    Ok(quote! {
        #[derive(
            ::core::clone::Clone,
            ::core::fmt::Debug,
            ::rind_sdk::serde::Serialize,
            ::rind_sdk::serde::Deserialize,
        )]
        #[serde(crate = "::rind_sdk::serde")]
        #item
    })
}

/// Whether a field has `#[serde(flatten)]`, which serde does not support together with
/// `deny_unknown_fields`.
fn flattens(data: &syn::DataStruct) -> bool {
    let attributes = data.fields.iter().flat_map(|field| &field.attrs);
    attributes
        .filter(|attribute| attribute.path().is_ident("serde"))
        .any(|attribute| matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string().contains("flatten")))
}
