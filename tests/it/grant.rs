//! Decisions about grants: what must never happen, whatever a plugin requests and whatever its
//! trust is.

use proptest::prelude::*;
use rind::grant::answers::{AnswerLifetime, GrantAnswer, GrantAnswerStore};
use rind::grant::decide::{
    GrantDecision, GrantDecisionInputs, GrantFlagValue, GrantStatus, decide_grant,
};
use rind::grant::policy::{CapabilityPolicy, RequestingPlugin};
use rind::grant::table::CapabilityRuling;
use rind::grant::{
    Capability, ExternalCall, FolderAccess, GrantRequest, OfferedTool, SideEffect, Trust,
};

fn capability() -> impl Strategy<Value = Capability> {
    let folder = prop::sample::select(vec!["workspace", "workspace/a", "workspace/a/b", "data"]);
    let host = prop::sample::select(vec!["a.b", "*.b", "*", "http://10.0.0.1:81"]);
    let files = (any::<bool>(), folder).prop_map(|(writes, folder)| {
        let access = if writes {
            FolderAccess::Write
        } else {
            FolderAccess::Read
        };
        Capability::Files(access, folder.parse().unwrap())
    });
    let network = (any::<bool>(), host).prop_map(|(is_private, host)| {
        let host = host.parse().unwrap();
        if is_private {
            Capability::PrivateNetwork(host)
        } else {
            Capability::Network(host)
        }
    });
    prop_oneof![
        Just(Capability::Session),
        Just(Capability::ExternalCall(ExternalCall::Model)),
        Just(Capability::ExternalCall(ExternalCall::Agents)),
        "[a-c]".prop_map(Capability::Tool),
        files,
        network,
    ]
}

fn request() -> impl Strategy<Value = GrantRequest> {
    (
        prop::collection::btree_set(capability(), 0..6),
        prop::sample::select(Trust::ALL.to_vec()),
        "[12]",
    )
        .prop_map(|(capabilities, trust, digest)| GrantRequest {
            plugin: "p".into(),
            version: "0.1.0".into(),
            description: String::new(),
            trust,
            source: String::new(),
            digest,
            manifest: String::new(),
            side_effects: vec![SideEffect::Session],
            capabilities: capabilities.into_iter().collect(),
            tools: Vec::new(),
            has_hooks: false,
        })
}

/// A policy with random lists of patterns.
fn policy() -> impl Strategy<Value = CapabilityPolicy> {
    let pattern = prop::sample::select(vec![
        "session",
        "model",
        "agents",
        "tool",
        "tool:a",
        "read",
        "write",
        "write:workspace/a",
        "network",
        "network:*.b",
        "private-network",
    ]);
    let list = || prop::collection::vec(pattern.clone(), 0..4);
    let place = prop::sample::select(vec!["plugins.p", "trust.local", "trust.user"]);
    (place, list(), list(), list()).prop_map(|(place, allow, ask, deny)| {
        let text = format!("[{place}]\nallow = {allow:?}\nask = {ask:?}\ndeny = {deny:?}\n");
        CapabilityPolicy::parse(&[(&text, std::path::Path::new("policy.toml"))]).unwrap()
    })
}

/// Answers that grant these requests, made without reading a file.
fn answers(of: &[&GrantRequest]) -> GrantAnswerStore {
    let folder = tempfile::tempdir().unwrap();
    let mut answers = GrantAnswerStore::read(&folder.path().join("grants.json")).unwrap();
    let given = of.iter().map(|request| GrantAnswer {
        plugin: request.plugin.clone(),
        version: request.version.clone(),
        trust: request.trust,
        source: request.source.clone(),
        digest: request.digest.clone(),
        content: request.compute_content_digest(),
        pin: request.compute_pin_hash().as_str().to_owned(),
        capabilities: request
            .capabilities
            .iter()
            .map(Capability::to_string)
            .collect(),
        is_guard: false,
        given: "2026-01-01T00:00:00Z".into(),
        lasting: AnswerLifetime::Always,
    });
    answers.add(given.collect()).unwrap();
    answers
}

