//! Reads the built-in extension points, with payloads and outcomes, from the table `points.in`,
//! which the host uses as well. A test compares the table with the WIT interfaces.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

/// A built-in extension point.
#[derive(Debug)]
pub(crate) struct Point {
    /// Name of the point and of its WIT interface.
    pub(crate) name: &'static str,
    /// Names of the point in other agent systems.
    aliases: &'static [&'static str],
    /// Type of the payload as written in the table, such as `Lent<Slice>`.
    payload: &'static str,
    /// Type of the outcome as written in the table.
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
    /// Returns the name in snake case, as for a function or a module.
    pub(crate) fn snake(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the Rust type of the payload.
    pub(crate) fn payload(&self) -> TokenStream {
        rust_type(self.payload)
    }

    /// Whether the payload is a handle that the host lends for one call.
    pub(crate) fn is_lent(&self) -> bool {
        inner(self.payload, "Lent").is_some()
    }

    /// Returns the Rust type of the outcome.
    pub(crate) fn outcome(&self) -> TokenStream {
        rust_type(self.outcome)
    }
}

/// Returns the point after which a hook function is named.
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

/// Returns the point that an author probably meant: one with this name in another system, or with a
/// similar name.
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
    // A short name is similar to others by chance.
    (distance <= (name.len() / 4).min(3)).then_some(point)
}

/// Returns the Levenshtein distance of two names, in letters.
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

/// Returns the inner type of `outer<T>`, such as of `Vec<T>` or `Lent<T>`.
fn inner<'a>(written: &'a str, outer: &str) -> Option<&'a str> {
    let rest = written.strip_prefix(outer)?.trim().strip_prefix('<')?;
    Some(rest.strip_suffix('>')?.trim())
}

/// Returns the Rust type, as an author writes it, for a type of the table. The prelude exports all
/// of these types.
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

    /// Returns a type of the table as written in WIT.
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
