//! Slash commands of plugins from the shell, and their questions at a terminal.

use insta::assert_snapshot;
use rind_tests::cli::Rind;

const ECHO: &str = "[[reply]]\ntext = \"You said: {input}\"\ntimes = 0\n";

fn with(guest: &str) -> Rind {
    let rind = Rind::with_script(ECHO);
    rind.managed(guest);
    rind
}

#[test]
fn a_command_of_a_plugin_shows_text_or_starts_a_turn() {
    let rind = with("asker");
    assert_snapshot!(rind.run(&["run", "/start tides loud=true"]).screen(), @r"
    exit 0
    ---- stdout
    You said: Tell me about TIDES.
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (new)
    1 step · 0 tool calls · [N] tokens in, [N] out · [T]
    ");
    assert_eq!(
        rind.entries("turn-start")[0]["command"],
        "/start of plugin asker"
    );
    assert_snapshot!(rind.run(&["run", "/confirm Go on?"]).screen(), @r"
    exit 0
    ---- stdout
    false
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (new)
    ");
    assert_snapshot!(rind.run(&["run", "/fail"]).screen(), @r"
    exit 1
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (new)
    error: the command `/fail` of plugin `asker` failed: the call reported an error: it is closed\u{1b}[2K
    ");
    assert_snapshot!(rind.run(&["run", "/start"]).screen(), @r"
    exit 2
    ---- stderr
    error: `topic` is missing; usage: /start <topic> [loud=true|false]
    ");
    assert_snapshot!(rind.run(&["run", "/line on main"]).screen(), @r"
    exit 0
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for)
    session [SESSION] (new)
    ▪ asker on main
    ");
}

#[test]
fn listings_show_commands_and_what_they_may_touch() {
    let rind = with("git-guard");
    assert_snapshot!(rind.run(&["run", "/help branch"]).stdout, @r"
    /branch
    Shows the branch, and whether it is protected.
    source: plugin git-guard
    may: read files in workspace/.git
    ");
    let help = rind.run(&["run", "/help"]).stdout;
    assert!(help.contains("Plugin git-guard, which may read"), "{help}");
    let listed = rind.run(&["plugin", "list"]).stdout;
    assert!(listed.contains("/branch"), "{listed}");
    let inspected = rind.run(&["plugin", "inspect", "git-guard"]).stdout;
    let commands = inspected.lines().filter(|line| line.starts_with("command"));
    assert_snapshot!(commands.collect::<Vec<_>>().join("\n"), @"command       /branch                  Shows the branch, and whether it is protected. (runs with its permissions)");
}

#[test]
fn a_question_at_the_terminal_names_the_plugin_and_cannot_leave_its_frame() {
    let rind = with("asker");
    let hostile = "/confirm ok?\r\n? bash wants to run a program\u{1b}[2K [y]es";
    let Some(shown) = rind.at_terminal_once(&["run", hostile], "[y]es or [n]o: ", || {}, "y\n")
    else {
        return;
    };
    // The hostile question is escaped onto one line, after the name of the plugin that asks.
    let asks = shown.lines().find(|line| line.contains(" asks: ")).unwrap();
    let words = "ok?\\u{d} ? bash wants to run a program\\u{1b}[2K [y]es";
    assert!(asks.contains("asker") && asks.contains(words), "{shown}");
    assert!(shown.contains("true"), "{shown}");
    let Some(shown) = rind.at_terminal_once(
        &["run", "/name"],
        "Enter alone takes the default above: ",
        || {},
        "Ada\n",
    ) else {
        return;
    };
    assert!(shown.contains("type no password and no key"), "{shown}");
    assert!(shown.contains("Ada"), "{shown}");
}

#[test]
fn git_guard_asks_before_a_commit_on_a_protected_branch() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"git commit -m x\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    rind.managed("git-guard");
    rind.file(".git/HEAD", "ref: refs/heads/main\n");
    let ran = rind.run(&["run", "commit", "--yes"]).exits(0);
    assert_snapshot!(ran.screen(), @r"
    exit 0
    ---- stdout
    Done.
    ---- stderr
    model: scripted (the script [FOLDER]/script.toml was asked for) · mode full
    session [SESSION] (new)
    ▪ git-guard on main, protected
    ✗ bash refused by plugin git-guard: git commit on main, protected: nobody said yes; make a branch: git switch -c NAME
    2 steps · 1 tool call · [N] tokens in, [N] out · [T] · 1 hook call of 1 plugin in [T]
    ");
}

#[test]
fn a_template_of_a_plugin_is_a_command() {
    let rind = with("asker");
    rind.user_file(
        "managed/asker/prompts/sum-up.md",
        "---\ndescription: Sums something up\n---\nSum {{ arguments }} up.\n",
    );
    assert_eq!(
        rind.run(&["run", "/sum-up the log"]).exits(0).stdout,
        "You said: Sum the log up.\n"
    );
    assert_eq!(
        rind.run(&["run", "/asker:sum-up it"]).exits(0).stdout,
        "You said: Sum it up.\n"
    );
}
