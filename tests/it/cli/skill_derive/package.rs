//! Skills of Rust crates.

use std::fs;

use insta::assert_snapshot;
use rind_tests::cli::Rind;

use super::{crate_of, derive, shown};

#[test]
fn a_crate_shows_what_others_can_name_and_nothing_else() {
    let rind = Rind::default();
    crate_of(
        &rind,
        "small",
        &[
            (
                "src/lib.rs",
                "//! Small things.\n//!\n//! ```\n//! # use small::go;\n//! go(1);\n//! ```\nmod inner;\nmod hidden { pub struct \
                 Never; }\npub mod open;\npub use inner::{Thing, deep::*};\npub use std::fmt::Debug as Shown;\n/// Goes.\npub fn \
                 go(n: u32) -> u32 { n }\nfn own() {}\n#[doc(hidden)]\npub fn secret() {}\n#[cfg(test)]\npub mod \
                 tests;\n#[macro_export]\nmacro_rules! twice { () => {} }\npub(crate) struct Not;\nmake_more!();\n",
            ),
            (
                "src/inner.rs",
                "pub mod deep;\n/// A thing.\n#[derive(Debug)]\npub struct Thing {\n    /// Shown.\n    pub a: u32,\n    b: \
                 u32,\n}\nimpl Thing {\n    /// Makes one.\n    pub fn new() -> Self { Self { a: 1, b: 2 } }\n    fn own(&self) \
                 {}\n}\nimpl Clone for Thing { fn clone(&self) -> Self { Self::new() } }\n",
            ),
            (
                "src/inner/deep.rs",
                "/// How far.\npub enum Depth { /// Not far.\n Shallow, Deep(u32) }\n",
            ),
            (
                "src/open/mod.rs",
                "//! Open to all.\npub use crate::go;\n#[cfg(feature = \"more\")]\npub const MORE: u32 = 4;\n",
            ),
            ("examples/one.rs", "//! Shows one thing.\nfn main() {}\n"),
            (
                "build.rs",
                "fn main() { std::fs::write(\"ran\", \"\").unwrap(); }\n",
            ),
        ],
    );
    rind.file(
        "small/Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"1.2.3\"\ndescription = \"Does small things\"\n[features]\ndefault = \
         [\"more\"]\nmore = [\"dep:x\"]\n",
    );
    let folder = derive(&rind, "small");
    assert_snapshot!(shown(&folder), @r#"
    ==> SKILL.md
    ---
    skill_format: corteza.skill/v1
    name: small
    description: Does small things. Use when writing or reading Rust code that uses the crate small.
    generated_from:
      package: small
      version: "1.2.3"
      source_hash: [DIGEST]
    metadata:
      bundle_hash: [DIGEST]
    ---

    # Crate small 1.2.3

    Small things.

    ## Features

    - `default`: on by default; turns on `more`
    - `more`: turns on `dep:x`

    ## Example

    ```rust
    go(1);
    ```

    ## Modules

    Signatures and docs are in the file of each.

    - [small](references/crate.md): the root of the crate (`go`, `twice`, `Thing`, `Depth`; from `std::fmt`: `Debug as Shown`)
    - [small::open](references/open.md): Open to all (`MORE`)

    ## Examples in its source

    In its folder `examples`:

    - `one.rs`: Shows one thing.

    ==> references/crate.md
    # `small`

    Small things.

    ```rust
    go(1);
    ```

    ## Functions

    ### `go`

    ```rust
    pub fn go(n: u32) -> u32;
    ```

    Goes.

    ## Macros

    ### `twice`

    ```rust
    macro_rules! twice
    ```

    ## Structs

    ### `Thing`

    ```rust
    pub struct Thing {
        /// Shown.
        pub a: u32,
        /* private fields */
    }
    ```

    A thing.

    Implements: `Clone`, `Debug`.

    #### `new`

    ```rust
    pub fn new() -> Self;
    ```

    Makes one.

    ## Enums

    ### `Depth`

    ```rust
    pub enum Depth {
        /// Not far.
        Shallow,
        Deep(u32),
    }
    ```

    How far.

    ## Also named here

    - From `std::fmt`: `Debug as Shown`

    Items that macros make are not listed here: `make_more!`.

    ==> references/open.md
    # `small::open`

    Open to all.

    ## Constants

    ### `MORE`

    ```rust
    pub const MORE: u32 = 4;
    ```

    With the feature `more` only.

    ## Also named here

    - From `small`: `go`
    "#);
    let left: Vec<_> = fs::read_dir(rind.workspace().join("small"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 4, "nothing is built or written: {left:?}");
}

#[test]
fn modules_and_names_that_go_in_circles_are_followed_once() {
    let rind = Rind::default();
    crate_of(
        &rind,
        "circle",
        &[
            (
                "src/lib.rs",
                "pub mod a;\npub use a::*;\npub use self::a::b as again;\n",
            ),
            (
                "src/a.rs",
                "pub mod b { pub use super::*; pub use crate::*; pub use super::b::Never; }\npub use b::*;\n#[path = \"a.rs\"]\npub mod \
                          c;\npub use super::a::Never;\npub struct Once;\n",
            ),
        ],
    );
    let refused = rind
        .run(&["skill", "derive", "circle", "--into", "skills"])
        .exits(1);
    assert!(
        refused.stderr.contains("nested more than 24 deep"),
        "{}",
        refused.stderr
    );
    rind.file(
        "circle/src/a.rs",
        "pub mod b { pub use super::*; pub use crate::*; pub use super::b::Never; }\npub use b::*;\npub use super::a::Never;\npub struct Once;\n",
    );
    let folder = derive(&rind, "circle");
    let all = shown(&folder);
    assert_eq!(all.matches("### `Once`").count(), 1, "{all}");
}

#[test]
fn methods_stand_with_the_type_that_they_are_of() {
    let rind = Rind::default();
    crate_of(
        &rind,
        "same",
        &[
            (
                "src/lib.rs",
                "pub mod open;\nmod own { struct Settings; impl Settings { pub fn of_private(&self) {} } trait Hidden {} impl Hidden \
                 for crate::open::Settings {} }\nmod more { use super::open::Settings as S; impl S { pub fn by_use(&self) {} } impl \
                 crate::open::Settings { pub fn by_path(&self) {} } }\nmod all { use super::open::*; impl Settings { pub fn \
                 by_glob(&self) {} } }\nmod never { impl Nowhere { pub fn lost() {} } }\n",
            ),
            (
                "src/open.rs",
                "pub struct Settings;\n/// A function of the same name.\npub fn settings() {}\nimpl Clone for Settings { fn clone(&self) \
                 -> Self { Self } }\nimpl<T: Into<u8>> From<T> for Settings { fn from(_: T) -> Self { Self } }\n",
            ),
        ],
    );
    let ran = rind
        .run(&["skill", "derive", "same", "--into", "skills"])
        .exits(0);
    assert!(
        ran.stderr
            .contains("so their methods are left out: Nowhere"),
        "{}",
        ran.stderr
    );
    let all = shown(&rind.workspace().join("skills/same"));
    for expected in ["by_use", "by_path", "by_glob"] {
        assert!(all.contains(&format!("#### `{expected}`")), "{all}");
    }
    for absent in ["of_private", "Hidden", "lost"] {
        assert!(!all.contains(absent), "{absent}\n{all}");
    }
    assert!(
        all.contains("Implements: `Clone`, `impl<T: Into<u8>> From<T> for Settings`."),
        "{all}"
    );
}

#[test]
fn conditions_marks_and_first_lines_stay() {
    let rind = Rind::default();
    crate_of(
        &rind,
        "marks",
        &[(
            "src/lib.rs",
            "#[cfg(feature = \"net\")]\npub mod net {\n    #[cfg(unix)]\n    pub fn listen() {}\n    #[cfg(windows)]\n    pub fn \
             listen() {}\n    pub mod inner { pub fn deep() {} }\n}\n#[cfg(not(target_family = \"wasm\"))]\nmod files { pub struct \
             File; }\npub use files::File;\n#[derive(Clone, Debug)]\n#[cfg_attr(feature = \"serde\", derive(Serialize))]\n\
             #[non_exhaustive]\npub enum Kind { A, #[doc(hidden)] B, #[cfg(unix)] C }\npub struct Boxed<T>(T);\nimpl<T> Boxed<T> { pub \
             fn plain(&self) {} }\nimpl<T> Boxed<T> where T: Clone { #[must_use] pub fn copy(&self) -> T { self.0.clone() } }\n\
             #[cfg(feature = \"net\")]\nimpl Boxed<u8> { #[deprecated(note = \"use `copy`\")] pub fn byte(&self) {} }\npub trait Walk { \
             fn step(&self); fn run(&self) { self.step() } #[doc(hidden)] fn secret(&self); }\n",
        )],
    );
    let folder = derive(&rind, "marks");
    let page = |name: &str| fs::read_to_string(folder.join("references").join(name)).unwrap();
    assert_snapshot!(page("crate.md"), @r#"
    # `marks`

    ## Structs

    ### `Boxed`

    ```rust
    pub struct Boxed<T>(_);
    ```

    #### `plain`

    ```rust
    pub fn plain(&self);
    ```

    In `impl<T> Boxed<T> where T: Clone`:

    #### `copy`

    ```rust
    #[must_use]
    pub fn copy(&self) -> T;
    ```

    In `impl Boxed<u8>`:

    #### `byte`

    ```rust
    #[deprecated(note = "use `copy`")]
    pub fn byte(&self);
    ```

    With the feature `net` only.

    ### `File`

    ```rust
    pub struct File;
    ```

    With `cfg(not(target_family = "wasm"))` only.

    ## Enums

    ### `Kind`

    ```rust
    #[non_exhaustive]
    pub enum Kind {
        A,
        #[cfg(unix)]
        C,
        /* hidden variants */
    }
    ```

    Implements: `Clone`, `Debug`, `Serialize` (with `cfg(feature = "serde")`).

    ## Traits

    ### `Walk`

    ```rust
    pub trait Walk {
        fn step(&self);
        fn run(&self) { … }
    }
    ```
    "#);
    assert_snapshot!(format!("{}{}", page("net.md"), page("net-inner.md")), @r#"
    # `marks::net`

    With the feature `net` only.

    ## Functions

    ### `listen`

    ```rust
    pub fn listen();
    ```

    With `cfg(any(unix, windows))` only.
    # `marks::net::inner`

    With the feature `net` only.

    ## Functions

    ### `deep`

    ```rust
    pub fn deep();
    ```
    "#);
}

#[test]
fn a_library_has_the_name_and_path_that_its_manifest_says() {
    let rind = Rind::default();
    crate_of(
        &rind,
        "other-name",
        &[
            ("lib/start.rs", "mod part;\npub use part::a;\n"),
            ("lib/part.rs", "pub fn a() {}\n"),
        ],
    );
    rind.file(
        "other-name/Cargo.toml",
        "[package]\nname = \"other-name\"\nversion = \"1.0.0\"\n[lib]\nname = \"own\"\npath = \"./lib/start.rs\"\n",
    );
    let all = shown(&derive(&rind, "other-name"));
    for expected in [
        "- In Rust it is called `own`.",
        "- [own](references/crate.md): the root of the crate (`a`)",
        "# `own`",
    ] {
        assert!(all.contains(expected), "{expected}\n{all}");
    }
    assert!(!all.contains("other_name"), "{all}");
}
