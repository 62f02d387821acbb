//! Checks that the contract's version fits its changes since the last snapshot in `wit/released/`.
//!
//! The engine checks types when it links a component: after one more field in a record it refuses
//! all older components. Additions to the host's side (an interface, a function) need the next
//! patch number, because components that use them do not run on older hosts. Other changes need an
//! incompatible version, whose predecessor keeps its bindings. Docs may change freely.

use std::collections::BTreeMap;

use wit_parser::{
    Function, Interface, InterfaceId, PackageId, Resolve, Type, TypeDefKind, TypeId, TypeOwner,
    WorldItem,
};

use super::tree;

/// The folder of the snapshots.
pub(super) const FOLDER: &str = "wit/released";

/// The contract in one folder of WIT files.
pub(super) struct Contract {
    resolve: Resolve,
    package: PackageId,
}

/// The version that a change needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// The next patch number: older components run on.
    Patch,
    /// The next incompatible version: 0.2.0 after 0.1.x, 2.0.0 after 1.x.
    Version,
}

/// One difference between a snapshot and the contract.
struct Change {
    item: String,
    what: String,
    needs: Needs,
    rule: &'static str,
}

const GONE: &str = "is gone";

const FIELDS: &str = "fields of a record never change within a version";
const CASES: &str = "cases of a variant, enum or flags never change within a version";
const TYPES: &str = "a type keeps its name and its shape within a version";
const SIGNATURES: &str = "a function keeps its name, parameters and result within a version";
const GUESTS: &str = "an interface that components export gets no function within a version: those built before lack it";
const PLACES: &str = "an interface stays where it is imported or exported within a version";
const GROWTH: &str =
    "the contract grows with the next patch number, which older hosts refuse by name";

impl Contract {
    /// Reads the WIT files of a folder.
    pub(super) fn of(path: &str) -> Self {
        let mut resolve = Resolve::default();
        let (package, _) = resolve
            .push_path(tree::root().join(path))
            .unwrap_or_else(|e| panic!("{path}: {e:#}"));
        Self { resolve, package }
    }

    /// Returns the version of the package.
    pub(super) fn version(&self) -> semver::Version {
        let name = &self.resolve.packages[self.package].name;
        name.version.clone().expect("the package has a version")
    }

    fn interfaces(&self) -> BTreeMap<&str, (InterfaceId, &Interface)> {
        let named = self.resolve.packages[self.package].interfaces.iter();
        let named = named.map(|(name, id)| (name.as_str(), (*id, &self.resolve.interfaces[*id])));
        named.collect()
    }

    /// Returns all imports and exports, by world, side (`imports` or `exports`) and name.
    fn places(&self) -> BTreeMap<(String, &'static str, String), &WorldItem> {
        let worlds = self.resolve.packages[self.package].worlds.values();
        let worlds = worlds.map(|id| &self.resolve.worlds[*id]);
        let items = worlds.flat_map(|world| {
            let imports = world.imports.iter().map(|item| ("imports", item));
            let exports = world.exports.iter().map(|item| ("exports", item));
            imports.chain(exports).map(|(side, (key, item))| {
                let name = match item {
                    WorldItem::Interface { id, .. } => self.interface_name(*id),
                    _ => self.resolve.name_world_key(key),
                };
                ((world.name.clone(), side, name), item)
            })
        });
        items.collect()
    }

    /// Whether a world exports the interface, so that components implement it and not the host.
    fn is_exported(&self, interface: &str) -> bool {
        let mut places = self.places().into_keys();
        places.any(|(_, side, name)| side == "exports" && name == interface)
    }

    fn interface_name(&self, id: InterfaceId) -> String {
        self.resolve.interfaces[id].name.clone().unwrap_or_default()
    }

    /// Returns text for a type that is equal for equal types. Aliases are resolved.
    fn name_of(&self, ty: &Type) -> String {
        let Type::Id(id) = ty else {
            return format!("{ty:?}").to_lowercase();
        };
        let def = &self.resolve.types[*id];
        match (&def.kind, &def.name, def.owner) {
            (TypeDefKind::Type(other), ..) => self.name_of(other),
            (_, Some(name), TypeOwner::Interface(owner)) => {
                format!("{}.{name}", self.interface_name(owner))
            }
            (_, Some(name), _) => name.clone(),
            (kind, None, _) => self.shape(kind),
        }
    }

