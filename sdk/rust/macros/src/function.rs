//! Parses one exported function: the options of its attribute and its signature.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Result, ReturnType,
    Type,
};

/// The attributes that mark a function for export.
const MARKERS: &[&str] = &[
    "hook",
    "tool",
    "command",
    "implements",
    "run_loop",
    "agent_loop",
];

/// An exported function.
pub(crate) struct Function {
    /// Name of the function.
    pub(crate) name: Ident,
    /// Doc comment of the function.
    pub(crate) docs: String,
    /// Type of the parameter, if there is one: payload, arguments or text.
    pub(crate) parameter: Option<Type>,
    /// Return type.
    pub(crate) output: ReturnType,
}

/// Removes the marker from a function's attributes and returns it; `None` if there is none.
pub(crate) fn take_marker(function: &mut ItemFn) -> Result<Option<(&'static str, Attribute)>> {
    let mut found = None;
    let mut kept = Vec::new();
    for attribute in std::mem::take(&mut function.attrs) {
        let last = attribute.path().segments.last();
        let marker = last.and_then(|last| MARKERS.iter().find(|marker| last.ident == **marker));
        match (marker, &found) {
            (None, _) => kept.push(attribute),
            (Some(marker), None) => found = Some((*marker, attribute)),
            (Some(_), Some(_)) => {
                let message = format!(
                    "`{}` can be only one of {}",
                    function.sig.ident,
                    MARKERS.join(", ")
                );
                return Err(Error::new(function.sig.ident.span(), message));
            }
        }
    }
    function.attrs = kept;
    Ok(found)
}

impl Function {
    /// Parses a function that may have one parameter, which errors call `role`. `None` allows no
    /// parameter.
    pub(crate) fn parse(function: &ItemFn, role: Option<&str>) -> Result<Self> {
        let signature = &function.sig;
        let name = signature.ident.clone();
        if let Some(span) = unfit(function) {
            let message = format!("`{name}` is called by the host: it must be a plain function");
            return Err(Error::new(span, message));
        }
        let mut parameters = Vec::new();
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input {
                parameters.push((*input.ty).clone());
            }
        }
        if parameters.len() > usize::from(role.is_some()) {
            let takes = role.map_or("nothing".to_owned(), |role| format!("the {role} alone"));
            let message = format!(
                "`{name}` takes {takes}; ask who calls with `caller::turn()`, `caller::agent()` and their like"
            );
            return Err(Error::new(name.span(), message));
        }
        Ok(Self {
            name,
            docs: docs(&function.attrs),
            parameter: parameters.pop(),
            output: signature.output.clone(),
        })
    }

    /// Returns the span of the return type, or of the function's name if it returns nothing.
    pub(crate) fn output_span(&self) -> Span {
        match &self.output {
            ReturnType::Default => self.name.span(),
            ReturnType::Type(_, output) => output.span(),
        }
    }

    /// Whether the return type is written `Result<…>`.
    pub(crate) fn returns_result(&self) -> bool {
        let ReturnType::Type(_, output) = &self.output else {
            return false;
        };
        matches!(&**output, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Result"))
    }
}

/// Returns the span of what prevents the host from calling a function, if anything does: `async`,
/// `unsafe`, a generic type or `self`.
fn unfit(function: &ItemFn) -> Option<Span> {
    let signature = &function.sig;
    let keyword = signature
        .asyncness
        .map(|it| it.span())
        .or(signature.unsafety.map(|it| it.span()));
    let types = signature
        .generics
        .params
        .iter()
        .find(|it| !matches!(it, syn::GenericParam::Lifetime(_)));
    keyword
        .or(types.map(Spanned::span))
        .or(signature.receiver().map(Spanned::span))
}

/// Returns the text of the doc comments among attributes.
fn docs(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes {
        let Meta::NameValue(meta) = &attribute.meta else {
            continue;
        };
        if !meta.path.is_ident("doc") {
            continue;
        }
        if let Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) = &meta.value
        {
            let text = text.value();
            lines.push(
                text.strip_prefix(' ')
                    .unwrap_or(&text)
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    lines.join("\n").trim().to_owned()
}

/// Options of `#[tool(…)]`.
pub(crate) struct ToolOptions {
    /// Variant of `EffectClass`.
    pub(crate) effect: Ident,
    /// Name of the tool, if it differs from the function's.
    pub(crate) name: Option<LitStr>,
}

impl ToolOptions {
    /// Parses the attribute.
    pub(crate) fn parse(attribute: &Attribute, function: &Ident) -> Result<Self> {
        const HINT: &str =
            "write `#[tool(effect = \"…\")]` with \"read\", \"write\", \"execute\" or \"external\"";
        let (mut effect, mut name) = (None, None);
        if !matches!(attribute.meta, Meta::Path(_)) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("effect") {
                    effect = Some(meta.value()?.parse::<LitStr>()?);
                } else if meta.path.is_ident("name") {
                    name = Some(meta.value()?.parse::<LitStr>()?);
                } else {
                    return Err(meta.error("a tool has `effect` and `name`"));
                }
                Ok(())
            })?;
        }
        let Some(effect) = effect else {
            let message = format!("the tool `{function}` must say what running it may do: {HINT}");
            return Err(Error::new(function.span(), message));
        };
        let variant = match effect.value().as_str() {
            "read" => "Read",
            "write" => "Write",
            "execute" => "Execute",
            "external" => "External",
            _ => return Err(Error::new(effect.span(), HINT)),
        };
        Ok(Self {
            effect: Ident::new(variant, effect.span()),
            name,
        })
    }
}
