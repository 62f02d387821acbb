//! Skills of Rust crates.

use std::fs;

use insta::assert_snapshot;
use rind_tests::cli::Rind;

use super::{crate_of, derive, masked, repository, shown};

#[test]
fn the_sdk_becomes_a_skill_of_its_modules() {
    let rind = Rind::default();
    let folder = derive(&rind, &repository("sdk/rust"));
    let skill = fs::read_to_string(folder.join("SKILL.md")).unwrap();
    assert_snapshot!(masked(&skill), @r#"
    ---
    skill_format: corteza.skill/v1
    name: rind-sdk
    description: "What a plugin for Rind is written with: typed hooks, tools and host functions. Use when writing or reading Rust code that uses the crate rind-sdk."
    license: MIT OR Apache-2.0
    generated_from:
      package: rind-sdk
      version: "0.1.0"
      source_hash: [DIGEST]
    metadata:
      bundle_hash: [DIGEST]
    ---

    # Crate rind-sdk 0.1.0

    The library for writing Rind plugins.

    - In Rust it is called `rind_sdk`.
    - It needs Rust 1.95 or later.

    ## Example

    ```rust
    //! Greets people.
    #[rind_sdk::plugin]
    mod hello {
        use rind_sdk::prelude::*;

        /// Arguments of `greet`.
        #[args]
        struct Greet {
            /// The person's name.
            name: String,
        }

        /// Greets somebody by name.
        #[tool(effect = "read")]
        fn greet(args: Greet) -> String {
            format!("Hello, {}!", args.name)
        }

        #[hook]
        fn pre_tool(call: ProposedCall) -> CallOutcome {
            CallOutcome::pass().log(Level::Info, format!("{} is about to run", call.call.name))
        }
    }
    ```

    ## Modules

    Signatures and docs are in the file of each.

    - [rind_sdk](references/crate.md): the root of the crate (`text_of`, `AsOutcome`, `AsValue`, `CommandOutcome`, `IntoAnswer`, `IntoOutcome`, `IntoPointOutcome`, `LoopOutcome`, `PointOutcome`, `PointVerdict`; from other crates: `schemars`, `serde`, `serde_json`; from `bindings::rind`: `plugin as imports`; from `bindings::rind::plugin`: `outcomes`, `payloads`, `types`; from `rind_sdk_macros`: `args`, `command`, `data`, `hook`, `implements`, `plugin`, `run_loop`, `tool`)
    - [rind_sdk::agents](references/agents.md): Running subagents (`run`, `Task`)
    - [rind_sdk::ask](references/ask.md): Asking the person at the terminal: yes or no, one of several options, a line of text (`confirm`, `choose`, `text`)
    - [rind_sdk::blobs](references/blobs.md): Bytes of content that is not text: those in what the hook or tool was shown, or with the side effect `session` any of the session (`read`, `read_all`)
    - [rind_sdk::caller](references/caller.md): Caller of the hook, tool, command or implementation that runs: session, turn and agent, and what the turn has used
    - [rind_sdk::config](references/config.md): The operator's settings for this plugin, checked against the manifest's `[config]` with its defaults filled in (`all`, `get`)
    - [rind_sdk::files](references/files.md): Files in the folders that the plugin was granted (`read`, `write`, `append`, `list`, `create_folder`, `remove`, `read_all`, `read_to_string`)
    - [rind_sdk::handles](references/handles.md): Payloads that are read in parts: each method asks the host, and a hook pays for what it asks for (`Conversation`, `FinishedCall`, `Slice`, `WireRequest`, `WireResponse`)
    - [rind_sdk::http](references/http.md): HTTP requests to the hosts that the plugin was granted (`send`, `Request`, `Response`)
    - [rind_sdk::log](references/log.md): The host's log: what an operator sees of the plugin (`write`, `debug`, `info`, `warn`, `error`)
    - [rind_sdk::model](references/model.md): Asking a model (`ask`, `Question`)
    - [rind_sdk::outcomes](references/outcomes.md): Outcomes of hooks: one record for each set of rights (`CallOutcome`, `ContextOutcome`, `DeltaOutcome`)
    - [rind_sdk::payloads](references/payloads.md): Payloads of hooks: one record for each kind of moment in a turn (`PromptPart`)
    - [rind_sdk::points](references/points.md): Calling extension points that plugins define in `[points.NAME]`, for other plugins to implement (`call`, `call_json`)
    - [rind_sdk::prelude](references/prelude.md): Items that a plugin usually needs: `use rind_sdk::prelude::*;` (38 names from elsewhere)
    - [rind_sdk::session](references/session.md): The conversation so far (`messages`, `append`, `append_json`)
    - [rind_sdk::state](references/state.md): Values that last as long as the session (`get`, `set`, `remove`, `keys`, `get_json`, `set_json`, `Cached`)
    - [rind_sdk::status](references/status.md): A line of status of the plugin's own, shown beside its name (`set`)
    - [rind_sdk::store](references/store.md): Values that last as long as the plugin is installed, across sessions (`get`, `set`, `remove`, `keys`, `get_json`, `set_json`)
    - [rind_sdk::testing](references/testing.md): A host in memory for a plugin's own tests, which run natively with `cargo test` (`reset`, `set_config`, `set_conversation`, `put_blob`, `entries`, `logged`, `status`, `message`, `proposed_call`, `finished_call` and 17 more)
    - [rind_sdk::tools](references/tools.md): Calling other tools (`call_parts`, `call`, `call_json`)
    - [rind_sdk::types](references/types.md): Types that all interfaces use: messages, tool calls, usage, and errors (`Answer`, `Error`, `Message`, `Part`, `ToolCall`, `ToolResult`, `Usage`)

    ## Examples in its source

    In its folder `examples`:

    - `everything.rs`: A plugin with one of everything that can be exported, and how a plugin tests itself natively.
    - `everything_tests.rs`: Calls the plugin as the host would, on the host in memory.
    - `points.rs`: One hook for each point, each with something that the point is good for.

    ## More

    - [references/readme.md](references/readme.md): the beginning of its README
    "#);
    let state = fs::read_to_string(folder.join("references/state.md")).unwrap();
    let (_, part) = state.split_once("### `set`\n").unwrap();
    let (part, _) = part.split_once("### `remove`").unwrap();
    assert_snapshot!(part, @r#"
    ```rust
    pub fn set(key: &str, value: &str) -> Result<(), Error>;
    ```

    Sets a key. Keys have at most 256 bytes, values at most 16 MiB, all of a plugin's values in a session 64 MiB.

    **Errors**

    When one of these limits is passed.
    "#);
    // Types that a macro makes, with their methods and those that macros of the crate make.
    let page = |name: &str| fs::read_to_string(folder.join("references").join(name)).unwrap();
    for (name, expected) in [
        ("outcomes.md", "### `CallOutcome`\n\n#### `pass`\n"),
        (
            "outcomes.md",
            "pub fn with_note(mut self, note: impl Into<String>) -> Self;",
        ),
        ("outcomes.md", "record call-outcome {"),
        (
            "outcomes.md",
            "        block(reason: impl Into<String>) => verdict: CallVerdict::Block(reason.into());",
        ),
        (
            "outcomes.md",
            "blocking!(InputOutcome, RequestOutcome, ReplyOutcome, OutputOutcome)",
        ),
        ("outcomes.md", "macro_rules! injecting {"),
        ("payloads.md", "record proposed-call {"),
        ("payloads.md", "### `PromptPart`\n\n#### `new`\n"),
        (
            "types.md",
            "pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error>;",
        ),
        (
            "types.md",
            "pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error>;",
        ),
        ("types.md", "pub fn total(&self) -> u64;"),
        (
            "types.md",
            "### `Error`\n\nImplements: `From<&str>`, `From<String>`.\n\n#### `other`\n",
        ),
        (
            "crate.md",
            "- From `bindings::rind::plugin`, which the macro `generate!` makes: `outcomes`, `payloads`, `types`",
        ),
        (
            "testing.md",
            "With `cfg(not(target_family = \"wasm\"))` only.\n",
        ),
        ("readme.md", "| "),
    ] {
        assert!(page(name).contains(expected), "{expected}\n{}", page(name));
    }
    let checked = rind.run(&["skill", "check", "./skills/rind-sdk"]).exits(0);
    assert_eq!(checked.stdout.lines().count(), 1, "{}", checked.stdout);
    assert!(checked.stdout.starts_with("✓ "), "{}", checked.stdout);
}

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

    - `default`: on unless turned off, `more`
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
        refused.stderr.contains("24 in one another"),
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
            .contains("no public name leads to the types: Nowhere"),
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
