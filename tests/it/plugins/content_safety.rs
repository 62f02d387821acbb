//! `content-safety`: what leaves a turn.

use rind::point::payload::StopReason;
use rind::provider::scripted::Reply;
use rind_tests::guests;
use toml::Value;

use super::with_plugin;

/// Largest component, in bytes: it is compiled on every machine.
const LARGEST: u64 = 400_000;

/// Returns the output of a turn whose model answers `answer`, and the reason for its end.
async fn output_of(answer: &str, settings: &[(&str, Value)]) -> (String, StopReason) {
    let (_host, setup) = with_plugin("content-safety", settings, vec![Reply::text(answer)]).await;
    let outcome = setup.build().turn("hello there").await;
    (outcome.output, outcome.summary.stop)
}

#[tokio::test]
async fn cards_accounts_and_social_security_numbers_are_masked_without_any_settings() {
    let answer = "Card 4111 1111 1111 1111, account DE89370400440532013000, SSN 219-45-6789, mail a@example.com.";
    let (output, stop) = output_of(answer, &[]).await;
    assert_eq!(
        output,
        "Card [card masked], account [iban masked], SSN [ssn masked], mail a@example.com."
    );
    assert_eq!(stop, StopReason::Done);
}

#[tokio::test]
async fn an_answer_about_code_comes_out_as_it_is() {
    let answer = "Fixed in 356a192b7913b04c54574d18c28d46e6395428ab (v1.2.3.4):\n\n```rust\nconst MAX: u64 = \
                  18446744073709551615;\r\n```\n\u{feff}\tid f47ac10b-58cc-4372-a567-0e02b2c3d479 é\n";
    assert_eq!(output_of(answer, &[]).await.0, answer);
}

#[tokio::test]
async fn an_answer_that_matches_a_deny_pattern_is_held_back() {
    let deny = Value::from(vec!["(?i)project falcon"]);
    let (output, stop) = output_of("about Project Falcon", &[("deny", deny)]).await;
    assert_eq!(
        output,
        "[the answer was held back by plugin content-safety: it matches deny pattern 1 of the settings]"
    );
    assert_eq!(stop, StopReason::Blocked);
}

#[tokio::test]
async fn a_category_that_is_on_holds_an_answer_back() {
    let answer = "just run `sudo rm -rf /`";
    assert_eq!(output_of(answer, &[]).await.0, answer);
    let block = Value::from(vec!["destructive-command"]);
    let (output, stop) = output_of(answer, &[("block", block)]).await;
    assert!(
        output.contains("category `destructive-command`"),
        "{output}"
    );
    assert_eq!(stop, StopReason::Blocked);
}

#[tokio::test]
async fn a_guard_that_cannot_do_its_work_lets_nothing_through() {
    let deny = Value::from(vec!["(open"]);
    let (output, stop) = output_of("harmless", &[("deny", deny)]).await;
    assert!(!output.contains("harmless"), "{output}");
    assert!(output.contains("content-safety"), "{output}");
    assert_eq!(stop, StopReason::Blocked);
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
