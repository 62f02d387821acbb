//! The built-in extension points as the macro sees them: name, payload, outcome. They are those of
//! the table that the host has too; a test holds it equal to the interfaces.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

/// A built-in extension point.
#[derive(Debug)]
pub(crate) struct Point {
    /// Name, that of its WIT interface.
    pub(crate) name: &'static str,
    /// Names that other systems use.
    aliases: &'static [&'static str],
    /// The type of its payload as the table writes it.
    payload: &'static str,
    /// The type of its outcome as the table writes it.
    outcome: &'static str,
}

include!(concat!(env!("RIND_WIT"), "/points.in"));

macro_rules! points {
    ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
        /// All points, in the order in which a session calls them.
        pub(crate) const POINTS: &[Point] = &[
            $(Point { name: $name, aliases: &[$($alias),*], payload: stringify!($payload), outcome: stringify!($outcome) },)*
        ];
    };
}
for_each_point!(points);

impl Point {
    /// The name as a function or module.
    pub(crate) fn snake(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The Rust type of the payload.
    pub(crate) fn payload(&self) -> TokenStream {
        rust_type(self.payload)
    }

    /// Whether the payload is a handle that is lent.
    pub(crate) fn is_lent(&self) -> bool {
        inner(self.payload, "Lent").is_some()
    }

    /// The Rust type of the outcome.
    pub(crate) fn outcome(&self) -> TokenStream {
        rust_type(self.outcome)
    }
}

/// The point that a function is a hook of, by the function's name.
pub(crate) fn find(function: &Ident) -> syn::Result<&'static Point> {
    let name = function.to_string();
    if let Some(point) = POINTS.iter().find(|point| point.snake() == name) {
        return Ok(point);
    }
    let names: Vec<String> = POINTS
        .iter()
        .map(|point| format!("`{}`", point.snake()))
        .collect();
    let meant = meant(&name).map(|point| format!(", did you mean `{}`?", point.snake()));
    let message = format!(
        "there is no extension point `{name}`{}; a hook is named after its point, one of {}",
        meant.unwrap_or_default(),
        names.join(", ")
    );
    Err(syn::Error::new(function.span(), message))
}

/// The point that an author means by a name: one that another system has for it, or the nearest.
fn meant(name: &str) -> Option<&'static Point> {
    let is_alias = |alias: &&str| alias.rsplit('.').next() == Some(name);
    let mut points = POINTS.iter();
    if let Some(point) = points.find(|point| point.aliases.iter().any(&is_alias)) {
        return Some(point);
    }
    let distances = POINTS
        .iter()
        .map(|point| (distance(&point.snake(), name), point));
    let (distance, point) = distances.min_by_key(|(distance, _)| *distance)?;
    // Short names are near each other by chance.
    (distance <= (name.len() / 4).min(3)).then_some(point)
}

/// Letters in which two names differ (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut before = at;
        let mut left = at + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, wanted) in row.iter_mut().skip(1).zip(other.chars()) {
            let changed = before + usize::from(letter != wanted);
            before = *cell;
            left = changed.min(left + 1).min(before + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The inner type of `Vec<T>` or `Lent<T>`.
fn inner<'a>(written: &'a str, outer: &str) -> Option<&'a str> {
    let rest = written.strip_prefix(outer)?.trim().strip_prefix('<')?;
    Some(rest.strip_suffix('>')?.trim())
}

/// The type that an author writes for one of the table. The prelude lists every type of the
/// contract, whichever interface it is from.
fn rust_type(written: &str) -> TokenStream {
    if let Some(item) = inner(written, "Vec") {
        let item = rust_type(item);
        return quote!(::std::vec::Vec<#item>);
    }
    if let Some(handle) = inner(written, "Lent") {
        let handle = rust_type(handle);
        return quote!(&#handle);
    }
    if written == "String" {
        return quote!(::std::string::String);
    }
    let name = Ident::new(written, proc_macro2::Span::call_site());
    quote!(::rind_sdk::prelude::#name)
}

#[cfg(test)]
mod tests {
    use super::{POINTS, inner};
    use std::fs;
    use std::path::Path;

    fn wit(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("wit").join(file);
        fs::read_to_string(path).expect("wit/ is in the repository")
    }

    /// A type of the table as WIT writes it.
    fn wit_type(written: &str) -> String {
        if let Some(item) = inner(written, "Vec") {
            return format!("list<{}>", wit_type(item));
        }
        if let Some(handle) = inner(written, "Lent") {
            return format!("borrow<{}>", wit_type(handle));
        }
        let mut kebab = String::new();
        for letter in written.chars() {
            if letter.is_uppercase() && !kebab.is_empty() {
                kebab.push('-');
            }
            kebab.extend(letter.to_lowercase());
        }
        kebab
    }

    #[test]
    fn every_point_has_the_payload_and_outcome_of_its_interface() {
        for point in POINTS {
            let expected = format!(
                "run: func(payload: {}) -> result<{}, error>;",
                wit_type(point.payload),
                wit_type(point.outcome)
            );
            let text = wit(&format!("{}.wit", point.name));
            assert!(text.contains(&expected), "{}: {expected}", point.name);
        }
    }
}