    /// Returns the types that an interface defines itself, without those from `use`.
    fn types<'a>(&'a self, interface: &'a Interface) -> BTreeMap<&'a str, &'a TypeDefKind> {
        let is_own = |id: &TypeId| {
            let def = &self.resolve.types[*id];
            match def.kind {
                TypeDefKind::Type(Type::Id(other)) => self.resolve.types[other].owner == def.owner,
                _ => true,
            }
        };
        let own = interface.types.iter().filter(|(_, id)| is_own(id));
        own.map(|(name, id)| (name.as_str(), &self.resolve.types[*id].kind))
            .collect()
    }

    fn optional(&self, ty: Option<&Type>) -> String {
        ty.map_or("_".to_owned(), |ty| self.name_of(ty))
    }

    /// Returns text for the structure of a type without named parts.
    fn shape(&self, kind: &TypeDefKind) -> String {
        match kind {
            TypeDefKind::Type(ty) => self.name_of(ty),
            TypeDefKind::List(ty) => format!("list<{}>", self.name_of(ty)),
            TypeDefKind::Option(ty) => format!("option<{}>", self.name_of(ty)),
            TypeDefKind::Result(result) => format!(
                "result<{}, {}>",
                self.optional(result.ok.as_ref()),
                self.optional(result.err.as_ref())
            ),
            TypeDefKind::Tuple(tuple) => {
                let types: Vec<String> = tuple.types.iter().map(|ty| self.name_of(ty)).collect();
                format!("tuple<{}>", types.join(", "))
            }
            TypeDefKind::Handle(handle) => match handle {
                wit_parser::Handle::Own(id) => self.name_of(&Type::Id(*id)),
                wit_parser::Handle::Borrow(id) => {
                    format!("borrow<{}>", self.name_of(&Type::Id(*id)))
                }
            },
            TypeDefKind::Future(ty) => format!("future<{}>", self.optional(ty.as_ref())),
            TypeDefKind::Stream(ty) => format!("stream<{}>", self.optional(ty.as_ref())),
            other => format!("{other:?}"),
        }
    }

    /// Returns the parts of a type with their types, the word for a part, and the rule for changes.
    fn parts(&self, kind: &TypeDefKind) -> (Vec<(String, String)>, &'static str, &'static str) {
        match kind {
            TypeDefKind::Record(record) => {
                let field =
                    |field: &wit_parser::Field| (field.name.clone(), self.name_of(&field.ty));
                (record.fields.iter().map(field).collect(), "field", FIELDS)
            }
            TypeDefKind::Variant(variant) => {
                let case =
                    |case: &wit_parser::Case| (case.name.clone(), self.optional(case.ty.as_ref()));
                (variant.cases.iter().map(case).collect(), "case", CASES)
            }
            TypeDefKind::Enum(cases) => {
                let case = |case: &wit_parser::EnumCase| (case.name.clone(), String::new());
                (cases.cases.iter().map(case).collect(), "case", CASES)
            }
            TypeDefKind::Flags(flags) => {
                let flag = |flag: &wit_parser::Flag| (flag.name.clone(), String::new());
                (flags.flags.iter().map(flag).collect(), "flag", CASES)
            }
            _ => (Vec::new(), "part", TYPES),
        }
    }

    fn signature(&self, function: &Function) -> String {
        let params = function.params.iter();
        let params: Vec<String> = params
            .map(|param| format!("{}: {}", param.name, self.name_of(&param.ty)))
            .collect();
        let is_async = if function.kind.is_async() {
            "async "
        } else {
            ""
        };
        let result = self.optional(function.result.as_ref());
        format!("{is_async}func({}) -> {result}", params.join(", "))
    }
}

/// Returns the word for a kind of type.
fn word(kind: &TypeDefKind) -> &'static str {
    match kind {
        TypeDefKind::Record(_) => "record",
        TypeDefKind::Variant(_) => "variant",
        TypeDefKind::Enum(_) => "enum",
        TypeDefKind::Flags(_) => "flags",
        TypeDefKind::Resource => "resource",
        _ => "type",
    }
}

