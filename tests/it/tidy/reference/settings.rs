//! Generates the page of settings: each key with its values, default and doc.

use std::fmt::Write as _;

use super::super::tree::{self, Source};
use super::structs::{Field, Form, Item, Structs, argument};
use super::{Page, cell, host};

const INTRO: &str = "\
Every key of `config.toml` and `config.json`. [Settings](../settings.md) says where these files are and which one takes
precedence. A key without a default (–) is absent unless you set it. `rind init --user` writes a file with all keys, and
`rind config show` shows the values on your machine.";

/// Name of the file with the defaults.
const STARTER: &str = "starter.toml";

pub(super) fn page() -> Page {
    let (sources, starter) = (host(), starter());
    let defaults: toml::Table = toml::from_str(&starter).unwrap();
    let structs = Structs::read(&sources);
    let mut writer = Writer {
        structs: &structs,
        defaults: &defaults,
        text: format!("{INTRO}\n"),
        keys: Vec::new(),
        tables: Vec::new(),
    };
    // Sections are in the order of the starter file.
    let order = |name: &str| {
        let places = ["[", "[["].map(|open| starter.find(&format!("{open}{name}")));
        places.into_iter().flatten().min().unwrap_or(usize::MAX)
    };
    let mut sections: Vec<_> = structs.sections.iter().collect();
    sections.sort_by_key(|(name, _)| (order(name), (*name).clone()));
    for (name, (of, file)) in sections {
        writer.section(name, of, file);
    }
    let unknown = leaves(&defaults).into_iter();
    let unknown: Vec<String> = unknown.filter(|key| !writer.keys.contains(key)).collect();
    assert!(
        unknown.is_empty(),
        "{STARTER} has unknown keys: {unknown:?}"
    );
    Page {
        name: "settings.md",
        title: "Reference: settings",
        text: writer.text,
    }
}

/// Returns the text of the starter file, in whichever folder it is.
fn starter() -> String {
    let files: Vec<Source> = tree::sources(&tree::HOST, &["toml"]);
    let mut files = files.into_iter();
    let file = files.find(|file| file.path.ends_with(&format!("/{STARTER}")));
    file.expect("a file has the defaults").text
}

/// Returns the dotted keys of all values in a table.
fn leaves(table: &toml::Table) -> Vec<String> {
    let leaves = table.iter().flat_map(|(key, value)| match value {
        toml::Value::Table(inner) => {
            let inner = leaves(inner).into_iter();
            inner.map(|rest| format!("{key}.{rest}")).collect()
        }
        _ => vec![key.clone()],
    });
    leaves.collect()
}

