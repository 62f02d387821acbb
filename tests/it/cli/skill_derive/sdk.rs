//! The skill of the SDK of this repository.

use std::fs;

use insta::assert_snapshot;
use rind_tests::cli::Rind;

use super::{derive, masked, repository};

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

    - [rind_sdk](references/crate.md): the root of the crate (`text_of`, `AsOutcome`, `AsValue`, `CommandOutcome`, `IntoAnswer`, `IntoOutcome`, `IntoPointOutcome`, `LoopOutcome`, `PointOutcome`, `PointVerdict`; from other crates: `schemars`, `serde`, `serde_json`; from `bindings::rind`: `plugin as imports`; from `bindings::rind::plugin`: `outcomes`, `payloads`, `types`; from `rind_sdk_macros`: `agent_loop`, `args`, `command`, `data`, `hook`, `implements`, `plugin`, `run_loop`, `tool`)
    - [rind_sdk::agent_turn](references/agent-turn.md): Primitives with which an agent loop runs a turn (`is_resumed`, `take_input`, `build_prompt`, `request`, `accept`, `run_calls`, `inject`, `reflect`, `finish`, `request_to_end` and 1 more)
    - [rind_sdk::agents](references/agents.md): Runs subagents (`run`, `presets`, `start`, `resume`, `wait`, `stop`, `Order`, `Task`)
    - [rind_sdk::ask](references/ask.md): Asks the user at the terminal: yes or no, one of several options, or a line of text (`confirm`, `choose`, `text`)
    - [rind_sdk::blobs](references/blobs.md): Reads content that is not text, such as images: the blobs that the running hook or tool received, or, with the side effect `session`, all blobs of the session (`read`, `read_all`)
    - [rind_sdk::caller](references/caller.md): Returns the session, turn and agent of the running hook, tool, command or implementation, and what the turn has used
    - [rind_sdk::config](references/config.md): Reads the operator's settings for this plugin, which the host has checked against the manifest's `[config]` and completed with its defaults (`all`, `shared`, `get`)
    - [rind_sdk::files](references/files.md): Reads and writes files in the folders that the plugin was granted (`read`, `write`, `append`, `list`, `create_folder`, `remove`, `read_all`, `read_to_string`)
    - [rind_sdk::handles](references/handles.md): Payloads that a hook reads in parts (`Conversation`, `FinishedCall`, `Slice`, `WireRequest`, `WireResponse`)
    - [rind_sdk::http](references/http.md): Sends HTTP requests to the hosts that the plugin was granted (`send`, `Request`, `Response`)
    - [rind_sdk::log](references/log.md): Writes lines to the host's log, which the operator reads (`write`, `debug`, `info`, `warn`, `error`)
    - [rind_sdk::model](references/model.md): Asks a model (`ask`, `Question`)
    - [rind_sdk::outcomes](references/outcomes.md): Outcomes of hooks: one record for each set of rights (`CallOutcome`, `ContextOutcome`, `DeltaOutcome`)
    - [rind_sdk::payloads](references/payloads.md): Payloads of hooks: one record for each kind of moment in a turn (`PromptPart`)
    - [rind_sdk::points](references/points.md): Calls extension points that plugins define under `[points.NAME]` for other plugins to implement (`call`, `call_json`)
    - [rind_sdk::prelude](references/prelude.md): Items that a plugin usually needs: `use rind_sdk::prelude::*;` (50 names from elsewhere)
    - [rind_sdk::session](references/session.md): Reads the conversation so far (`messages`, `messages_after`, `append`, `append_json`)
    - [rind_sdk::shell](references/shell.md): Programs that a shell command starts, found by the parser that the host uses for its own rules: for hooks that check commands before they run (`read`, `Program`)
    - [rind_sdk::state](references/state.md): Stores values that last as long as the session (`get`, `set`, `remove`, `keys`, `get_json`, `set_json`, `Cached`)
    - [rind_sdk::status](references/status.md): Sets the plugin's status line, which is shown beside its name (`set`)
    - [rind_sdk::store](references/store.md): Stores values that last as long as the plugin is installed, across sessions (`get`, `set`, `remove`, `keys`, `get_json`, `set_json`)
    - [rind_sdk::testing](references/testing.md): An in-memory host for a plugin's own tests, which run natively with `cargo test` (`reset`, `set_config`, `set_conversation`, `put_blob`, `entries`, `logged`, `status`, `message`, `proposed_call`, `finished_call` and 26 more)
    - [rind_sdk::tools](references/tools.md): Calls other tools (`call_parts`, `call`, `call_json`)
    - [rind_sdk::turns](references/turns.md): Runs turns of the agent from a loop (`run`, `start`, `finish`, `steer`, `stop`, `running`, `TurnOrder`)
    - [rind_sdk::types](references/types.md): Types that all interfaces use: messages, tool calls, usage, and errors (`Answer`, `Error`, `Message`, `Part`, `ToolCall`, `ToolResult`, `Usage`)
    - [rind_sdk::waiting](references/waiting.md): Waits in a loop for a timer, a change of files, a message, or the shutdown of the host (`wait`, `WakeConditions`)
    - [rind_sdk::websocket](references/websocket.md): Opens WebSocket connections of a loop to the hosts that the plugin was granted (`open`, `send_text`, `send_binary`, `receive`, `close`, `ConnectRequest`)

    ## Examples in its source

    In its folder `examples`:

    - `everything.rs`: A plugin that exports one of everything, with native tests of it.
    - `everything_tests.rs`: Tests of the plugin, called as the host would, on the SDK's in-memory host.
    - `points.rs`: One hook for each extension point, each with a typical use of the point.

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

    Sets a key. Keys have at most 256 bytes, values at most 16 MiB, all of a plugin's values in a
    session 64 MiB.

    **Errors**

    When one of these limits is passed.
    "#);
    // Types that a macro generates, with their methods, including those that the crate's own macros
    // generate.
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