/// Returns all differences, except in docs and layout.
fn changes(old: &Contract, new: &Contract) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |item: String, what: String, needs, rule| {
        changes.push(Change {
            item,
            what,
            needs,
            rule,
        });
    };
    let gone = || GONE.to_owned();
    let added = || "is new".to_owned();
    let (were, are) = (old.interfaces(), new.interfaces());
    for name in are.keys().filter(|name| !were.contains_key(*name)) {
        add(format!("interface `{name}`"), added(), Needs::Patch, GROWTH);
    }
    for (name, (_, was)) in &were {
        let Some((_, is)) = are.get(name) else {
            add(
                format!("interface `{name}`"),
                gone(),
                Needs::Version,
                PLACES,
            );
            continue;
        };
        for (item, what, needs, rule) in types(old, new, name, was, is) {
            add(item, what, needs, rule);
        }
        for (function, was) in &was.functions {
            let item = format!("function `{name}.{function}`");
            match is.functions.get(function) {
                None => add(item, gone(), Needs::Version, SIGNATURES),
                Some(is) => {
                    let (was, is) = (old.signature(was), new.signature(is));
                    if was != is {
                        let what = format!("was `{was}` and is `{is}`");
                        add(item, what, Needs::Version, SIGNATURES);
                    }
                }
            }
        }
        for function in is
            .functions
            .keys()
            .filter(|f| !was.functions.contains_key(*f))
        {
            let item = format!("function `{name}.{function}`");
            if old.is_exported(name) || new.is_exported(name) {
                add(item, added(), Needs::Version, GUESTS);
            } else {
                add(item, added(), Needs::Patch, GROWTH);
            }
        }
    }
    let (were, are) = (old.places(), new.places());
    for (world, side, name) in were.keys().filter(|place| !are.contains_key(*place)) {
        let what = format!("no longer {side} `{name}`");
        add(format!("world `{world}`"), what, Needs::Version, PLACES);
    }
    for (world, side, name) in are.keys().filter(|place| !were.contains_key(*place)) {
        let is_known = old.interfaces().contains_key(name.as_str());
        let needs = if is_known && *side == "exports" {
            Needs::Version
        } else {
            Needs::Patch
        };
        let what = format!("{side} `{name}` besides");
        add(
            format!("world `{world}`"),
            what,
            needs,
            if needs == Needs::Patch {
                GROWTH
            } else {
                PLACES
            },
        );
    }
    changes
}

