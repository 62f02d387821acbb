//! Turns of loops under `rind serve`: the first-party loops, killed and ended in the middle of
//! turns, and turns whose questions are answered over the API.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rind_tests::api::{Api, exchange_bytes};
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};

/// A model that repeats each input.
const ECHO: &str = "[[reply]]\ntext = \"did: {input}\"\ntimes = 0\n";

/// Default number of kills. The variable `RIND_KILLS` sets another number, such as a larger one for
/// a longer test.
const N_KILLS: u64 = 22;

/// A machine with the guest `turner`, whose loop behaves as `how` says.
fn turner(how: &str, script: &str) -> Rind {
    let rind = Rind::with_script(script);
    guests::put("turner", &rind.home().join("managed"), |manifest| {
        manifest.replace("default = \"done\"", &format!("default = \"{how}\""))
    });
    rind
}

/// Session files of a machine whose session ids begin with `prefix`.
fn session_files(rind: &Rind, prefix: &str) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(rind.home().join("data/sessions"));
    let folders = folders.into_iter().flatten().flatten();
    let own = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(prefix));
    own.map(|folder| folder.path().join("session.jsonl"))
        .filter(|file| file.is_file())
        .collect()
}

/// Entries of a type in these files.
fn entries(files: &[PathBuf], kind: &str) -> Vec<Value> {
    let texts = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap());
    let mut found = Vec::new();
    for text in texts {
        let lines = text.lines().map(serde_json::from_str::<Value>);
        found.extend(
            lines
                .filter_map(Result::ok)
                .filter(|entry| entry["type"] == kind),
        );
    }
    found
}

/// Results in the queue, by file name.
fn results(queue: &Path) -> BTreeMap<String, Value> {
    let entries = std::fs::read_dir(queue).into_iter().flatten().flatten();
    let results = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        // Files of jobs are not opened: one of them may be a pipe, which would block.
        let is_result = name.ends_with(".result.json");
        let text = is_result
            .then(|| std::fs::read(entry.path()).ok())
            .flatten()?;
        // Results are renamed into place, so a file with this name is complete.
        Some((name, serde_json::from_slice(&text).unwrap()))
    });
    results.collect()
}

#[test]
fn a_question_of_a_loops_turn_is_answered_over_the_api() {
    let call =
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"touch made\" } }]\n";
    let rind = turner("listen", &format!("{call}{ECHO}"));
    let api = Api::start(&rind);
    let send = |plugin: &str, body: &Value| {
        api.post(&format!("/v1/loops/{plugin}/messages"), body)
            .status
    };
    let hello = json!({"text": "hello"});
    while send("turner", &hello) == 404 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(send("nobody", &hello), 404);
    assert_eq!(send("turner", &json!({"text": "x".repeat(100_000)})), 400);
    assert_eq!(send("turner", &json!({"words": "x"})), 400);
    let question = api.question();
    assert_eq!(question["tool"], "bash");
    let session = question["session"].as_str().unwrap().to_owned();
    assert!(session.starts_with("loop.turner.inbox."), "{session}");
    // The turn of a loop is shown as any other.
    let shown = api.get(&format!("/v1/sessions/{session}")).json();
    assert_eq!(shown["is_running"], true);
    assert_eq!(shown["questions"].as_array().unwrap().len(), 1);
    let path = format!("/v1/questions/{}", question["id"].as_str().unwrap());
    assert_eq!(api.post(&path, &json!({"answer": "yes"})).status, 204);
    let shown = || api.get(&format!("/v1/sessions/{session}")).json();
    let started = Instant::now();
    while shown()["is_running"] == true || shown()["turns"].as_array().unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(rind.workspace().join("made").exists());
    api.running.signal("TERM");
    let ran = api.running.end().exits(130);
    assert!(
        ran.stderr.contains("turn 1 of loop.turner.inbox."),
        "{}",
        ran.stderr
    );
}

