//! Tests of the shape of the code: dependencies between modules, names that only some files may
//! use, sizes, docs, and generated tables.
//!
//! Each check is a function from text to findings, with tests of its own on small bad inputs beside it; the tests here run
//! them over the tree.

mod additions;
mod advisories;
mod allowed_names;
mod arrows;
mod circles;
mod crates;
mod depends;
mod docs;
mod events;
mod hooks;
mod imports;
mod links;
mod numbers;
mod points;
mod ratios;
pub(crate) mod reach;
mod reference;
mod regressions;
mod released;
mod sdks;
mod shape;
mod table;
mod tree;
mod wit;
mod words;
mod world;

use std::collections::BTreeSet;

use tree::{HOST, folders, read, sources};

/// Fails with one line for each finding.
fn none(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn modules_of_the_host_name_only_layers_below_their_own() {
    let layers = arrows::Layers::parse(&read("host/src/lib.rs"));
    let mut arrows = Vec::new();
    for source in sources(&["host/src"], &["rs"]) {
        arrows.extend(arrows::of(&source, &layers));
    }
    none(arrows::check(&arrows, &layers));
}

#[test]
fn every_module_of_the_host_stands_in_a_layer() {
    let layers = arrows::Layers::parse(&read("host/src/lib.rs"));
    let modules: BTreeSet<String> = sources(&["host/src"], &["rs"])
        .iter()
        .filter_map(|source| arrows::module_of(&source.path))
        .collect();
    let listed: BTreeSet<String> = layers.modules().map(str::to_owned).collect();
    assert_eq!(modules, listed);
}

#[test]
fn the_files_of_the_agent_import_each_other_in_no_circle() {
    none(circles::check(
        "host/src/agent",
        &sources(&["host/src/agent"], &["rs"]),
    ));
}

#[test]
fn no_type_is_scattered_over_more_than_five_files() {
    let library = folders("host/src").into_iter();
    let crates = folders("host/crates").into_iter();
    let library = library.map(|name| format!("host/src/{name}"));
    let crates = crates.map(|name| format!("host/crates/{name}/src"));
    for folder in library.chain(crates) {
        let mut sources = sources(&[&folder], &["rs"]);
        sources.retain(|source| !source.path.contains("/tests"));
        none(circles::scattered(&folder, &sources, 5));
    }
}

#[test]
fn crates_of_the_host_depend_only_on_those_below_them() {
    none(crates::check(&crates::manifests()));
}

#[test]
fn the_map_of_the_host_names_every_module_and_every_crate() {
    let map = read(additions::FILE);
    let has_no_row = |name: &&str| !map.contains(&format!("`{name}`"));
    assert_eq!(crates::names().find(has_no_row), None);
    let layers = arrows::Layers::parse(&read("host/src/lib.rs"));
    let is_missing = |module: &&str| !map.contains(&format!("`{module}`"));
    assert_eq!(layers.modules().find(is_missing), None);
}

#[test]
fn only_those_modules_that_should_reach_the_sandbox_processes_terminal_and_environment() {
    let [library, crates] = HOST;
    let sources = sources(&[library, crates, "sdk", "plugins"], &["rs"]);
    none(sources.iter().flat_map(allowed_names::check).collect());
}

#[test]
fn comments_and_names_keep_the_ratios_of_readable_projects() {
    let [library, crates] = HOST;
    let mut sources = sources(&[library, crates, "sdk/rust", "plugins"], &["rs"]);
    let is_test = |part: &str| matches!(part, "test" | "test.rs" | "tests" | "tests.rs");
    sources.retain(|source| !source.path.split('/').any(is_test));
    none(ratios::Ratios::of(&sources).beyond());
}

#[test]
fn no_dependency_has_a_known_advisory_that_could_be_reached() {
    let root = rind_tests::guests::workspace();
    none(advisories::check(
        &read(".ci/advisories.toml"),
        &read("Cargo.lock"),
        |path| root.join(path).is_file(),
    ));
}

#[test]
fn every_number_of_the_settings_has_bounds() {
    let sources = sources(&HOST, &["rs"]);
    none(sources.iter().flat_map(numbers::check).collect());
}

#[test]
fn a_library_build_has_nothing_of_the_command_line() {
    let tree = depends::tree(&["-p", "rind", "--no-default-features"]);
    none(depends::check_library(&tree));
}

#[test]
fn a_program_that_embeds_the_host_depends_on_two_crates_of_it() {
    let direct = ["-p", "rind", "--no-default-features", "--depth", "1"];
    let tree = depends::tree_of("normal", &direct);
    let names: Vec<&str> = tree
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, ["rind", "rind-author", "rind-lib"]);
}

#[test]
fn the_program_alone_and_with_the_tests_is_built_of_the_same_builds() {
    let alone = depends::tree(&["-p", "rind"]);
    none(depends::check_shared(&alone, &depends::tree(&[])));
    none(depends::check_once(&depends::planned_builds()));
}

#[test]
fn no_source_file_is_too_long() {
    let sources = sources(&["host", "sdk", "plugins"], &["rs", "py", "js"]);
    none(sources.iter().filter_map(shape::check_size).collect());
}