type Difference = (String, String, Needs, &'static str);

/// Returns the differences between the types of one interface.
fn types(
    old: &Contract,
    new: &Contract,
    name: &str,
    was: &Interface,
    is: &Interface,
) -> Vec<Difference> {
    let mut found = Vec::new();
    let (were, are) = (old.types(was), new.types(is));
    for (ty, was) in &were {
        let item = format!("{} `{name}.{ty}`", word(was));
        let Some(is) = are.get(ty) else {
            found.push((item, GONE.to_owned(), Needs::Version, TYPES));
            continue;
        };
        if word(was) != word(is) {
            let what = format!("is a {} now", word(is));
            found.push((item, what, Needs::Version, TYPES));
            continue;
        }
        if word(was) == "type" {
            let (was, is) = (old.shape(was), new.shape(is));
            if was != is {
                let what = format!("was `{was}` and is `{is}`");
                found.push((item, what, Needs::Version, TYPES));
            }
            continue;
        }
        let ((were, part, rule), (are, ..)) = (old.parts(was), new.parts(is));
        for what in parts(&were, &are, part) {
            found.push((item.clone(), what, Needs::Version, rule));
        }
    }
    // No built component uses a new type. Functions that use it are compared separately.
    for ty in are.keys().filter(|ty| !were.contains_key(*ty)) {
        let item = format!("type `{name}.{ty}`");
        found.push((item, "is new".to_owned(), Needs::Patch, GROWTH));
    }
    found
}

fn parts(were: &[(String, String)], are: &[(String, String)], part: &str) -> Vec<String> {
    let find = |all: &[(String, String)], name: &str| {
        all.iter()
            .find(|(other, _)| other == name)
            .map(|(_, ty)| ty.clone())
    };
    let mut found = Vec::new();
    for (name, was) in were {
        match find(are, name) {
            None => found.push(format!("{part} `{name}` is gone")),
            Some(is) if is != *was => {
                found.push(format!("{part} `{name}` was `{was}` and is `{is}`"));
            }
            Some(_) => {}
        }
    }
    let new = are.iter().filter(|(name, _)| find(were, name).is_none());
    found.extend(new.map(|(name, _)| format!("{part} `{name}` is new")));
    let names =
        |all: &[(String, String)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if found.is_empty() && names(were) != names(are) {
        found.push(format!("the order of its {part}s is another"));
    }
    found
}

/// Whether a host of `new` links components built against `old`, by compatible versions.
fn is_same_line(old: &semver::Version, new: &semver::Version) -> bool {
    old.major == new.major && (old.major > 0 || old.minor == new.minor)
}

/// Returns the changes for which the version of `new` is not enough.
pub(super) fn check(old: &Contract, new: &Contract) -> Vec<String> {
    let (was, is) = (old.version(), new.version());
    if is < was {
        return vec![format!(
            "wit/ has version {is}, older than its last snapshot {was}"
        )];
    }
    let is_enough = |needs: Needs| match needs {
        Needs::Patch => is > was,
        Needs::Version => !is_same_line(&was, &is),
    };
    let next = |needs: Needs| match (needs, was.major) {
        (Needs::Patch, major) => format!("{major}.{}.{}", was.minor, was.patch + 1),
        (Needs::Version, 0) => format!("0.{}.0", was.minor + 1),
        (Needs::Version, major) => format!("{}.0.0", major + 1),
    };
    let changes = changes(old, new);
    let missing = changes.iter().filter(|change| !is_enough(change.needs));
    missing
        .map(|change| {
            format!(
                "{} {}: {}; give the package version {} (wit/README.md, \"Versions\")",
                change.item,
                change.what,
                change.rule,
                next(change.needs)
            )
        })
        .collect()
}

/// Returns the parts that `new` adds to interfaces of `old`, and the interfaces that it adds.
pub(super) fn additions(old: &Contract, new: &Contract) -> Vec<String> {
    let changes = changes(old, new).into_iter();
    let is_part = |change: &Change| change.what != GONE && !change.item.starts_with("world");
    let parts = changes.filter(is_part);
    parts
        .map(|change| format!("{} {}", change.item, change.what))
        .collect()
}

/// Returns the versions that the table of `wit/README.md` lists.
pub(super) fn listed(readme: &str) -> Vec<semver::Version> {
    let table = readme.split("<!-- versions -->").nth(1).unwrap_or_default();
    let table = table.split("<!-- /versions -->").next().unwrap_or_default();
    let first = |line: &str| {
        let cell = line.trim_start_matches("| ").split(' ').next()?;
        cell.parse().ok()
    };
    table.lines().filter_map(first).collect()
}

/// Returns the versions that have a snapshot, oldest first.
pub(super) fn versions() -> Vec<semver::Version> {
    let mut versions: Vec<semver::Version> = tree::folders(FOLDER)
        .iter()
        .map(|name| semver::Version::parse(name).unwrap_or_else(|e| panic!("{FOLDER}/{name}: {e}")))
        .collect();
    versions.sort();
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contract with one interface that the host offers, one that components export, and one of types.
    const OLD: &str = "package a:b@0.1.0;
interface data {
  record r { a: u8, b: string }
  enum e { x, y }
  variant v { n, s(string) }
  flags f { p, q }
  type t = list<r>;
  resource h { len: func() -> u32; }
}
interface offered {
  use data.{r};
  get: func(key: string) -> option<r>;
}
interface exported {
  use data.{r};
  run: func(payload: r) -> result<u8, string>;
}
world imports { import data; import offered; }
world hooks { export exported; }
";

    fn contract(text: &str) -> Contract {
        let mut resolve = Resolve::default();
        let package = resolve
            .push_str("a.wit", text)
            .unwrap_or_else(|e| panic!("{text}: {e:#}"));
        Contract { resolve, package }
    }

    /// Returns the findings for [`OLD`] with `from` replaced by `to` and the same version.
    fn found(from: &str, to: &str) -> Vec<String> {
        assert!(OLD.contains(from), "{from}");
        check(&contract(OLD), &contract(&OLD.replacen(from, to, 1)))
    }

    #[test]
    fn words_and_layout_are_free() {
        let none: Vec<String> = Vec::new();
        assert_eq!(
            found(
                "interface data {",
                "/// Words.\ninterface data {\n  /// More.\n"
            ),
            none
        );
        assert_eq!(found("interface exported", "interface exported"), none);
    }

    #[test]
    fn what_adds_to_the_hosts_side_needs_the_next_patch_number_only() {
        let table = [
            (
                "world imports {",
                "interface more { f: func(); }\nworld imports { import more;",
                "interface `more` is new",
            ),
            (
                "world hooks {",
                "interface point { run: func(); }\nworld hooks { export point;",
                "world `hooks` exports `point` besides",
            ),
            (
                "get: func",
                "put: func(r: r);\n  get: func",
                "function `offered.put` is new",
            ),
            (
                "len: func",
                "at: func(i: u32) -> r; len: func",
                "function `data.[method]h.at` is new",
            ),
            (
                "enum e",
                "record added { a: u8 }\n  enum e",
                "type `data.added` is new",
            ),
        ];
        for (from, to, what) in table {
            let findings = found(from, to);
            let finding = findings.iter().find(|finding| finding.starts_with(what));
            let finding = finding.unwrap_or_else(|| panic!("{what}: {findings:?}"));
            assert!(finding.contains("version 0.1.1 "), "{finding}");
            let text = OLD.replacen(from, to, 1).replace("@0.1.0", "@0.1.1");
            assert_eq!(
                check(&contract(OLD), &contract(&text)),
                Vec::<String>::new(),
                "{to}"
            );
        }
    }

    #[test]
    fn everything_else_needs_a_version_of_its_own_and_is_named_with_its_rule() {
        let table = [
            (
                "a: u8, b: string }",
                "a: u8, b: string, c: u8 }",
                "record `data.r` field `c` is new",
                FIELDS,
            ),
            (
                "a: u8, b: string }",
                "a: u8 }",
                "record `data.r` field `b` is gone",
                FIELDS,
            ),
            (
                "a: u8, b: string }",
                "a: u16, b: string }",
                "record `data.r` field `a` was `u8` and is `u16`",
                FIELDS,
            ),
            (
                "a: u8, b: string }",
                "b: string, a: u8 }",
                "record `data.r` the order of its fields is another",
                FIELDS,
            ),
            (
                "enum e { x, y }",
                "enum e { x, y, z }",
                "enum `data.e` case `z` is new",
                CASES,
            ),
            (
                "enum e { x, y }",
                "enum e { x }",
                "enum `data.e` case `y` is gone",
                CASES,
            ),
            (
                "s(string)",
                "s(u8)",
                "variant `data.v` case `s` was `string` and is `u8`",
                CASES,
            ),
            (
                "n, s(string)",
                "n, s(string), o",
                "variant `data.v` case `o` is new",
                CASES,
            ),
            (
                "flags f { p, q }",
                "flags f { p, q, s }",
                "flags `data.f` flag `s` is new",
                CASES,
            ),
            (
                "enum e { x, y }",
                "variant e { x, y }",
                "enum `data.e` is a variant now",
                TYPES,
            ),
            (
                "type t = list<r>",
                "type t = r",
                "type `data.t` was `list<data.r>` and is `data.r`",
                TYPES,
            ),
            ("  enum e { x, y }\n", "", "enum `data.e` is gone", TYPES),
            (
                "get: func(key: string)",
                "get: func(name: string)",
                "function `offered.get` was `func(key: string)",
                SIGNATURES,
            ),
            (
                "option<r>",
                "option<string>",
                "function `offered.get` was `func(key: string) -> option<data.r>` and is",
                SIGNATURES,
            ),
            (
                "  get: func(key: string) -> option<r>;\n",
                "",
                "function `offered.get` is gone",
                SIGNATURES,
            ),
            (
                "len: func() -> u32;",
                "",
                "function `data.[method]h.len` is gone",
                SIGNATURES,
            ),
            (
                "run: func",
                "stop: func();\n  run: func",
                "function `exported.stop` is new",
                GUESTS,
            ),
            (
                " import offered;",
                "",
                "world `imports` no longer imports `offered`",
                PLACES,
            ),
            (
                "export exported;",
                "export exported; export offered;",
                "world `hooks` exports `offered` besides",
                PLACES,
            ),
        ];
        for (from, to, what, rule) in table {
            let findings = found(from, to);
            let finding = findings.iter().find(|finding| finding.starts_with(what));
            let finding = finding.unwrap_or_else(|| panic!("{what}: {findings:?}"));
            assert!(finding.contains(rule), "{finding}");
            assert!(finding.contains("version 0.2.0 "), "{finding}");
            // The next patch number is not enough: the engine treats it as compatible.
            let text = OLD.replacen(from, to, 1);
            let patch = check(&contract(OLD), &contract(&text.replace("@0.1.0", "@0.1.1")));
            assert!(
                patch.iter().any(|finding| finding.starts_with(what)),
                "{patch:?}"
            );
            let version = check(&contract(OLD), &contract(&text.replace("@0.1.0", "@0.2.0")));
            assert_eq!(version, Vec::<String>::new(), "{to}");
        }
        let older = check(&contract(&OLD.replace("@0.1.0", "@0.3.0")), &contract(OLD));
        assert!(
            older[0].contains("older than its last snapshot"),
            "{older:?}"
        );
    }
}
