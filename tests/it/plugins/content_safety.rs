//! `content-safety`: its run time and its size. Its behavior is tested by its case files.

use rind::point::payload::StopReason;
use rind::provider::scripted::Reply;
use rind_tests::guests;
use toml::Value;

use super::with_plugin;

/// Maximum size of the component in bytes. It is limited because every machine compiles the
/// component.
const LARGEST: u64 = 400_000;

/// Runs a turn whose model answers `answer`. Returns the output and the reason for the end of the
/// turn.
async fn output_of(answer: &str, settings: &[(&str, Value)]) -> (String, StopReason) {
    let (_host, setup) = with_plugin("content-safety", settings, vec![Reply::text(answer)]).await;
    let outcome = setup.build().turn("hello there").await;
    (outcome.output, outcome.summary.stop)
}

#[tokio::test]
async fn a_long_answer_is_read_before_the_deadline() {
    let near_miss = "4111 1111 1111 1112 DE89 3704 0044 a.b@c+49 30 1.2.3.4-x aaaaaaaaaaaaaaaa ";
    let answer = near_miss.repeat(10_000);
    let kinds = ["card", "email", "iban", "ipv4", "phone", "ssn"];
    let deny = [r"(a+)+\$", r"(?i)(b|c|d)*e{5}f", r"\d{40}"];
    let settings = [
        ("mask", Value::from(kinds.to_vec())),
        ("deny", Value::from(deny.to_vec())),
    ];
    let (output, stop) = output_of(&answer, &settings).await;
    assert_eq!(
        stop,
        StopReason::Done,
        "{}",
        &output[..200.min(output.len())]
    );
    assert_eq!(output, answer);
}

#[test]
fn the_component_is_small() {
    let component = guests::guest("content-safety").join("content_safety.wasm");
    let size = std::fs::metadata(component).unwrap().len();
    assert!(size < LARGEST, "{size} bytes");
}
