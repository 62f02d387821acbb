//! Slash commands in `rind run`: built-in commands, and prompt templates of the user and of the
//! project.

use insta::assert_snapshot;
use rind_tests::cli::Rind;

/// Script of a model that repeats each prompt.
const ECHO: &str = "[[reply]]\ntext = \"You said: {input}\"\ntimes = 0\n";

const REVIEW: &str = "---
description: Reviews a folder
arguments:
  properties:
    path: {type: string, description: Folder to review}
    depth: {type: string, enum: [quick, thorough], default: quick}
  required: [path]
---
Review {{ path }} ({{ depth }}).
";

fn with_prompts() -> Rind {
    let rind = Rind::with_script(ECHO);
    rind.user_file("config/prompts/review.md", REVIEW);
    rind
}

#[test]
fn a_template_makes_the_input_of_a_turn() {
    let rind = with_prompts();
    let ran = rind.run(&["run", "/review src"]).exits(0);
    assert_eq!(ran.stdout, "You said: Review src (quick).\n");
    let start = &rind.entries("turn-start")[0];
    assert_eq!(start["input"], "Review src (quick).");
    assert_eq!(start["command"], "/review of your prompts");
    let ran = rind
        .run(&["run", "/review depth=thorough 'my src'"])
        .exits(0);
    assert_eq!(ran.stdout, "You said: Review my src (thorough).\n");
}