#[test]
fn every_module_says_what_it_is_for() {
    let sources = sources(&["host", "sdk", "plugins", "tests"], &["rs"]);
    none(sources.iter().filter_map(docs::check_module).collect());
}

#[test]
fn docs_begin_with_a_verb_or_a_noun_and_texts_are_in_plain_words() {
    let folders = ["host", "sdk", "plugins", "tests", "wit"];
    let sources = sources(&folders, &["rs", "wit", "md"]);
    let written = sources
        .iter()
        .filter(|source| !source.path.starts_with("wit/released/"));
    none(written.flat_map(docs::check_words).collect());
}

#[test]
fn everything_in_the_contract_has_a_doc() {
    let sources = sources(&["wit"], &["wit"]);
    let sources = sources
        .iter()
        .filter(|source| !source.path.starts_with("wit/deps/"));
    let check = |source| [wit::check(source), wit::check_labels(source)].concat();
    none(sources.flat_map(check).collect());
}

#[test]
fn the_contract_changes_only_as_its_version_allows() {
    let last = released::versions()
        .pop()
        .expect("a version has a snapshot");
    let path = format!("{}/{last}", released::FOLDER);
    let (snapshot, now) = (released::Contract::of(&path), released::Contract::of("wit"));
    let mut findings = released::check(&snapshot, &now);
    let row = format!("| {last} | final, not published");
    if !findings.is_empty() && read("wit/README.md").contains(&row) {
        findings.push(format!(
            "{last} is not published: until it is, `rm {path}/* && cp wit/*.wit {path}/` takes its snapshot again"
        ));
    }
    none(findings);
}

#[test]
fn every_version_of_the_contract_has_a_snapshot_a_row_a_component_and_is_supported() {
    let readme = read("wit/README.md");
    let versions = released::versions();
    assert_eq!(
        released::listed(&readme),
        versions,
        "the table of wit/README.md"
    );
    for version in versions {
        let path = format!("{}/{version}", released::FOLDER);
        assert_eq!(released::Contract::of(&path).version(), version, "{path}");
        let component = format!("tests/evolution/contract-{version}.wasm");
        assert!(
            tree::root().join(&component).is_file(),
            "{component} is missing"
        );
        assert!(
            rind::plugin::contract::is_supported_contract_version(&version),
            "{version}"
        );
    }
}

#[test]
fn the_version_of_the_evolution_test_adds_one_of_each_kind() {
    let (now, next) = ("wit", "tests/evolution/next.wit");
    let [now, next] = [now, next].map(released::Contract::of);
    let expected = [
        "interface `turn-done` is new",
        "record `outcomes.output-outcome` field `notice` is new",
        "enum `payloads.stop-reason` case `worked` is new",
        "record `payloads.turn-summary` field `calls-per-step` is new",
        "function `state.count` is new",
    ];
    assert_eq!(released::additions(&now, &next), expected);
}

#[test]
fn the_readme_of_the_sdk_and_its_examples_have_every_hook() {
    hooks::table().settle();
    let missing = hooks::without_example(&read(hooks::EXAMPLES));
    assert!(missing.is_empty(), "{}: {missing:?}", hooks::EXAMPLES);
}

#[test]
fn the_tables_in_the_docs_and_the_worlds_are_those_of_the_host() {
    for part in world::parts() {
        part.settle("wit/world.wit");
    }
    points::table().settle();
    imports::table().settle();
    events::table().settle();
    allowed_names::table().settle();
    for part in additions::parts() {
        part.settle(additions::FILE);
    }
}

#[test]
fn the_reference_of_the_manual_is_that_of_the_code() {
    for page in reference::pages() {
        page.settle();
    }
    none(reference::missing());
}

#[test]
fn the_manual_is_an_index_and_short_pages_with_headings() {
    none(shape::check_manual(&tree::sources(&["host"], &["md"])));
}

#[test]
fn the_front_page_is_short_and_its_links_lead_somewhere() {
    none(
        shape::check_front_page(&read("README.md"))
            .into_iter()
            .collect(),
    );
    let pages = tree::all();
    let pages = pages.iter().filter(|source| source.path.ends_with(".md"));
    none(pages.flat_map(links::check).collect());
}

#[test]
fn the_tree_says_nothing_of_how_it_is_made_nor_where() {
    none(tree::all().iter().flat_map(words::check).collect());
}

#[test]
fn every_plugin_is_a_manifest_a_short_readme_and_a_source() {
    let folders = tree::folders("plugins");
    assert!(!folders.is_empty());
    let findings = folders
        .iter()
        .flat_map(|name| shape::check_plugin(&tree::root().join("plugins").join(name)));
    none(findings.collect());
}

#[test]
fn every_case_that_broke_once_names_the_test_that_holds_it() {
    let [library, crates] = HOST;
    let folders = [
        "tests/it",
        "tests/hostile",
        library,
        crates,
        "plugins",
        "sdk",
    ];
    let code = sources(&folders, &["rs"]);
    let tables = sources(&["tests/regressions"], &["toml"]);
    let check = |table| regressions::check(table, &code);
    none(tables.iter().flat_map(check).collect());
}
