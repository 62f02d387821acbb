//! Pages and API of `rind serve` about the host: plugins with failures and slow hooks, loops,
//! costs, and stalled turns.

use std::time::{Duration, Instant};

use rind_tests::api::Api;
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};

const CALL: &str = r#"
[[reply]]
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
[[reply]]
text = "Read."
times = 0
"#;

/// A machine with a guest whose hooks trap.
fn with_broken_guard(script: &str) -> Rind {
    let rind = Rind::with_script(script);
    rind.file("a.txt", "text");
    guests::put("hostile", &rind.home().join("managed"), |manifest| {
        manifest.replace("type = \"string\"", "type = \"string\"\ndefault = \"trap\"")
    });
    rind
}

fn row<'a>(list: &'a Value, plugin: &str) -> &'a Value {
    let rows = list["plugins"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == plugin).unwrap()
}

/// Polls the path until the answer passes the check, for at most 60 seconds.
fn wait_for(api: &Api<'_>, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let answer = api.get(path).has_status(200).json();
        if fits(&answer) {
            return answer;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn plugins_are_shown_with_failures_and_slow_hooks_of_their_folder() {
    let rind = with_broken_guard(CALL);
    let other = rind.user_home().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let path = other.to_str().unwrap();
    let api = Api::start_with(&rind, &["--also-workspace", path]);
    let before = api.get("/v1/plugins").has_status(200).json();
    assert_eq!(row(&before, "hostile")["failures"], 0);
    let session = api.new_session();
    let turns = format!("/v1/sessions/{session}/turns");
    let body = json!({"text": "read it", "wait": true});
    assert_eq!(api.post(&turns, &body).status, 200);

    let list = api.get("/v1/plugins").json();
    let broken = row(&list, "hostile");
    assert!(broken["failures"].as_u64() >= Some(1), "{broken}");
    let last = &broken["last_failure"];
    assert_eq!(last["session"], session.as_str());
    assert!(last["reason"].to_string().contains("broken on purpose"));
    let hook = &broken["hooks"][0];
    assert!(hook["calls"].as_u64() >= Some(1), "{broken}");
    assert!(hook["slowest_ms"].as_f64() >= hook["average_ms"].as_f64());
    assert_eq!(hook["slowest_session"], session.as_str());
    let page = api.get("/plugins").has_status(200).body;
    assert!(page.contains("broken on purpose"), "{page}");
    assert!(page.contains(&format!("/sessions/{session}")), "{page}");

    // Calls are counted per workspace, so the other one has no failures.
    let of_other = api
        .get(&format!("/v1/plugins?workspace={path}"))
        .has_status(200);
    assert_eq!(row(&of_other.json(), "hostile")["failures"], 0);
    assert_eq!(api.get(&format!("/plugins?workspace={path}")).status, 200);
    for (query, status) in [("workspace=/etc", 403), ("folder=x", 400)] {
        assert_eq!(api.get(&format!("/v1/plugins?{query}")).status, status);
    }
}

#[test]
fn loops_are_listed_with_their_runs_and_what_comes_next() {
    let rind = Rind::with_script(CALL);
    guests::put("looper", &rind.home().join("managed"), |manifest| {
        manifest.replace("default = \"done\"", "default = \"fail\"")
    });
    let api = Api::start(&rind);
    let list = wait_for(&api, "/v1/loops", |list| {
        list["loops"][0]["failures"].as_u64() >= Some(2)
    });
    let own = &list["loops"][0];
    assert_eq!(
        (&own["plugin"], &own["has_ended"]),
        (&json!("looper"), &json!(false))
    );
    assert!(
        own["next_run"].is_i64() && own["runs"].as_u64() >= Some(2),
        "{own}"
    );
    let session = own["session"].as_str().unwrap();
    let page = api.get("/plugins").has_status(200).body;
    assert!(page.contains(&format!("/sessions/{session}")), "{page}");
}

#[test]
fn costs_are_summed_by_day_model_and_folder() {
    let rind = Rind::with_script(CALL);
    rind.file("a.txt", "text");
    rind.config("[prices.\"scripted\"]\ninput = 1000.0\noutput = 1000.0\n");
    let api = Api::start(&rind);
    assert_eq!(api.get("/v1/costs").json()["all"]["sessions"], 0);
    for _ in 0..2 {
        let turns = format!("/v1/sessions/{}/turns", api.new_session());
        let body = json!({"text": "read it", "wait": true});
        assert_eq!(api.post(&turns, &body).status, 200);
    }
    let costs = api.get("/v1/costs").has_status(200).json();
    let all = &costs["all"];
    assert_eq!((&all["sessions"], &all["turns"]), (&json!(2), &json!(2)));
    assert!(all["cost_usd"].as_f64() > Some(0.0), "{costs}");
    for by in ["days", "models", "workspaces"] {
        let sums = costs[by].as_object().unwrap();
        assert_eq!(sums.values().next(), Some(all), "{costs}");
    }
    let page = api.get("/costs").has_status(200).body;
    assert!(page.contains("Sessions: 2, turns: 2, "), "{page}");
}

#[test]
fn a_turn_that_waits_for_an_answer_is_told_from_one_that_works() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"touch made\" } }]\n",
    );
    let api = Api::start(&rind);
    let turns = format!("/v1/sessions/{}/turns", api.new_session());
    let started = api.post(&turns, &json!({"text": "run it"}));
    assert_eq!(started.status, 202);
    let list = wait_for(&api, "/v1/sessions", |list| {
        list["sessions"][0]["is_waiting"] == true
    });
    let row = &list["sessions"][0];
    assert!(
        row["is_running"] == true && row["quiet_ms"].is_u64(),
        "{row}"
    );
    let page = api.get("/").has_status(200).body;
    assert!(page.contains("waits for an answer"), "{page}");
}

#[test]
fn the_output_of_a_running_command_is_shown_with_secrets_masked_and_is_in_no_event() {
    let command = "echo begun; cat key; until [ -e go ]; do sleep 0.1; done; rm go";
    let rind = Rind::with_script(&format!(
        "[[reply]]\ntool_calls = [{{ name = \"bash\", arguments = {{ command = \"{command}\" }} }}]\n[[reply]]\ntext = \"Ran.\"\n"
    ));
    rind.file("key", concat!("AKIA", "IOSFODNN7EXAMPLF\n"));
    let api = Api::start_with(&rind, &["--yes"]);
    let session = api.new_session();
    let outputs = format!("/v1/sessions/{session}/outputs");
    let none = json!({"outputs": []});
    assert_eq!(api.get(&outputs).has_status(200).json(), none);
    let started = api.post(
        &format!("/v1/sessions/{session}/turns"),
        &json!({"text": "run it"}),
    );
    assert_eq!(started.status, 202);
    let list = wait_for(&api, &outputs, |list| {
        list["outputs"][0]["lines"].as_array().map(Vec::len) == Some(2)
    });
    let output = &list["outputs"][0];
    assert_eq!(
        (&output["agent"], &output["lines"][0]),
        (&json!("main"), &json!("begun"))
    );
    assert!(
        !output["lines"][1].to_string().contains("IOSFODNN"),
        "{list}"
    );
    let lines = rind.entries("tool-end");
    assert_eq!(lines, Vec::<Value>::new(), "the call runs");
    rind.file("go", "");
    assert_eq!(wait_for(&api, &outputs, |list| *list == none), none);
    assert_eq!(api.get("/v1/sessions/none/outputs").status, 404);
}
