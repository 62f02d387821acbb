//! Reads structs and enums of the settings from their source: fields with docs, types and bounds.
//!
//! Reads text, because the settings have private types and the docs are in the source only. It relies on the form that rustfmt
//! gives to items. Start from [`Structs::read`].

use std::collections::BTreeMap;

use super::super::tree::Source;

/// One field of a struct, or one variant of an enum.
#[derive(Debug, Default)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) doc: String,
    /// Attributes, as they are written.
    pub(super) attributes: String,
    /// Type of a field, or content of a variant.
    pub(super) kind: String,
}

impl Field {
    /// Returns the value of an argument of the attributes, such as `rename = "VALUE"`.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        argument(&self.attributes, name)
    }
}

/// Returns the value of the argument `name = "VALUE"` in the text of attributes.
pub(super) fn argument<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = attributes.split_once(&format!("{name} = \""))?;
    Some(rest.split_once('"')?.0)
}

/// Form of an item.
#[derive(Debug)]
pub(super) enum Form {
    Struct(Vec<Field>),
    Enum(Vec<Field>),
    /// A struct of one unnamed field, or another name of a type.
    Alias(String),
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) file: String,
    pub(super) doc: String,
    pub(super) attributes: String,
    pub(super) form: Form,
    is_public: bool,
}

/// All items and constants by name, and the struct of each section.
#[derive(Debug, Default)]
pub(super) struct Structs {
    items: BTreeMap<String, Vec<Item>>,
    constants: BTreeMap<String, String>,
    /// Struct of each section, and its file.
    pub(super) sections: BTreeMap<String, (String, String)>,
}

impl Structs {
    pub(super) fn read(sources: &[Source]) -> Self {
        let mut all = Self::default();
        for source in sources {
            all.add(source);
        }
        all
    }

    /// Finds the item that a name means in a file: an item of that file, or else a public one.
    pub(super) fn find(&self, name: &str, file: &str) -> Option<&Item> {
        let all = self.items.get(name)?;
        let own = all.iter().find(|item| item.file == file);
        let is_read = |item: &&Item| item.is_public && item.attributes.contains("Deserialize");
        own.or_else(|| all.iter().find(is_read))
    }

    /// Returns the number for a bound, which is a literal or the name of a constant.
    pub(super) fn number(&self, text: &str) -> u64 {
        let text = self.constants.get(text).map_or(text, String::as_str);
        let digits = text.replace('_', "");
        let number = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        number.unwrap_or_else(|_| panic!("`{text}` is no number"))
    }

    fn add(&mut self, source: &Source) {
        let (mut doc, mut attributes) = (Vec::new(), String::new());
        let mut lines = source.text.lines();
        while let Some(line) = lines.next() {
            if let Some(text) = line.strip_prefix("///") {
                doc.push(text.trim());
                continue;
            }
            if line.starts_with("#[") {
                attributes += &whole_attribute(line, &mut lines);
                continue;
            }
            let bare = line.strip_prefix("pub(crate) ").unwrap_or(line);
            let bare = bare.strip_prefix("pub(super) ").unwrap_or(bare);
            let is_public = bare != line || bare.starts_with("pub ");
            let bare = bare.strip_prefix("pub ").unwrap_or(bare);
            let named = if let Some(rest) = bare.strip_prefix("struct ") {
                record(rest, &mut lines)
            } else if let Some(rest) = bare.strip_prefix("enum ") {
                let name = rest.trim_end_matches(" {").to_owned();
                Some((name, Form::Enum(fields(&mut lines))))
            } else {
                bare.strip_prefix("type ").and_then(|rest| {
                    let (name, of) = rest.trim_end_matches(';').split_once(" = ")?;
                    Some((name.to_owned(), Form::Alias(of.to_owned())))
                })
            };
            if let Some((name, form)) = named {
                self.items.entry(name).or_default().push(Item {
                    file: source.path.clone(),
                    doc: doc.join(" "),
                    attributes: attributes.clone(),
                    form,
                    is_public,
                });
            } else if let Some(rest) = bare.strip_prefix("impl Section for ") {
                let name = lines.next().and_then(|line| line.split('"').nth(1));
                let of = rest.trim_end_matches(" {").to_owned();
                let of = (of, source.path.clone());
                self.sections.extend(name.map(|name| (name.to_owned(), of)));
            } else if let Some((name, value)) = constant(bare) {
                self.constants.insert(name.to_owned(), value.to_owned());
            }
            doc.clear();
            attributes.clear();
        }
    }
}

fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("const ")?.split_once(": ")?;
    Some((name, rest.trim_end_matches(';').split_once(" = ")?.1))
}

/// Parses a struct from the text after its keyword. Returns its name and form.
fn record<'a>(rest: &str, lines: &mut impl Iterator<Item = &'a str>) -> Option<(String, Form)> {
    if let Some(name) = rest.strip_suffix(" {") {
        return Some((name.to_owned(), Form::Struct(fields(lines))));
    }
    let (name, of) = rest.strip_suffix(");")?.split_once('(')?;
    let of = of.strip_prefix("pub ").unwrap_or(of);
    Some((name.to_owned(), Form::Alias(of.to_owned())))
}

/// Reads an attribute to its end, which may be on a later line.
fn whole_attribute<'a>(first: &str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = first.trim().to_owned();
    while text.matches('[').count() > text.matches(']').count() {
        let Some(line) = lines.next() else { break };
        text += line.trim();
    }
    text
}

/// Parses fields or variants up to the end of their item.
fn fields<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<Field> {
    let mut found = Vec::new();
    let (mut doc, mut attributes) = (Vec::new(), String::new());
    while let Some(line) = lines.next() {
        if line == "}" {
            break;
        }
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim());
        } else if line.starts_with("#[") {
            attributes += &whole_attribute(line, lines);
        } else if !line.is_empty() && !line.starts_with("//") {
            let bare = line.trim_end_matches(',');
            let bare = match bare.split_once(") ") {
                Some((visibility, rest)) if visibility.starts_with("pub(") => rest,
                _ => bare.strip_prefix("pub ").unwrap_or(bare),
            };
            let (name, kind) = match (bare.split_once(": "), bare.split_once('(')) {
                (Some((name, kind)), _) => (name, kind),
                (None, Some((name, of))) => (name, of.trim_end_matches(')')),
                (None, None) => (bare, ""),
            };
            found.push(Field {
                name: name.to_owned(),
                doc: doc.join(" "),
                attributes: std::mem::take(&mut attributes),
                kind: kind.to_owned(),
            });
            doc.clear();
        }
    }
    found
}

#[test]
fn items_are_read_with_docs_attributes_and_types() {
    let text = "\
const MOST: u64 = 0x10;

/// Limits of a\n/// turn.
#[derive(Deserialize)]
pub struct A {
    /// Most steps.
    #[serde(deserialize_with = \"number::within::<1, MOST, _, _>\")]
    pub steps: u32,
    #[serde(default, rename = \"async\")]
    is_async: bool,
}

impl Section for A {
    const NAME: &'static str = \"a\";
}

enum B {
    /// One.
    One(String),
    Two,
}
pub struct C(pub BTreeMap<String, A>);
";
    let all = Structs::read(&[Source::new("a.rs", text)]);
    assert_eq!(all.sections["a"].0, "A");
    assert_eq!(all.number("MOST"), 16);
    let a = all.find("A", "b.rs").unwrap();
    assert_eq!(a.doc, "Limits of a turn.");
    let Form::Struct(fields) = &a.form else {
        panic!("{a:?}")
    };
    assert_eq!((&*fields[0].doc, &*fields[0].kind), ("Most steps.", "u32"));
    assert_eq!(fields[1].attribute("rename"), Some("async"));
    assert!(all.find("B", "b.rs").is_none());
    let b = all.find("B", "a.rs").unwrap();
    assert!(matches!(&b.form, Form::Enum(variants) if variants[0].kind == "String"));
    let c = all.find("C", "a.rs").unwrap();
    assert!(matches!(&c.form, Form::Alias(of) if of == "BTreeMap<String, A>"));
}