#[test]
fn what_is_piped_in_follows_the_prompt_of_a_template() {
    let rind = with_prompts();
    let ran = rind
        .run_with_input(&["run", "/review src"], "a diff")
        .exits(0);
    assert_snapshot!(ran.stdout, @r"
    You said: Review src (quick).

    Standard input:

    ```
    a diff
    ```
    ");
    // A prompt from standard input alone is never a command, because it may come from an untrusted
    // source.
    let ran = rind.run_with_input(&["run"], "/review src").exits(0);
    assert_eq!(ran.stdout, "You said: /review src\n");
}

#[test]
fn a_path_and_a_line_that_begins_with_a_blank_are_prompts() {
    let rind = with_prompts();
    for (line, said) in [
        ("/etc/hosts is what?", "/etc/hosts is what?"),
        (" /review src", " /review src"),
        ("/", "/"),
    ] {
        let ran = rind.run(&["run", line]).exits(0);
        assert_eq!(ran.stdout, format!("You said: {said}\n"));
    }
}

#[test]
fn a_command_that_cannot_be_called_says_what_to_type() {
    let rind = with_prompts();
    rind.user_file(
        "config/prompts/torn.md",
        "---\ndescription: x\n---\nSay {{ nmae }}.\n",
    );
    let said = |line: &str| rind.run(&["run", line]).exits(2).stderr;
    assert_snapshot!(said("/reviw src"), @"error: there is no command /reviw (did you mean /review?); /help lists all, and a line that begins with a blank is a prompt");
    assert_snapshot!(said("/review"), @"error: `path` is missing; usage: /review <path> [depth=quick|thorough]");
    assert_snapshot!(said("/review src deep"), @r#"error: the arguments do not fit: at `/depth`: "deep" is not one of "quick" or "thorough"; usage: /review <path> [depth=quick|thorough]"#);
    assert_snapshot!(said("/torn"), @"error: /torn cannot be used: [RIND_HOME]/config/prompts/torn.md:4:8: `nmae` is not an argument of this template; it declares no arguments; `arguments` has the text that follows the command's name");
    assert_snapshot!(said("/cost"), @"error: /cost needs a session: pass --resume with its id or `last`");
    assert_snapshot!(said("/model other"), @"error: a run has one model: pass --model other with the prompt");
    assert!(!rind.home().join("data/sessions").exists());
}

#[test]
fn a_projects_templates_count_once_it_is_trusted_and_never_go_before_the_users() {
    let rind = with_prompts();
    let own = |text: &str| format!("---\ndescription: Theirs\n---\n{text}");
    rind.file(".rind/prompts/review.md", &own("Obey me."));
    rind.file(".rind/prompts/ship.md", &own("Ship {{ arguments }}."));
    let ran = rind.run(&["run", "/ship it"]).exits(2);
    assert!(
        ran.stderr.contains(".rind is not used: it is not trusted"),
        "{}",
        ran.stderr
    );
    let trusted = |line: &str| rind.run(&["run", "--trust-project", line]).exits(0).stdout;
    assert_eq!(trusted("/ship it"), "You said: Ship it.\n");
    assert_eq!(trusted("/review src"), "You said: Review src (quick).\n");
    assert_eq!(trusted("/project:review"), "You said: Obey me.\n");
    assert_snapshot!(trusted("/help"), @"
    Built in:
      /help [command]                 List commands, or explain one
      /model [name]                   Show the model, or ask another one from the next turn on
      /mode [name]                    List the modes of approval, or switch to one
      /status                         Show session, model, mode, folder, plugins and commands in the background
      /stop [id]                      Stop a command in the background, or list those that run
      /plugins                        List the running plugins, and why others do not run
      /permissions                    List the mode, the permissions of plugins, and the rules for tool calls
      /skills                         List skills: who may run them, and which are active
      /done                           End the skills that stay active from turn to turn
      /cost                           Show tokens and cost of this session
      /context                        Show what fills the model's context window
      /compact                        Replace older messages with a summary now
      /diff [turn]                    Show which files a turn changed, with the changed lines
      /undo [parts]                   Take back the last turn: the conversation, the files, or both
      /rewind [turn]                  Go back to before a turn, as /undo does; without a number, list turns
      /continue                       Continue the turn that was interrupted when the program ended
      /fork                           Copy this session and continue in the copy
      /rename <title>                 Give this session a title
      /copy                           Put the last answer into the clipboard, through the terminal
      /export [file]                  Write the conversation to a Markdown file
      /resume [session]               List sessions of this folder, or continue one
      /new                            Begin a new conversation; this one is kept
      /clear                          The same as /new
      /init                           Let the model look at the project and write AGENTS.md, its notes for agents
      /reload                         Reload settings, plugins, skills and templates, and continue this session
      /quit                           End the program

    Your prompts:
      /review <path> [depth=quick|thorough]
                                      Reviews a folder

    The project's prompts:
      /project:review                 Theirs (shadowed by /review of your prompts)
      /ship [text]                    Theirs
    ");
    assert_snapshot!(trusted("/help review"), @r"
    /review <path> [depth=quick|thorough]
    Reviews a folder
      path: Folder to review
    source: your prompts ([RIND_HOME]/config/prompts/review.md)
    ");
    assert_snapshot!(trusted("/help project:review"), @r"
    /project:review
    Theirs
    source: the project's prompts ([WORKSPACE]/.rind/prompts/review.md)
    shadowed by /review of your prompts
    ");
}

#[test]
fn commands_about_a_session_tell_of_it_and_change_it() {
    let rind = with_prompts();
    rind.run(&["run", "one"]).exits(0);
    rind.run(&["run", "--resume", "last", "two"]).exits(0);
    let said = |line: &str| rind.run(&["run", "--resume", "last", line]).exits(0);
    assert_snapshot!(said("/undo").screen(), @r"
    exit 0
    ---- stdout
    took the last turn out of the conversation (2 messages): two
    files, data of plugins and the cost stay as they are
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (resumed with 4 messages)
    ");
    assert_snapshot!(said("/undo").stdout, @r"
    took the last turn out of the conversation (2 messages): one
    files, data of plugins and the cost stay as they are
    ");
    assert_snapshot!(said("/undo").stdout, @"there is no turn to undo");
    said("three");
    let exported = said("/export out.md").stdout;
    assert!(exported.starts_with("wrote 2 messages to "), "{exported}");
    let text = std::fs::read_to_string(rind.workspace().join("out.md")).unwrap();
    let (_, text) = text.split_once('\n').unwrap();
    assert_snapshot!(text, @r"

    ## User

    three

    ## Model

    You said: three
    ");
    let ran = rind
        .run(&["run", "--resume", "last", "/export out.md"])
        .exits(2);
    assert!(
        ran.stderr.contains("exists; name another file"),
        "{}",
        ran.stderr
    );
    // The size of a request depends on the path of the test's folder and on the descriptions of
    // tools, so digits are removed.
    let without_digits = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
    let cost = said("/cost").stdout;
    let numbers = cost.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    let n_in = numbers[1];
    let expected = [3, n_in, 58, 0, n_in + 58, 3, n_in, 58];
    assert_eq!(numbers, expected, "{cost}");
    assert_snapshot!(without_digits(cost).replace("  ", " "), @"
     turns: tokens in, out · $, and tokens without a price
     scripted: requests, tokens in, out
    ");
    let context = without_digits(said("/context").stdout);
    assert_snapshot!(context.replace("  ", ""), @r"
     system prompt: -identity (host)
    system prompt: -tools (host)
     system prompt: -environment (host)
    tools
     input
     answer
     tool results
     tokens in all, estimated;% of thefrom which on older messages are replaced by a summary
    ");
    let forked = said("/fork").stdout;
    assert!(
        forked.contains("to continue: rind run --resume "),
        "{forked}"
    );
    // The fork is now the last used session.
    said(&format!("four {}", "and more ".repeat(300)));
    said("five");
    let listed = rind.run(&["session", "list", "--json"]).exits(0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert_snapshot!(said("/compact").screen(), @r"
    exit 0
    ---- stdout
    3 messages were replaced by a summary: 1241 tokens before, 394 after
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (resumed with 6 messages)
    ≡ the conversation was shortened: 3 messages replaced by a summary of 1514 B
    0 steps · 0 tool calls · [N] tokens in, [N] out · [T]
    ");
}

#[test]
fn a_command_is_an_event() {
    let rind = with_prompts();
    let ran = rind.run(&["run", "--json", "/help review"]).exits(0);
    let lines = ran.json_lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["type"], "command");
    assert_eq!(lines[0]["outcome"], "text");
    let ran = rind.run(&["run", "--json", "/review src"]).exits(0);
    let lines = ran.json_lines();
    let types: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(types[..3], ["session-opened", "command", "turn-start"]);
    assert_eq!(lines[1]["outcome"], "prompt");
    assert_eq!(lines[2]["command"], "/review of your prompts");
}

/// Returns a template with this body.
fn template(body: &str) -> String {
    format!("---\ndescription: Does it\n---\n{body}\n")
}

/// Returns templates that parse, but use too much memory, stack or time when they are rendered.
fn hostile_when_rendered() -> Vec<String> {
    let lists = format!(
        "{{% set a = [1, 1] %}}{}",
        "{% set a = [a, a] %}".repeat(40)
    );
    let maps = format!(
        "{{% set a = {{'x': 1}} %}}{}",
        "{% set a = {'x': a, 'y': a} %}".repeat(40)
    );
    let own = "{% set ns = namespace() %}{% set ns.a = ns %}";
    let other = "{% set other = namespace() %}{% set other.a = other %}";
    vec![
        format!("{own}{{{{ ns|tojson }}}}"),
        format!("{own}{{{{ ns }}}}"),
        format!("{own}{{{{ ns ~ '' }}}}"),
        format!("{own}{{{{ ns|pprint }}}}"),
        format!("{own}{other}{{{{ ns == other }}}}"),
        "{{ [1]|tojson(indent=100000000000) }}".to_owned(),
        format!("{lists}{{{{ a }}}}"),
        format!("{lists}{{{{ a ~ '' }}}}"),
        format!("{lists}{{{{ a|string }}}}"),
        format!("{lists}{{{{ a|join }}}}"),
        format!("{lists}{{{{ a|pprint }}}}"),
        format!("{lists}{{{{ a|list|sort }}}}"),
        format!("{maps}{{{{ a|tojson }}}}"),
    ]
}

/// Returns templates that are nested too deeply or too long for the parser.
fn hostile_when_read() -> Vec<String> {
    let chain = "{% elif arguments %}".repeat(3_000);
    vec![
        format!("{{{{ {}1 }}}}", "-".repeat(60_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(15_000)),
        format!("{{{{ arguments{} }}}}", ".a".repeat(30_000)),
        format!("{{{{ arguments{} }}}}", "|e".repeat(30_000)),
        format!("{{{{ arguments{} }}}}", "+1".repeat(30_000)),
        format!("{{% if arguments %}}{chain}{{% endif %}}"),
    ]
}

#[test]
fn a_hostile_template_ends_a_process_of_its_own_and_nothing_else() {
    let rind = with_prompts();
    for (n, body) in hostile_when_rendered().iter().enumerate() {
        rind.user_file(&format!("config/prompts/h{n}.md"), &template(body));
    }
    for (n, body) in hostile_when_rendered().iter().enumerate() {
        let ran = rind.run(&["run", &format!("/h{n}")]).exits(2);
        let is_named = |why: &str| ran.stderr.contains(&format!("h{n}.md: {why}"));
        assert!(
            is_named("an expression or a value in it is nested too deeply")
                || is_named("its process needs more than 2 s of processor time")
                || is_named("its process needs more than 256 MiB of memory"),
            "{body}: {}",
            ran.stderr
        );
    }
    rind.run(&["run", "/review src"]).exits(0);
}

#[test]
fn a_template_that_no_parser_takes_is_named_and_the_others_are_there() {
    let mut n_refused = 0;
    for body in hostile_when_read() {
        let rind = with_prompts();
        rind.user_file("config/prompts/a.md", &template(&body));
        rind.user_file("config/prompts/z.md", &template("Fine."));
        let ran = rind.run(&["run", "/a x"]);
        let start = body.chars().take(40).collect::<String>();
        match ran.code {
            // A parser that accepts the template must also render it.
            Some(0) => assert!(
                ran.stdout.starts_with("You said:"),
                "{start}: {}",
                ran.stdout
            ),
            code => {
                assert_eq!(code, Some(2), "{start}: {}", ran.stderr);
                assert!(ran.stderr.contains("a.md"), "{start}: {}", ran.stderr);
                n_refused += 1;
            }
        }
        assert_eq!(
            rind.run(&["run", "/z"]).exits(0).stdout,
            "You said: Fine.\n"
        );
    }
    assert!(
        n_refused > 0,
        "no template of these is hostile to this parser"
    );
}

#[test]
fn many_templates_that_end_their_process_do_not_keep_the_program() {
    let rind = with_prompts();
    let body = template(&format!("{{{{ {}1 }}}}", "-".repeat(60_000)));
    for n in 0..10 {
        rind.user_file(&format!("config/prompts/b{n}.md"), &body);
    }
    let help = rind.run(&["run", "/help"]).exits(0).stdout;
    assert_eq!(help.matches("nested too deeply").count(), 3, "{help}");
    let left = "not checked: other templates ended the process that checks them";
    // The valid template comes after the hostile ones.
    assert_eq!(help.matches(left).count(), 8, "{help}");
}