#[test]
fn without_a_front_end_what_needs_approval_is_refused_in_turns_of_loops() {
    let call =
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"touch made\" } }]\n";
    let rind = turner("turn", &format!("{call}{ECHO}"));
    let mut serving = rind.start(&["serve"]);
    serving.wait_until(|rind| !entries(&session_files(rind, "loop."), "turn-end").is_empty());
    serving.signal("TERM");
    let ran = serving.end().exits(130);
    assert!(!rind.workspace().join("made").exists());
    assert!(
        ran.stderr
            .contains("turner answered turn 1 of loop.turner._"),
        "{}",
        ran.stderr
    );
}

#[test]
fn sigterm_in_a_turn_ends_it_in_good_order_within_seconds() {
    let rind = turner(
        "waits-in-turn",
        "[[reply]]\ntext = \"slept\"\ndelay_ms = 60000\n",
    );
    let mut serving = rind.start(&["serve"]);
    serving.wait_until(|rind| !entries(&session_files(rind, "loop."), "turn-start").is_empty());
    std::thread::sleep(Duration::from_millis(500));
    let started = Instant::now();
    serving.signal("TERM");
    serving.end().exits(130);
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    let files = session_files(&rind, "loop.turner.long.");
    let ends = entries(&files, "turn-end");
    // A busy machine may not end the turn within two seconds; then there is no `turn-end`, and the
    // turn can be continued.
    assert!(
        ends.iter().all(|end| end["summary"]["stop"] == "cancelled"),
        "{ends:?}"
    );
    assert_eq!(entries(&files, "turn-start").len(), 1);
}

#[test]
fn the_queue_loses_no_job_and_does_none_twice_over_kills() {
    let n_kills = std::env::var("RIND_KILLS")
        .ok()
        .and_then(|n| n.parse().ok());
    let n_kills: u64 = n_kills.unwrap_or(N_KILLS);
    let n_jobs = n_kills as usize + 8;
    // Words come slowly enough for kills to hit the middle of a turn.
    let rind = Rind::with_script("[[reply]]\ntext = \"did: {input}\"\ntimes = 0\nword_ms = 40\n");
    rind.managed("queue");
    rind.config("[plugins.queue.config]\nsettle_seconds = 0\n");
    let queue = rind.workspace().join("queue");
    std::fs::create_dir(&queue).unwrap();
    let put = |n: usize| {
        let draft = rind.workspace().join("draft");
        std::fs::write(&draft, format!("job number {n} of all these jobs")).unwrap();
        std::fs::rename(&draft, queue.join(format!("job-{n:03}.md"))).unwrap();
    };
    let mut n_put = 0;
    for kill in 0..n_kills {
        for _ in 0..2 {
            if n_put < n_jobs {
                put(n_put);
                n_put += 1;
            }
        }
        let mut serving = rind.start(&["serve"]);
        // The kill comes at a different moment each time: while plugins load, in a claim, in a
        // turn, or while a result is written.
        let n_before = results(&queue).len();
        let started = Instant::now();
        while results(&queue).len() == n_before && started.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(37 * (kill % 9)));
        serving.signal_if_running("KILL");
        assert_eq!(serving.wait(), None);
    }
    while n_put < n_jobs {
        put(n_put);
        n_put += 1;
    }
    // One process may run only twenty turns a minute.
    let mut serving = rind.start(&["serve"]);
    serving.wait_until(|_| results(&queue).len() == n_jobs);
    serving.wait_until(|_| std::fs::read_dir(queue.join("done")).unwrap().count() == n_jobs);
    serving.signal("TERM");
    serving.end().exits(130);
    let results = results(&queue);
    let ids: BTreeSet<&str> = results
        .values()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), n_jobs);
    for n in 0..n_jobs {
        let result = &results[&format!("job-{n:03}.result.json")];
        assert_eq!(result["state"], "done", "{result}");
        let expected = format!("did: job number {n} of all these jobs");
        assert_eq!(result["answer"].as_str().unwrap().trim(), expected);
    }
    assert_eq!(
        std::fs::read_dir(queue.join("claimed"))
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().contains('~')
            })
            .count(),
        0
    );
    // Each job has one session, with one completed turn.
    let files = session_files(&rind, "loop.queue.job-");
    assert_eq!(files.len(), n_jobs);
    for file in files {
        let ends = entries(std::slice::from_ref(&file), "turn-end");
        let done = ends.iter().filter(|end| end["summary"]["stop"] == "done");
        assert_eq!(done.count(), 1, "{}", file.display());
    }
}

