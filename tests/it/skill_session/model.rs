//! Tests of the model that a skill sets for its turn.

use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::skill::{Source, parse_text};

use super::*;

/// Returns a skill that sets this model.
fn wants(model: &str) -> Skill {
    let mut skill = skill("deep", "Think.");
    skill.model = Some(model.into());
    skill
}

fn with_listed_models(script: Vec<Reply>, skills: impl IntoIterator<Item = Skill>) -> Setup {
    let mut setup = setup(script, skills);
    setup.models = vec!["big".into(), "test-model".into()];
    setup
}

/// Returns the model of each request so far.
fn models(running: &Running) -> Vec<String> {
    let bodies = running.provider.recorded_request_bodies();
    bodies
        .iter()
        .map(|body| body["model"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the notices about models.
fn notices(running: &Running) -> Vec<String> {
    let about = |event: &Event| match event {
        Event::Notice { text, .. } if text.contains("model") => Some(text.clone()),
        _ => None,
    };
    running.events.iter().filter_map(about).collect()
}

#[tokio::test]
async fn the_model_of_a_users_skill_holds_for_the_rest_of_its_turn_and_is_shown() {
    let mut lasting = wants("big");
    lasting.interaction = SkillLifetime::Conversational;
    let script = vec![
        use_skill("deep"),
        bash("true"),
        Reply::text("done"),
        Reply::text("again"),
    ];
    let mut running = with_listed_models(script, [lasting]).build();
    running.turn("think about the work").await;
    running.turn("go on").await;
    assert_eq!(models(&running), ["test-model", "big", "big", "test-model"]);
    assert_eq!(
        notices(&running),
        ["skill deep: this turn uses the model big instead of test-model"]
    );
}

#[tokio::test]
async fn a_model_of_somebody_else_or_that_is_not_there_leaves_the_sessions_with_one_notice() {
    let of = |trust: Trust, source: Source, model: &str| {
        let mut skill = wants(model);
        (skill.trust, skill.source) = (trust, source);
        skill
    };
    let plugin = || Source::Plugin("carrier".into());
    let stays = "skill deep requests the model big, but the turn keeps test-model: only the user's own skills can choose a model";
    for (skill, expected) in [
        (of(Trust::Project, Source::Project, "big"), Some(stays)),
        (of(Trust::Local, Source::Local, "big"), Some(stays)),
        (of(Trust::Package, Source::User, "big"), Some(stays)),
        (of(Trust::User, plugin(), "big"), Some(stays)),
        (of(Trust::Managed, plugin(), "big"), Some(stays)),
        (
            of(Trust::User, Source::User, "huge"),
            Some(
                "skill deep requests the model huge, but the turn keeps test-model: scripted does not offer it",
            ),
        ),
        (of(Trust::User, Source::User, "inherit"), None),
        (of(Trust::User, Source::User, "test-model"), None),
        (of(Trust::Project, Source::Project, "test-model"), None),
    ] {
        let script = vec![
            use_skill("deep"),
            Reply::text("one"),
            use_skill("deep"),
            Reply::text("two"),
        ];
        let mut running = with_listed_models(script, [skill]).build();
        running.turn("think about the work").await;
        running.turn("think about the work").await;
        assert_eq!(models(&running), ["test-model"; 4]);
        assert_eq!(notices(&running), expected.into_iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn hooks_have_the_last_word_about_the_model() {
    let script = vec![use_skill("deep"), Reply::text("done")];
    let setup = with_listed_models(script, [wants("big")]).hook::<at::PreReason>(
        "quartermaster",
        |_, request| {
            Ok(o::RequestOutcome {
                model: (request.model == "big").then(|| "small".to_owned()),
                ..o::RequestOutcome::default()
            })
        },
    );
    let mut running = setup.build();
    running.turn("think about the work").await;
    assert_eq!(models(&running), ["test-model", "small"]);
}

#[tokio::test]
async fn a_forked_skill_has_its_model_in_the_subagent_alone() {
    let mut deep = wants("big");
    deep.context = SkillExecutionContext::Fork;
    let script = vec![
        use_skill("deep"),
        Reply::text("thought"),
        Reply::text("done"),
    ];
    let mut running = with_listed_models(script, [deep]).build();
    running.turn("think about the work").await;
    assert_eq!(models(&running), ["test-model", "big", "test-model"]);
}

#[test]
fn keys_without_effect_are_named_with_their_place() {
    let text =
        "---\nname: x\ndescription: d\ncontext: fork\nagent: Explore\neffort: high\n---\nText.\n";
    let found: Vec<String> = parse_text("x", text)
        .unwrap()
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "5:1: `agent` has no effect: subagents are of one kind; say in the text what the subagent is to be",
            "6:1: `effort` has no effect: requests leave it to the provider",
        ]
    );
}
