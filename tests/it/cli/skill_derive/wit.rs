//! Skills of WIT packages and components.

use std::fs;

use insta::assert_snapshot;
use rind_tests::cli::Rind;

use super::{derive, repository, shown};

const WIT: &str = "/// Small things.\npackage acme:store@0.2.0;\n\n/// Keeps values by key.\n///\n/// Nothing is ever lost.\ninterface \
                   keep {\n  use types.{failure};\n\n  /// A place for values.\n  resource place {\n    /// Opens a place.\n    \
                   constructor(name: string);\n    /// Reads a value.\n    get: func(key: string) -> result<option<list<u8>>, \
                   failure>;\n  }\n\n  /// Counts all places.\n  count: func() -> u32;\n}\n\ninterface types {\n  /// Reasons of \
                   a failure.\n  variant failure {\n    /// No value of this name.\n    missing(string),\n    full,\n  }\n}\n\n/// A \
                   store.\nworld store {\n  import types;\n  export keep;\n}\n";

#[test]
fn a_wit_package_becomes_a_skill_of_its_worlds_and_interfaces() {
    let rind = Rind::default();
    rind.file("wit/store.wit", WIT);
    let folder = derive(&rind, "wit");
    assert_snapshot!(shown(&folder), @r#"
    ==> SKILL.md
    ---
    skill_format: corteza.skill/v1
    name: acme-store
    description: "Small things. Use when writing a component or host that imports or exports acme:store, or when reading its types."
    generated_from:
      package: "acme:store"
      version: "0.2.0"
      source_hash: [DIGEST]
    metadata:
      bundle_hash: [DIGEST]
    ---

    # WIT package acme:store 0.2.0

    Small things.

    ## Worlds

    - `store` (1 import, 1 export): A store.

    What each imports and exports: [references/worlds.md](references/worlds.md).

    ## Interfaces

    The functions and types of each interface, with their docs, are in its file.

    - [keep](references/keep.md): Keeps values by key. (function count; resource place)
    - [types](references/types.md) (1 type)

    ==> references/keep.md
    # Interface `keep`

    Keeps values by key.

    Nothing is ever lost.

    From `types`: `failure`.

    ## Functions

    ### `count`

    Counts all places.

    ```wit
    count: func() -> u32;
    ```

    ## Types

    ### `place`

    A place for values.

    ```wit
    resource place {
        /// Opens a place.
        constructor(name: string);
        /// Reads a value.
        get: func(key: string) -> result<option<list<u8>>, failure>;
    }
    ```

    ==> references/types.md
    # Interface `types`

    ## Types

    ### `failure`

    Reasons of a failure.

    ```wit
    variant failure {
        /// No value of this name.
        missing(string),
        full,
    }
    ```

    ==> references/worlds.md
    # Worlds of acme:store

    ## `store`

    A store.

    Imports:

    - `types`

    Exports:

    - `keep`
    "#);
    let checked = rind
        .run(&["skill", "check", "./skills/acme-store"])
        .exits(0);
    assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
    // The WIT contract of this repository, which uses every feature of WIT.
    let folder = derive(&rind, &repository("wit"));
    assert!(fs::read_dir(folder.join("references")).unwrap().count() > 50);
    let checked = rind
        .run(&["skill", "check", "./skills/rind-plugin"])
        .exits(0);
    assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
}

#[test]
fn a_component_that_is_no_plugin_is_explained_by_its_exports() {
    let rind = Rind::default();
    let text = "(component
      (import \"acme:store/keep@0.1.0\" (instance $keep (export \"count\" (func (param \"of\" string) (result u32)))))
      (export \"acme:store/again@0.1.0\" (instance $keep)))";
    let bytes = wat::parse_str(text).unwrap();
    fs::write(rind.workspace().join("Again Store.wasm"), bytes).unwrap();
    let folder = derive(&rind, "Again Store.wasm");
    assert_eq!(folder, rind.workspace().join("skills/again-store"));
    let skill = fs::read_to_string(folder.join("SKILL.md")).unwrap();
    assert!(skill.contains("# Component Again Store\n"), "{skill}");
    assert!(
        skill.contains(
            "- [acme:store/again@0.1.0](references/acme-store-again-0-1-0.md) (function count)"
        ),
        "{skill}"
    );
    let checked = rind
        .run(&["skill", "check", "./skills/again-store"])
        .exits(0);
    assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
}