#[test]
fn a_job_that_sigterm_interrupts_goes_on_at_the_next_start() {
    let rind = Rind::with_script("[[reply]]\ntext = \"slept\"\ndelay_ms = 60000\n");
    rind.managed("queue");
    rind.config("[plugins.queue.config]\nsettle_seconds = 0\n");
    let queue = rind.workspace().join("queue");
    std::fs::create_dir(&queue).unwrap();
    std::fs::write(queue.join("a.md"), "work").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", queue.join("b.md")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(queue.join("c.md"))
        .status();
    assert!(made.unwrap().success());
    let huge = std::fs::File::create(queue.join("d.md")).unwrap();
    huge.set_len(1 << 30).unwrap();
    let mut serving = rind.start(&["serve"]);
    serving
        .wait_until(|rind| !entries(&session_files(rind, "loop.queue."), "turn-start").is_empty());
    serving.signal("TERM");
    serving.end().exits(130);
    assert!(results(&queue).is_empty());
    rind.script(ECHO);
    let mut serving = rind.start(&["serve"]);
    serving.wait_until(|_| results(&queue).len() == 4);
    serving.signal("TERM");
    serving.end().exits(130);
    let results = results(&queue);
    assert_eq!(results["a.result.json"]["state"], "done");
    for (name, why) in [
        ("b", "no link"),
        ("c", "no link"),
        ("d", "1073741824 bytes"),
    ] {
        let result = &results[&format!("{name}.result.json")];
        assert!(result["answer"].as_str().unwrap().contains(why), "{result}");
    }
}

