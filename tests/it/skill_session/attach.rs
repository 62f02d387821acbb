//! Tests of plugins on which a skill depends: their tools are available while the skill is active.

use rind_tests::guests;

use super::*;

/// Returns a skill that depends on the plugin `hello`, which has the tool `greet`.
fn greeter(id: &str, attach: bool) -> Skill {
    let mut skill = skill(id, "Greet.");
    skill.library_depends = vec!["hello".into()];
    skill.attach = attach;
    skill
}

fn greet() -> Reply {
    Reply::call("greet", json!({"name": "Ada"}))
}

/// Builds an agent with the plugin `hello`.
async fn with_hello(script: Vec<Reply>, skills: Vec<Skill>) -> Running {
    let mut host = guests::Host::default();
    host.guest("hello");
    let mut setup = setup(script, skills);
    setup.plugins = host.load().await;
    assert_eq!(setup.plugins.plugins.len(), 1);
    setup.build()
}

/// Returns for each request whether it offered the tool `greet`.
fn offered(running: &Running) -> Vec<bool> {
    let n_requests = running.provider.recorded_request_bodies().len();
    (0..n_requests)
        .map(|n| tools_of(running, n).contains(&"greet".to_owned()))
        .collect()
}

#[tokio::test]
async fn without_attach_the_tools_are_there_only_while_the_skill_is_active() {
    let script = vec![
        greet(),
        use_skill("greeter"),
        greet(),
        Reply::text("done"),
        greet(),
        Reply::text("done"),
    ];
    let mut running = with_hello(script, vec![greeter("greeter", false)]).await;
    running.turn("greet somebody").await;
    running.turn("greet somebody").await;
    assert_eq!(
        offered(&running),
        [false, false, true, true, false, false],
        "{:?}",
        running.results()
    );
    let results = running.results();
    for (text, is_error, by) in [&results[0], &results[3]] {
        assert!(
            *is_error
                && text.contains("is available only while one of these skills is active: greeter"),
            "{text}"
        );
        assert_eq!(by.as_deref(), Some("host"));
    }
    assert_eq!(results[2].0, "Hello, Ada!");
}

#[tokio::test]
async fn with_attach_they_stay_from_the_first_use_on() {
    let script = vec![
        greet(),
        use_skill("greeter"),
        Reply::text("done"),
        greet(),
        Reply::text("done"),
    ];
    let mut running = with_hello(script, vec![greeter("greeter", true)]).await;
    running.turn("greet somebody").await;
    running.turn("greet somebody").await;
    assert_eq!(offered(&running), [false, false, true, true, true]);
    assert_eq!(running.results()[2].0, "Hello, Ada!");
}

#[tokio::test]
async fn a_projects_skill_takes_no_tool_away_and_another_skill_gives_none() {
    let mut of_project = greeter("greeter", false);
    of_project.trust = Trust::Project;
    let mut running = with_hello(vec![greet(), Reply::text("done")], vec![of_project]).await;
    running.turn("greet somebody").await;
    assert_eq!(running.results()[0].0, "Hello, Ada!");

    let script = vec![use_skill("other"), greet(), Reply::text("done")];
    let skills = vec![greeter("greeter", false), skill("other", "Else.")];
    let mut running = with_hello(script, skills).await;
    running.turn("greet somebody").await;
    assert!(running.results()[1].1, "{:?}", running.results());
}

#[tokio::test]
async fn a_skill_whose_plugin_does_not_run_cannot_be_used() {
    let script = vec![use_skill("greeter"), Reply::text("done")];
    let mut running = setup(script, [greeter("greeter", true)]).build();
    running.turn("greet somebody").await;
    let (text, is_error, _) = &running.results()[0];
    assert!(
        *is_error && text.contains("it depends on plugin `hello`, which does not run"),
        "{text}"
    );
    assert_eq!(told(&running), Vec::<String>::new());
}

#[tokio::test]
async fn a_fork_has_the_tools_of_its_plugin_and_the_agent_that_started_it_has_not() {
    let mut forked = greeter("greeter", false);
    forked.context = SkillExecutionContext::Fork;
    let script = vec![
        use_skill("greeter"),
        greet(),
        Reply::text("greeted"),
        greet(),
        Reply::text("done"),
    ];
    let mut running = with_hello(script, vec![forked]).await;
    running.turn("greet somebody").await;
    assert_eq!(
        offered(&running),
        [false, true, true, false, false],
        "{:?}",
        running.results()
    );
    let of_fork = running.provider.recorded_request_bodies()[2]["messages"].to_string();
    assert!(of_fork.contains("Hello, Ada!"), "{of_fork}");
    let results = running.results();
    assert_eq!(results[0].0, "greeted");
    let (text, is_error, by) = results.last().unwrap();
    assert!(*is_error && text.contains("is available only while one of these skills is active"));
    assert_eq!(by.as_deref(), Some("host"));
}
