//! Help texts, and all errors that are found before a turn begins.

use insta::assert_snapshot;
use rind_tests::cli::Rind;

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    assert_snapshot!(Rind::default().run(&["--help"]).screen(), @r#"
    exit 0
    ---- stdout
    An agent host whose plugins are sandboxed WebAssembly components

    Usage: rind ["PROMPT"]     chat, with a first prompt of several words
           rind -c             chat: continue the last session of this folder
           rind -r [ID]        chat: continue a session, or choose one
           rind <COMMAND>

    Commands:
      chat         Chat: type while it works, steer it, and answer its questions
      run          Run one turn: give the model a task and print its answer
      serve        Run the loops of plugins side by side until all are done or Ctrl-C; nobody is asked
                   anything meanwhile
      acp          Be the agent of an editor: speak the Agent Client Protocol over standard input and
                   output
      demo         See it work: a scripted turn on real files in a temporary folder, with the
                   first-party plugins
      plugin       Make, build, list, inspect, switch and install plugins, and take back what they were
                   granted
      skill        Make, list, check, test, install, migrate and derive skills: guidance that the model
                   reads when it needs it
      mcp          Add, list, inspect and remove MCP servers, whose tools the model may then call
      session      List and inspect sessions; alone, choose a session to continue
      config       Show and check the settings
      init         Write a settings file with every setting as a comment
      guard        Let your plugins judge the tool calls of other agents, through the hooks of those
                   agents
      import       Take over rules, MCP servers and commands that you have set up for another agent
      models       List the models that the provider offers
      tools        List the tools that the model may call, where they are from, and what the rules say
                   of them
      schema       Print the JSON Schema of something that Rind writes
      doctor       Report which protections work on this machine, which are weaker and which are missing
      completions  Print the completions of commands and flags for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Exit codes: 0 done · 1 failed · 2 wrong usage or settings · 3 blocked by a hook or the policy · 4
    step limit reached · 130 interrupted
    "#);
}