fn decide_with(
    request: &GrantRequest,
    policy: &CapabilityPolicy,
    answers: &GrantAnswerStore,
) -> GrantDecision {
    decide_grant(
        request,
        GrantDecisionInputs {
            policy,
            answers: Some(answers),
            session: None,
            flags: &[],
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_grant_never_exceeds_the_request(request in request(), policy in policy(), is_answered: bool) {
        let answered: &[&GrantRequest] = if is_answered { &[&request] } else { &[] };
        let granted = decide_with(&request, &policy, &answers(answered)).granted_capabilities();
        for capability in granted.capabilities() {
            prop_assert!(request.capabilities.contains(capability));
        }
    }

    #[test]
    fn what_policy_denies_no_answer_and_no_flag_gives(request in request(), policy in policy()) {
        let flags = ["p".parse().unwrap()];
        let known = GrantDecisionInputs { policy: &policy, answers: Some(&answers(&[&request])), session: None, flags: &flags };
        let content = request.compute_content_digest();
        let asker = RequestingPlugin { plugin: "p", trust: request.trust, content: &content };
        for row in decide_grant(&request, known).rows {
            let ruling = policy.find_capability_ruling(asker, &row.capability).map(|(ruling, _)| ruling);
            prop_assert_eq!(row.standing == GrantStatus::Denied, ruling == Some(CapabilityRuling::Deny));
            prop_assert_ne!(row.standing, GrantStatus::Waiting);
        }
    }

    #[test]
    fn less_trust_never_gets_more(request in request()) {
        let none = answers(&[]);
        let mut before: Option<GrantDecision> = None;
        for trust in Trust::ALL {
            let now = decide_with(&GrantRequest { trust, ..request.clone() }, &CapabilityPolicy::default(), &none);
            if let Some(before) = before {
                for capability in now.capabilities_with_status(GrantStatus::Granted) {
                    prop_assert!(before.capabilities_with_status(GrantStatus::Granted).any(|had| had == capability));
                }
            }
            before = Some(now);
        }
    }

    #[test]
    fn new_bytes_a_wider_request_and_other_words_ask_again(request in request(), more in capability()) {
        let answered = answers(&[&request]);
        let policy = CapabilityPolicy::default();
        prop_assert!(!decide_with(&request, &policy, &answered).needs_operator_answer());
        let mut wider = request.clone();
        if !wider.capabilities.contains(&more) {
            wider.capabilities.push(more);
        }
        wider.side_effects.push(SideEffect::External);
        let mut words = request.clone();
        words.tools.push(OfferedTool { name: "t".into(), description: "d".into(), parameters: "{}".into() });
        let bytes = GrantRequest { digest: "other".into(), ..request.clone() };
        let manifest = GrantRequest { manifest: "other".into(), ..request };
        for changed in [wider, words, bytes, manifest] {
            let decision = decide_with(&changed, &policy, &answered);
            for row in decision.rows {
                prop_assert_eq!(row.standing == GrantStatus::Waiting, row.ceiling == CapabilityRuling::Ask);
            }
        }
    }
}

#[test]
fn a_flag_gives_what_it_names_for_this_run() {
    let request = GrantRequest {
        plugin: "p".into(),
        version: "0.1.0".into(),
        description: String::new(),
        trust: Trust::Local,
        source: String::new(),
        digest: String::new(),
        manifest: String::new(),
        side_effects: Vec::new(),
        capabilities: vec![
            Capability::Session,
            Capability::ExternalCall(ExternalCall::Model),
        ],
        tools: Vec::new(),
        has_hooks: false,
    };
    let none = answers(&[]);
    let policy = CapabilityPolicy::default();
    let standing = |flags: &[&str]| {
        let flags: Vec<GrantFlagValue> = flags.iter().map(|flag| flag.parse().unwrap()).collect();
        let known = GrantDecisionInputs {
            policy: &policy,
            answers: Some(&none),
            session: None,
            flags: &flags,
        };
        let rows = decide_grant(&request, known).rows;
        rows.iter()
            .map(|row| row.standing == GrantStatus::Granted)
            .collect::<Vec<_>>()
    };
    assert_eq!(standing(&[]), [false, false]);
    assert_eq!(standing(&["q"]), [false, false]);
    assert_eq!(standing(&["p"]), [true, true]);
    assert_eq!(standing(&["p=session"]), [true, false]);
    assert_eq!(standing(&["p=model,session"]), [true, true]);
    assert!("p=".parse::<GrantFlagValue>().is_err());
    assert!("=session".parse::<GrantFlagValue>().is_err());
}
