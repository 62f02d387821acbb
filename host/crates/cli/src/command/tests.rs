//! Tests which command a typed line calls, names that several commands share, and completions.

use super::*;

const TEMPLATE: &str = "---\ndescription: Looks\narguments:\n  properties:\n    depth: {enum: [quick, thorough]}\n---\nLook {{ depth }}.\n";

/// Returns the commands of a user and of a project with templates of these file names.
async fn load_command_set(user: &[&str], project: &[&str]) -> SlashCommandSet {
    let folder = tempfile::tempdir().unwrap();
    let paths =
        RindPaths::from_single_root(&folder.path().join("home"), &folder.path().join("work"));
    let put = |folder: &std::path::Path, names: &[&str]| {
        std::fs::create_dir_all(folder).unwrap();
        for name in names {
            std::fs::write(folder.join(name), TEMPLATE).unwrap();
        }
    };
    put(&user_prompts_folder(&paths), user);
    put(&paths.project_folder().join("prompts"), project);
    let held = InMemoryFolder::read(&paths.project_folder()).unwrap();
    let about = BuiltInCommandContext {
        skills: std::sync::Arc::default(),
        paths,
        plugins: Arc::default(),
        rules: Vec::new(),
        compact: rind_lib::agent::CompactConfig::default(),
        switch: rind_lib::tool::policy::SharedApprovalMode::default(),
        is_dry_run: false,
        servers: vec![server_prompts()],
    };
    SlashCommandSet::new_with_template_renderer(about, Some(&held), TemplateRenderBackend::Here)
        .await
}

/// Returns a server prompt that has the same name as a built-in command.
fn server_prompts() -> rind_mcp::ApprovedServerPrompts {
    let argument = |name: &str, required| rind_mcp::OfferedArgument {
        name: name.to_owned(),
        description: "which".to_owned(),
        required,
    };
    rind_mcp::ApprovedServerPrompts {
        server: "docs".to_owned(),
        prompts: vec![rind_mcp::OfferedPrompt {
            name: "help".to_owned(),
            description: "Explains\u{1b}[2J".to_owned(),
            arguments: vec![argument("page", true), argument("style", false)],
            ..rind_mcp::OfferedPrompt::default()
        }],
    }
}

#[tokio::test]
async fn a_prompt_of_a_server_is_called_with_the_name_of_its_server_only() {
    let commands = load_command_set(&[], &[]).await;
    assert_eq!(complete_texts(&commands, "/doc"), ["/docs:help"]);
    assert_eq!(
        complete_texts(&commands, "/docs:help st"),
        ["/docs:help style="]
    );
    let call = commands.parse_call("/docs:help intro 'two words'").unwrap();
    assert_eq!(
        call.entry.origin,
        SlashCommandOrigin::Server("docs".to_owned())
    );
    assert_eq!(
        call.arguments,
        serde_json::json!({"page": "intro", "style": "two words"})
    );
    let why = commands.parse_call("/docs:help").err().unwrap();
    assert!(
        why.contains("`page` is missing; usage: /docs:help <page> [style]"),
        "{why}"
    );
    let call = commands.parse_call("/help").unwrap();
    assert_eq!(call.entry.origin, SlashCommandOrigin::BuiltIn);
    let help = help::describe_all_commands(&commands);
    assert!(
        help.contains("MCP server docs:\n  /docs:help <page> [style]"),
        "{help}"
    );
    assert!(!help.contains('\u{1b}'), "{help}");
    let why = commands.parse_call("/docs:hlep").err().unwrap();
    assert!(
        why.contains("did you mean") && why.contains("/docs:help"),
        "{why}"
    );
}

fn complete_texts(commands: &SlashCommandSet, line: &str) -> Vec<String> {
    let found = commands.complete_line(line).into_iter();
    found
        .map(|found| format!("{}{}", &line[..found.start], found.text))
        .collect()
}

#[test]
fn a_line_calls_a_command_when_it_begins_with_a_slash_and_a_name() {
    for (line, expected) in [
        ("/help", Some(("help", ""))),
        ("/review  a b ", Some(("review", "a b"))),
        ("/git-guard:branch x", Some(("git-guard:branch", "x"))),
        ("/review\na\nb", Some(("review", "a\nb"))),
        ("/etc/hosts", None),
        ("/", None),
        ("/ x", None),
        ("/Über", Some(("Über", ""))),
        ("/a:b:c", None),
        (" /help", None),
        ("//help", None),
    ] {
        assert_eq!(split_command(line), expected, "{line:?}");
    }
}

#[tokio::test]
async fn of_commands_with_the_same_name_only_those_of_later_sources_get_a_prefix() {
    let commands = load_command_set(&["look.md", "help.md"], &["look.md", "see.md"]).await;
    let source = |line: &str| {
        let call = commands.parse_call(line).unwrap();
        call.entry.origin.to_string()
    };
    assert_eq!(source("/help"), "built in");
    assert_eq!(source("/user:help quick"), "your prompts");
    assert_eq!(source("/look quick"), "your prompts");
    assert_eq!(source("/project:look quick"), "the project's prompts");
    assert_eq!(source("/see quick"), "the project's prompts");
    let help = help::describe_all_commands(&commands);
    assert!(help.contains("(shadowed by /help of built in)"), "{help}");
    assert!(
        help.contains("(shadowed by /look of your prompts)"),
        "{help}"
    );
}

#[tokio::test]
async fn command_names_and_arguments_are_completed() {
    let commands = load_command_set(&["look.md"], &["look.md"]).await;
    assert_eq!(complete_texts(&commands, "/lo"), ["/look"]);
    // An exact match comes first.
    assert_eq!(complete_texts(&commands, "/mode"), ["/mode", "/model"]);
    assert_eq!(complete_texts(&commands, "/project:"), ["/project:look"]);
    assert_eq!(complete_texts(&commands, "/look q"), ["/look quick"]);
    assert_eq!(
        complete_texts(&commands, "/look depth=t"),
        ["/look depth=thorough"]
    );
    assert_eq!(complete_texts(&commands, "/help lo"), ["/help look"]);
    assert_eq!(complete_texts(&commands, "/resume la"), ["/resume last"]);
    for line in ["look", "/nothing x", "/quit x", "/xyz"] {
        assert_eq!(
            complete_texts(&commands, line),
            Vec::<String>::new(),
            "{line}"
        );
    }
    assert!(complete_texts(&commands, "/").contains(&"/undo".to_owned()));
}

#[tokio::test]
async fn no_line_makes_parsing_or_completing_fail() {
    let commands = load_command_set(&["look.md"], &[]).await;
    for line in [
        "",
        "/",
        "/look '",
        "/look \\",
        "/look =",
        "/look depth=",
        "/ü ",
        "/look ü",
        "/look\u{2028}x",
    ] {
        let _ = commands.parse_call(line);
        let _ = commands.complete_line(line);
    }
}

#[test]
fn the_plugin_check_knows_every_built_in_command_name() {
    let entries = built_in::built_in_command_definitions();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, rind_check::BUILT_IN_COMMAND_NAMES);
}

#[tokio::test]
async fn a_process_that_does_not_start_is_the_reason_for_every_template_and_no_template_is_blamed()
{
    let helper = TemplateRenderBackend::Program("/none/rind".into());
    let names = helper
        .find_undeclared_template_variables(&["a", "b", "c", "d", "e"])
        .await;
    assert_eq!(names.len(), 5);
    for name in names {
        let Err(helper::TemplateRenderError::Ended(why)) = name else {
            panic!("{name:?}");
        };
        assert!(
            why.contains("/none/rind") && why.contains("start it again"),
            "{why}"
        );
    }
}