/// Values that a setting of a type accepts.
enum Values<'a> {
    Text(String),
    Table(&'a Item),
    /// A table of tables whose keys are names.
    Named(&'a Item),
    /// A list of tables.
    Listed(&'a Item),
}

struct Writer<'a> {
    structs: &'a Structs,
    defaults: &'a toml::Table,
    text: String,
    /// Dotted keys written so far.
    keys: Vec<String>,
    /// Doc and path of the tables written so far. A table with the same doc refers to the earlier
    /// one.
    tables: Vec<(&'a str, String)>,
}

impl<'a> Writer<'a> {
    fn section(&mut self, name: &str, of: &str, file: &str) {
        let _ = write!(self.text, "\n## {name}\n");
        match self.values(of, file) {
            Values::Table(item) => self.table(name, "###", item, false),
            Values::Named(item) => self.table(&format!("{name}.NAME"), "###", item, false),
            _ => panic!("[{name}] is no table"),
        }
    }

    /// Writes a table, and then the tables in it.
    fn table(&mut self, path: &str, level: &str, item: &'a Item, is_list: bool) {
        let Form::Struct(fields) = &item.form else {
            panic!("[{path}] has no fields");
        };
        let heading = if is_list {
            format!("[[{path}]]")
        } else {
            format!("[{path}]")
        };
        let doc = plain(&item.doc);
        let _ = write!(self.text, "\n{level} `{heading}`\n\n{doc}\n");
        if let Some((_, earlier)) = self.tables.iter().find(|(of, _)| *of == item.doc) {
            let _ = write!(self.text, "\nKeys: those of `[{earlier}]`.\n");
            return;
        }
        self.tables.push((&item.doc, path.to_owned()));
        let is_read = |field: &&Field| !field.attributes.contains("serde(skip)");
        let mut inner = Vec::new();
        let mut rows = String::new();
        for field in fields.iter().filter(is_read) {
            let name = field.attribute("rename").unwrap_or(&field.name);
            assert!(!field.doc.is_empty(), "`{path}.{name}` has no doc");
            let key = format!("{path}.{name}");
            match self.values(&field.kind, &item.file) {
                Values::Text(values) => {
                    let values = values + &self.bounds(field);
                    let default = self.default(&key);
                    let doc = plain(&field.doc);
                    let row = [format!("`{name}`"), values, default, doc].map(|text| cell(&text));
                    let _ = writeln!(rows, "| {} |", row.join(" | "));
                }
                Values::Table(item) => inner.push((key.clone(), item, false)),
                Values::Named(item) => inner.push((format!("{key}.NAME"), item, false)),
                Values::Listed(item) => inner.push((key.clone(), item, true)),
            }
            self.keys.push(key);
        }
        if !rows.is_empty() {
            self.text += "\n| key | values | default | meaning |\n|---|---|---|---|\n";
            self.text += &rows;
        }
        for (key, item, is_list) in inner {
            self.table(&key, level, item, is_list);
        }
    }

    fn default(&self, key: &str) -> String {
        let mut keys = key.split('.');
        let first = keys.next().and_then(|key| self.defaults.get(key));
        let value = first.and_then(|first| keys.try_fold(first, |value, key| value.get(key)));
        value.map_or_else(|| "–".to_owned(), |value| format!("`{value}`"))
    }

    /// Returns the bounds of a number as `, MIN to MAX`, or nothing if it has none.
    fn bounds(&self, field: &Field) -> String {
        let own = field.attribute("deserialize_with");
        let within = own.and_then(|with| with.split_once("::<")?.1.split_once(", _"));
        let Some((least, most)) = within.and_then(|(bounds, _)| bounds.split_once(", ")) else {
            return String::new();
        };
        let [least, most] = [least, most].map(|text| grouped(self.structs.number(text)));
        format!(", {least} to {most}")
    }

    fn values(&self, kind: &str, file: &str) -> Values<'a> {
        let text = |text: &str| Values::Text(text.to_owned());
        let inside = |outer: &str| {
            let inner = kind.strip_prefix(outer)?.strip_prefix('<')?;
            inner.strip_suffix('>')
        };
        if let Some(inner) = inside("Option").or_else(|| inside("Arc")) {
            return self.values(inner, file);
        }
        if let Some(inner) = inside("Vec") {
            return match self.values(inner, file) {
                Values::Text(of) => Values::Text(format!("list of {of}")),
                Values::Table(item) => Values::Listed(item),
                _ => panic!("a list of maps: {kind}"),
            };
        }
        if let Some(inner) = kind.strip_prefix("BTreeMap<String, ") {
            return match self.values(inner.trim_end_matches('>'), file) {
                Values::Text(of) => Values::Text(format!("table of {of}")),
                Values::Table(item) => Values::Named(item),
                _ => panic!("a map of maps: {kind}"),
            };
        }
        match kind {
            "String" => text("text"),
            "PathBuf" => text("path"),
            "bool" => text("`true` or `false`"),
            "u16" | "u32" | "u64" | "usize" | "f64" => text("number"),
            "toml::Table" | "Map<String, Value>" => text("any table"),
            _ => self.item(kind, file),
        }
    }

    fn item(&self, name: &str, file: &str) -> Values<'a> {
        let item = self.structs.find(name, file);
        let item = item.unwrap_or_else(|| panic!("{file}: the type `{name}` is unknown"));
        let from = argument(&item.attributes, "try_from");
        let from = from.or_else(|| argument(&item.attributes, "(from"));
        match &item.form {
            Form::Alias(of) => self.values(of, &item.file),
            Form::Struct(_) if from.is_some() => self.values(from.unwrap_or_default(), &item.file),
            Form::Struct(_) => Values::Table(item),
            Form::Enum(variants) if item.attributes.contains("untagged") => {
                let each = variants.iter().map(|variant| {
                    let Values::Text(text) = self.values(&variant.kind, &item.file) else {
                        panic!("`{name}` has a table");
                    };
                    text
                });
                Values::Text(each.collect::<Vec<_>>().join(", or "))
            }
            Form::Enum(variants) => {
                let between = match argument(&item.attributes, "rename_all") {
                    Some("kebab-case") => "-",
                    Some("snake_case") => "_",
                    _ => "",
                };
                let each = variants.iter().map(|variant| {
                    format!("`{}`", words(&variant.name).join(between).to_lowercase())
                });
                Values::Text(each.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Splits a name in camel case into its words.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for c in name.chars() {
        match words.last_mut() {
            Some(word) if !c.is_uppercase() => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    words
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Replaces the links to items in a doc with their names.
fn plain(doc: &str) -> String {
    let mut text = String::new();
    let mut rest = doc;
    while let Some((before, behind)) = rest.split_once("[`") {
        let Some((name, after)) = behind.split_once("`]") else {
            break;
        };
        let after = match after.strip_prefix('(') {
            Some(link) => link.split_once(')').map_or(after, |(_, after)| after),
            None => after,
        };
        let _ = write!(text, "{before}`{name}`");
        rest = after;
    }
    text += rest;
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn names_numbers_and_docs_are_written_for_people() {
    assert_eq!(words("AnthropicMessages"), ["Anthropic", "Messages"]);
    assert_eq!(grouped(1_000_000), "1,000,000");
    assert_eq!(grouped(86), "86");
    assert_eq!(
        plain("See [`A::b`] and [`c`](d); `[x]`."),
        "See `A::b` and `c`; `[x]`."
    );
}

#[test]
fn keys_of_tables_within_tables_have_dots() {
    let table: toml::Table = toml::from_str("a = 1\n[b.c]\nd = 2\n").unwrap();
    assert_eq!(leaves(&table), ["a", "b.c.d"]);
}