#[test]
fn help_of_run_explains_every_flag() {
    assert_snapshot!(Rind::default().run(&["run", "--help"]).screen(), @r"
    exit 0
    ---- stdout
    Run one turn: give the model a task and print its answer

    Usage: rind run [OPTIONS] [PROMPT]

    Arguments:
      [PROMPT]  Task for the model; read from standard input when it is absent or `-`

    Options:
          --provider <NAME>       anthropic, openai, ollama, openrouter, another provider or scripted
          --model <NAME>          Name of the model, or PROVIDER/NAME
          --script <FILE>         Script of the scripted provider, TOML or JSON
          --set <KEY=VALUE>       One setting, as in `--set agent.max_steps=10`
          --plugin <PATH>         Load the plugin, or the plugins, in this folder as well
          --no-plugins            Load no plugins but those of `--plugin`, and audit-log, which only the
                                  administrator can switch off
          --without <NAME>        Leave this plugin out, also where nothing would run without it
          --trust-project         Trust the project's `.rind`, settings and plugins, for this run
          --grant <PLUGIN>        Grant a plugin all that it asks for, in this run;
                                  `PLUGIN=CAPABILITY,…` grants only that
          --yes                   Say yes to every tool call that would be asked about; what is denied
                                  stays denied
          --mode <MODE>           Mode of approval: ask, accept-edits, plan (only reading runs, and the
                                  answer is a plan) or full (the same as --yes); Shift-Tab switches it
                                  in the chat
          --dry-run               Only describe what tool calls would do, except those that just read
          --events <FILE>         Append every event as a line of JSON to this file
          --workspace <DIR>       Folder to work in, instead of the current one
          --json                  Print every event as a line of JSON on standard output
          --trace[=<HOW>]         Show the turn as a tree with every hook, what it did, and how long it
                                  took; `--trace=full` folds and cuts nothing
          --image <FILE>          Show an image to the model; may be given several times
          --resume <ID>           Continue a session: its id, the beginning of it, or `last`; without a
                                  prompt, its interrupted turn continues
          --session <ID>          Begin a session with this id, which must be new
          --input-id <ID>         Run the prompt only once: if the session already has a prompt with
                                  this id, its outcome is given again, or its interrupted turn continues
          --output-schema <FILE>  Demand an answer that is JSON of the JSON Schema in this file; exit
                                  code 1 when the model does not give one
          --max-cost <USD>        Stop before the turn costs more than this, in US dollars; exit code 3
          --max-steps <N>         Stop after this number of requests to the model; exit code 4
          --steer-from <FILE>     Steer the turn with lines of JSON from this file or named pipe; `-` is
                                  standard input
      -h, --help                  Print help
    ");
}

#[test]
fn a_run_without_prompt_and_without_input_says_that_the_prompt_is_empty() {
    assert_snapshot!(Rind::default().run(&["run"]).screen(), @r"
    exit 2
    ---- stderr
    error: the prompt is empty
    ");
}

#[test]
fn an_unknown_flag_is_wrong_usage() {
    assert_snapshot!(Rind::default().run(&["run", "hello", "--no-plugin"]).screen(), @r"
    exit 2
    ---- stderr
    error: unexpected argument '--no-plugin' found

      tip: a similar argument exists: '--no-plugins'

    Usage: rind run --no-plugins <PROMPT>

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_setting_is_named_with_file_and_line() {
    let rind = Rind::default();
    rind.config("[agent]\nmax_steps = 5\nmax_stepz = 6\n");
    assert_snapshot!(rind.run(&["run", "hello"]).screen(), @r"
    exit 2
    ---- stderr
    error: [RIND_HOME]/config/config.toml:3: in [agent]: unknown field `max_stepz`, expected one of `max_steps`, `max_tokens`, `reflect`, `max_calls`, `max_parallel_calls`, `tool_timeout_seconds`, `tool_output_bytes`, `deferred_tools_percent`, `context_files`, `loop`, `loop_models`, `max_loop_cost_usd`, `compact`, `checkpoint`
    ");
    rind.config("[agent]\nmax_steps = 5\n\n[agentt]\n");
    assert_snapshot!(rind.run(&["plugin", "list"]).screen(), @"
    exit 2
    ---- stderr
    error: [RIND_HOME]/config/config.toml:4: unknown section `agentt`; known: agent, archival, subagents, provider, providers, models, tools, plugins, prices, sandbox, chat, install, hooks, mcp
    ");
}

#[test]
fn a_wrong_setting_on_the_command_line_is_named() {
    let rind = Rind::default();
    assert_snapshot!(rind.run(&["run", "hello", "--set", "agent.max_steps=many"]).screen(), @r#"
    exit 2
    ---- stderr
    error: --set agent.max_steps=many:1: in [agent]: invalid type: string "many", expected u32
    "#);
}

#[test]
fn a_script_that_is_not_there_is_named() {
    let rind = Rind::default();
    assert_snapshot!(rind.run(&["run", "hello", "--script", "missing.toml"]).screen(), @r"
    exit 2
    ---- stderr
    error: cannot read the script missing.toml: check the path
      because No such file or directory (os error 2)
    ");
}

#[test]
fn an_unknown_provider_and_a_missing_key_say_what_to_do() {
    let rind = Rind::default();
    assert_snapshot!(rind.run(&["run", "hello", "--provider", "gemeni"]).screen(), @r"
    exit 2
    ---- stderr
    error: unknown provider `gemeni`; known: anthropic, openai, ollama, openrouter, gemini, deepseek, mistral, groq, xai, azure, bedrock, vertex, lm-studio, llama-cpp, vllm, scripted
    ");
    assert_snapshot!(rind.run(&["run", "hello", "--provider", "anthropic"]).screen(), @r"
    exit 2
    ---- stderr
    error: no API key for anthropic: set ANTHROPIC_API_KEY, or choose another provider with --provider
    ");
}

#[test]
fn a_session_that_is_not_there_is_named() {
    let rind = Rind::default();
    assert_snapshot!(rind.run(&["run", "hello", "--resume", "2026"]).screen(), @r"
    exit 2
    ---- stderr
    error: there is no session `2026` in [RIND_HOME]/data/sessions
    ");
    assert_snapshot!(rind.run(&["run", "hello", "--resume", "last"]).screen(), @r"
    exit 2
    ---- stderr
    error: there is no session in [RIND_HOME]/data/sessions yet; the first turn begins one
    ");
}

#[test]
fn a_workspace_that_is_not_there_is_named() {
    let rind = Rind::default();
    assert_snapshot!(rind.run(&["run", "hello", "--workspace", "nowhere"]).screen(), @r"
    exit 2
    ---- stderr
    error: cannot open the workspace nowhere
      because No such file or directory (os error 2)
    ");
}

/// Completions for the last of these words, which may be empty.
fn completed(rind: &Rind, words: &[&str]) -> Vec<String> {
    let mut args = vec!["--", "rind"];
    args.extend(words);
    let mut command = rind.command(&args);
    let index = words.len().to_string();
    command
        .env("RIND_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", index)
        .env("_CLAP_IFS", "\n");
    let ran = rind.finish(&mut command).exits(0);
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_is_told_the_names_of_what_is_there() {
    let rind = Rind::with_script("[[reply]]\ntext = \"yes\"\n");
    rind.run(&["run", "is anybody there?"]).exits(0);
    let plugin = rind.user_plugins().join("my-guard");
    std::fs::create_dir_all(&plugin).unwrap();
    std::fs::write(plugin.join("plugin.toml"), "").unwrap();
    rind.config(
        "[provider]\nmodel = \"my-model\"\n[prices.\"dear-model\"]\ninput = 1.0\noutput = 2.0\n",
    );
    for shell in ["bash", "zsh", "fish"] {
        let text = rind.run(&["completions", shell]).exits(0).stdout;
        assert!(text.contains("RIND_COMPLETE"), "{shell}: {text}");
    }
    assert_eq!(completed(&rind, &["plugin", "sea"]), ["search-path"]);
    assert_eq!(completed(&rind, &["run", "--trust"]), ["--trust-project"]);
    assert_eq!(completed(&rind, &["plugin", "inspect", "my"]), ["my-guard"]);
    assert_eq!(
        completed(&rind, &["run", "--without", "injection"]),
        ["injection-guard"]
    );
    let sessions = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let ids = sessions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let id = ids.last().unwrap();
    assert_eq!(
        completed(&rind, &["run", "--resume", ""]),
        ["last", id.as_str()]
    );
    assert_eq!(completed(&rind, &["run", "--model", "my"]), ["my-model"]);
    assert_eq!(
        completed(&rind, &["run", "--model", "dear"]),
        ["dear-model"]
    );
}

#[test]
fn manual_pages_know_every_command() {
    let rind = Rind::bare();
    rind.run(&["manual", "pages/man1"]).exits(0);
    let page = |name: &str| {
        let path = rind.workspace().join("pages/man1").join(name);
        std::fs::read_to_string(path).unwrap()
    };
    assert!(page("rind.1").contains("Exit codes"));
    assert!(page("rind-plugin-test.1").contains("junit=FILE"));
}
