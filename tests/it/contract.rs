//! The contract in `wit/` and the host's catalog of points list the same points.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rind::point::catalog::CATALOG;
use rind::point::dispatch::ExtensionPointKind;

fn wit() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../wit")
}

fn interface(name: &str) -> String {
    std::fs::read_to_string(wit().join(format!("{name}.wit")))
        .unwrap_or_else(|e| panic!("wit/{name}.wit: {e}"))
}

/// Returns the names that the world `world` lists after `keyword`.
fn world(world: &str, keyword: &str) -> Vec<String> {
    let text = interface("world");
    let body = text
        .split(&format!("world {world} {{"))
        .nth(1)
        .unwrap()
        .split('}')
        .next()
        .unwrap();
    let lines = body
        .lines()
        .filter_map(|line| line.trim().strip_prefix(keyword)?.strip_suffix(';'));
    lines.map(|name| name.trim().to_owned()).collect()
}

#[test]
fn every_interface_file_is_a_point_or_stands_in_a_world() {
    let files: BTreeSet<String> = std::fs::read_dir(wit())
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()?
                .strip_suffix(".wit")
                .map(str::to_owned)
        })
        .filter(|name| name != "world")
        .collect();
    let mut named: BTreeSet<String> = CATALOG.iter().map(|row| row.name.to_owned()).collect();
    named.extend(world("imports", "import "));
    named.extend(world("exports", "export "));
    assert_eq!(files, named);
}

#[test]
fn every_point_is_one_interface_with_one_function_whose_outcome_fits_its_kind() {
    for row in CATALOG {
        let text = interface(row.name);
        assert!(
            text.contains(&format!("interface {} {{", row.name)),
            "{}",
            row.name
        );
        let functions: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(": func("))
            .collect();
        let [function] = functions[..] else {
            panic!("{}: {functions:?}", row.name)
        };
        let outcome = function
            .split("result<")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap();
        assert!(
            function.trim().starts_with("run: func(payload: "),
            "{}",
            row.name
        );
        assert!(function.ends_with(", error>;"), "{}", row.name);
        assert_eq!(
            outcome == "observed",
            row.kind == ExtensionPointKind::Observe,
            "{}: only observe points return `observed`",
            row.name
        );
        assert!(
            text.contains(&format!("/// {}", kind_word(row.kind))),
            "{}: its docs say another kind",
            row.name
        );
    }
}

fn kind_word(kind: ExtensionPointKind) -> &'static str {
    match kind {
        ExtensionPointKind::Gate => "Gate:",
        ExtensionPointKind::Mutate => "Mutate:",
        ExtensionPointKind::Collect => "Collect:",
        ExtensionPointKind::Observe => "Observe:",
    }
}

#[test]
fn names_and_aliases_of_points_are_unique() {
    let mut seen = BTreeSet::new();
    for row in CATALOG {
        for name in std::iter::once(&row.name).chain(row.aliases) {
            assert!(seen.insert(*name), "{name} stands twice");
        }
    }
}

#[test]
fn no_component_of_this_repository_was_built_with_another_copy_of_the_contract() {
    let own = rind_tests::guests::CORE.into_iter();
    for name in own.chain(["every-point", "external", "viewer", "archivist", "looper"]) {
        let folder = rind_tests::guests::guest(name);
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let component = files.map(|file| file.path());
        let component = component.filter(|path| path.extension().is_some_and(|end| end == "wasm"));
        for path in component {
            let skew =
                rind::plugin::contract::skew::find_type_mismatch(&std::fs::read(&path).unwrap());
            assert!(skew.is_none(), "{}: {}", path.display(), skew.unwrap());
        }
    }
}
