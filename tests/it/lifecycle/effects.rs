//! Effects of hooks at every point: a metric, a notice, a log line, and a stored value.

use rind::event::Event;
use rind::point::catalog::CATALOG;
use rind_tests::cli::Rind;
use serde_json::{Value, json};

use super::PLUGIN;
use super::scene::host;
use super::whole::{hooks, of_main, whole_turn};

fn effects(point: &str) -> Value {
    json!({"effects": [
        {"metric": format!("seen.{}", point.replace('-', "_"))},
        {"notify": format!("notice of {point}")},
        {"log": format!("line of {point}")},
        {"store": format!("value of {point}")},
    ]})
}

#[tokio::test]
async fn effects_of_every_point_are_carried_out() {
    let points = CATALOG.iter().map(|row| row.name);
    let points: Vec<&str> = points.collect();
    let answers = points
        .iter()
        .map(|point| ((*point).to_owned(), effects(point)));
    let host = host(Value::Object(answers.collect()));
    let (events, stored) = whole_turn(&host).await;
    let fired = hooks(&events);
    for point in points {
        let answer = effects(point);
        let metric = &answer["effects"][0]["metric"];
        let is_metric = |event: &&Event| matches!(event, Event::Metric { plugin, name, .. } if plugin == PLUGIN && metric == name);
        let told = format!("notice of {point}");
        let is_notice = |event: &&Event| matches!(event, Event::Notice { plugin, text, .. } if plugin.as_deref() == Some(PLUGIN) && *text == told);
        let kept = format!("{PLUGIN}/value of {point}=kept");
        let n = fired
            .iter()
            .filter(|(agent, record)| *agent == "main" && record.point == point);
        let n = n.count();
        assert!(n > 0, "{point} never fired");
        let count = |found: usize, what: &str| assert_eq!(found, n, "{what} of {point}");
        count(of_main(&events).filter(is_metric).count(), "metrics");
        count(of_main(&events).filter(is_notice).count(), "notices");
        assert!(stored.contains(&kept), "{point}: {stored:?}");
    }
}

#[test]
fn the_program_carries_them_out_to_its_stream_its_log_and_the_disk() {
    let rind = Rind::with_script("[[reply]]\ntext = \"done\"\n");
    rind.managed(PLUGIN);
    let mut answers = toml::Table::new();
    for point in ["session-start", "turn-end", "session-end"] {
        let effects: toml::Value = serde_json::from_value(effects(point)).unwrap();
        answers.insert(point.to_owned(), effects);
    }
    let mut config = toml::Table::new();
    config.insert("answers".to_owned(), answers.into());
    let section = toml::to_string(&config).unwrap();
    let section = section.replace("[[answers.", "[[plugins.scripted-hook.config.answers.");
    rind.config(&section);
    let mut command = rind.command(&["run", "hello there", "--json"]);
    command.env("RIND_LOG", "plugin=info");
    let ran = rind.finish(&mut command).exits(0);
    let events = ran.json_lines();
    let folder = rind.home().join("data/plugins/scripted-hook");
    let stored = texts_below(&folder).join("\n");
    for point in ["session-start", "turn-end", "session-end"] {
        let metric = format!("seen.{}", point.replace('-', "_"));
        let has = |kind: &str, key: &str, text: &str| {
            let is_it = |event: &&Value| event["type"] == kind && event[key] == text;
            events.iter().filter(is_it).count()
        };
        assert_eq!(has("metric", "name", &metric), 1, "{point}: {}", ran.stdout);
        let notice = format!("notice of {point}");
        assert_eq!(has("notice", "text", &notice), 1, "{point}");
        let line = format!("line of {point}");
        assert!(ran.stderr.contains(&line), "{point}: {}", ran.stderr);
        let key = format!("\"value of {point}\"\nkept");
        assert!(stored.contains(&key), "{point}: {stored}");
    }
}

/// Contents of the text files below a folder.
fn texts_below(folder: &std::path::Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(texts_below(&path));
        } else {
            texts.extend(std::fs::read_to_string(&path));
        }
    }
    texts
}