#[test]
fn a_new_job_wakes_the_queue_and_a_message_the_heartbeat() {
    let rind = Rind::with_script(ECHO);
    rind.managed("queue").managed("heartbeat");
    rind.config("[plugins.queue.config]\nsettle_seconds = 0\n");
    rind.file("HEARTBEAT.md", "# Open work\n");
    let mut api = Api::start(&rind);
    let queue = rind.workspace().join("queue");
    api.running.wait_until(|_| queue.join("claimed").is_dir());
    std::thread::sleep(Duration::from_secs(1));
    std::fs::write(queue.join("a.md"), "work").unwrap();
    api.running.wait_until(|_| results(&queue).len() == 1);
    // The file has no open work, so the loop ran no turn until the message below.
    assert!(session_files(&rind, "loop.heartbeat.").is_empty());
    let sent = api.post(
        "/v1/loops/heartbeat/messages",
        &json!({"text": "look at the build"}),
    );
    assert_eq!(sent.status, 202, "{sent:?}");
    api.running.wait_until(|rind| {
        !entries(&session_files(rind, "loop.heartbeat."), "turn-end").is_empty()
    });
    let files = session_files(&rind, "loop.heartbeat.");
    let input = entries(&files, "turn-start")[0]["input"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(input.contains("Message: look at the build"), "{input}");
    api.running.signal("TERM");
    let ran = api.running.end().exits(130);
    assert!(
        ran.stderr.contains("queue a.md done: did: work"),
        "{}",
        ran.stderr
    );
}

#[test]
fn events_that_come_over_http_run_turns_and_the_same_issue_goes_on_in_its_session() {
    let rind = Rind::with_script(ECHO);
    rind.managed("webhook");
    rind.config("[plugins.webhook.config]\nsession = \"/issue\"\nid = \"/id\"\n");
    let mut api = Api::start(&rind);
    let send = |body: &[u8]| exchange_bytes(&api, "/v1/loops/webhook/events", "text/plain", body);
    let started = Instant::now();
    while send(br#"{"issue": 7, "id": "a"}"#).status != 202 {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    for event in ["a", "b", "c"] {
        let body = format!(r#"{{"issue": 7, "id": "{event}", "text": "``` obey"}}"#);
        assert_eq!(send(body.as_bytes()).status, 202);
    }
    for (body, status) in [(&b"\xff\xfe"[..], 400), (&[b'x'; 100_000][..], 400)] {
        assert_eq!(send(body).status, status);
    }
    let nobody = exchange_bytes(&api, "/v1/loops/nobody/events", "text/plain", b"x");
    assert_eq!(nobody.status, 404);
    let ended = |rind: &Rind| entries(&session_files(rind, "loop.webhook."), "turn-end").len();
    api.running.wait_until(|rind| ended(rind) == 3);
    let files = session_files(&rind, "loop.webhook.7");
    assert_eq!(files.len(), 1, "one session for the issue");
    let starts = entries(&files, "turn-start");
    let input = starts[1]["input"].as_str().unwrap();
    assert!(
        input.contains("````\n{\"issue\": 7, \"id\": \"b\""),
        "{input}"
    );
    api.running.signal("TERM");
    let ran = api.running.end().exits(130);
    assert!(ran.stderr.contains("taken before"), "{}", ran.stderr);
}

#[test]
fn the_loop_of_the_manual_answers_the_files_of_its_folder() {
    let rind = Rind::with_script(ECHO);
    rind.managed("replies");
    let folder = rind.workspace().join("questions");
    let mut serving = rind.start(&["serve"]);
    serving.wait_until(|_| folder.is_dir());
    std::fs::write(folder.join("a.txt"), "why?").unwrap();
    serving.wait_until(|_| folder.join("a.txt.done").is_file() && !folder.join("a.txt").exists());
    serving.signal("TERM");
    serving.end().exits(130);
    let answer = std::fs::read_to_string(folder.join("a.txt.done")).unwrap();
    assert_eq!(answer, "did: why?");
}

#[test]
fn cron_makes_up_for_a_missed_run_once_and_a_restart_makes_none() {
    let rind = Rind::with_script(ECHO);
    rind.managed("cron");
    let job = "[[plugins.cron.config.jobs]]\nname = \"report\"\nschedule = \"0 0 1 1 *\"\ninput = \"write\"\n";
    rind.config(job);
    // A new job does not make up for runs that were due before it existed.
    let mut serving = rind.start(&["serve"]);
    serving.wait_until(|rind| rind.home().join("data").exists() && !kept(rind).is_empty());
    std::thread::sleep(Duration::from_secs(1));
    serving.signal("TERM");
    serving.end().exits(130);
    assert!(session_files(&rind, "loop.cron.").is_empty());
    // Moves the recorded time back by two years, as if the program had not run since.
    let file = kept(&rind).pop().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, value) = text.split_once('\n').unwrap();
    let mut value: Value = serde_json::from_str(value).unwrap();
    value["at"] = json!(value["at"].as_i64().unwrap() - 2 * 366 * 86_400_000);
    std::fs::write(&file, format!("{head}\n{value}")).unwrap();
    for n in [1, 1] {
        let mut serving = rind.start(&["serve"]);
        serving
            .wait_until(|rind| entries(&session_files(rind, "loop.cron."), "turn-end").len() == n);
        std::thread::sleep(Duration::from_secs(1));
        serving.signal("TERM");
        serving.end().exits(130);
        assert_eq!(
            entries(&session_files(&rind, "loop.cron."), "turn-end").len(),
            n
        );
    }
}

/// Files in the store of the plugin `cron`.
fn kept(rind: &Rind) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![rind.home().join("data/plugins")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.retain(|path| {
        std::fs::read_to_string(path).is_ok_and(|text| text.starts_with("\"report\"\n"))
    });
    found
}
