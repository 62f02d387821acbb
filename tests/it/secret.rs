//! Tests of finding secrets in text, of the masked text, and of the worst-case cost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rind::secret::{MaskedText, SecretScanner, check_request_for_secrets};
use rind_tests::secrets::{Harmless, Secret, harmless, rules, secret, secrets};

fn mask(text: &str) -> Option<MaskedText> {
    SecretScanner::shared().mask_secrets(text)
}

#[test]
fn every_rule_finds_its_samples_and_masks_them_whole() {
    let mut tried = BTreeSet::new();
    for Secret {
        rule,
        before,
        secret,
        after,
    } in secrets()
    {
        for (left, right) in [
            ("", ""),
            ("it is ", ", they said"),
            ("a\\n", "\\nb"),
            ("'", "'"),
            ("\u{1b}[32m", "\u{1b}[0m"),
        ] {
            let text = format!("{left}{before}{secret}{after}{right}");
            let masked = mask(&text).unwrap_or_else(|| panic!("{rule} did not find {text}"));
            // A private key without its last line is masked as far as the text after it could
            // belong to the key.
            if !(after.is_empty() && rule == "private-key") {
                let expected = format!("{left}{before}[secret masked: {rule}]{after}{right}");
                assert_eq!(masked.text, expected, "{text}");
            }
            assert!(masked.rules.contains(&*rule), "{rule}: {:?}", masked.rules);
        }
        tried.insert(rule);
    }
    assert_eq!(tried, rules().0, "every rule has a sample");
    for rule in tried {
        assert_eq!(mask(&format!("[secret masked: {rule}]")), None);
    }
}

#[test]
fn what_is_no_secret_is_left_alone() {
    for Harmless { what, texts } in harmless() {
        for text in texts {
            assert_eq!(mask(&text), None, "{what}: {text}");
        }
    }
}

#[test]
fn a_token_within_a_longer_word_is_none() {
    for rule in [
        "model-api-key",
        "hugging-face-token",
        "crates-io-token",
        "npm-token",
    ] {
        let token = secret(rule);
        for text in [
            format!("ta{token}"),
            format!("x_{token}"),
            format!("x-{token}"),
        ] {
            assert_eq!(mask(&text), None, "{text}");
        }
    }
}

#[test]
fn several_secrets_are_each_masked_also_when_nothing_stands_between_them() {
    let (github, aws, key) = (
        secret("github-token"),
        secret("aws-access-key"),
        secret("model-api-key"),
    );
    let text =
        format!("{github} {aws}{github}\n{aws}{key} https://{github}:correct-horse@example.com");
    let found = SecretScanner::shared().find_secrets(&text);
    assert!(
        found
            .windows(2)
            .all(|two| two[0].range.end <= two[1].range.start)
    );
    assert_eq!(
        mask(&text).unwrap().text,
        "[secret masked: github-token] [secret masked: aws-access-key][secret masked: github-token]\n\
         [secret masked: aws-access-key][secret masked: model-api-key] \
         https://[secret masked: github-token]:[secret masked: url-password]@example.com"
    );
}

/// Generates text with parts of keywords and tokens, which random characters alone would hardly
/// form.
fn text() -> impl Strategy<Value = String> {
    let known: Vec<String> = secrets()
        .into_iter()
        .flat_map(|secret| {
            let half = secret.secret[..secret.secret.len() / 2].to_owned();
            [
                secret.secret.clone(),
                half,
                secret.before + &secret.secret + &secret.after,
            ]
        })
        .chain(rules().1)
        .collect();
    let piece = prop_oneof![
        proptest::sample::select(known),
        any::<String>(),
        "[A-Za-z0-9_.:/@=+ \\\\n-]{0,40}",
        Just("EXAMPLE".to_owned()),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_masked_text_holds_no_secret_and_keeps_the_rest(text in text()) {
        let scanner = SecretScanner::shared();
        let found = scanner.find_secrets(&text);
        let masked = mask(&text);
        prop_assert_eq!(found.is_empty(), masked.is_none());
        let Some(masked) = masked else { return Ok(()) };
        prop_assert_eq!(scanner.find_secrets(&masked.text), Vec::new());
        prop_assert_eq!(mask(&masked.text), None);
        // All text outside of the findings is kept, in order.
        let mut rest = masked.text.as_str();
        let mut at = 0;
        for finding in &found {
            prop_assert!(at <= finding.range.start && finding.range.start < finding.range.end);
            prop_assert!(text.is_char_boundary(finding.range.start) && text.is_char_boundary(finding.range.end));
            at = finding.range.end;
        }
        if masked.rules.len() == found.iter().map(|f| &f.rule).collect::<BTreeSet<_>>().len()
            && masked.text.matches("[secret masked: ").count() == found.len() + text.matches("[secret masked: ").count()
        {
            let mut at = 0;
            for finding in &found {
                let kept = &text[at..finding.range.start];
                prop_assert!(rest.starts_with(kept));
                let label = format!("[secret masked: {}]", finding.rule);
                prop_assert!(rest[kept.len()..].starts_with(&label));
                rest = &rest[kept.len() + label.len()..];
                at = finding.range.end;
            }
            prop_assert_eq!(rest, &text[at..]);
        }
    }
}

#[test]
fn a_text_made_to_be_slow_takes_time_in_proportion_to_its_length() {
    let more = [
        "://a:",
        "://a:b@",
        "eyJhbGciOiJI.",
        "eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9.",
        "sk-sk-",
        "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----!",
        "-----BEGIN PRIVATE KEY-----\naaaaaaaaaaaaaaaaaaaa\n",
        "-----BEGIN PRIVATE KEY-----\n-----END ",
        "github_pat_",
        "ghp_EXAMPLE",
        "1:AAAA",
        "\\nhf_",
        "secret_access_key = ",
        "Q~8Q~",
    ];
    for piece in rules().1.into_iter().chain(more.map(str::to_owned)) {
        let text = piece.repeat((256 << 10) / piece.len());
        let started = Instant::now();
        std::hint::black_box(SecretScanner::shared().find_secrets(&text));
        // The limit is generous, because a test build is 20 times slower than a release build. It
        // only detects quadratic cost.
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_secs(4), "{piece:?}: {elapsed:?}");
    }
}

/// Encodes as standard base64 without padding.
fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
    let sextets = bits.as_bytes().chunks(6).map(|six| {
        let six = format!("{:0<6}", String::from_utf8_lossy(six));
        usize::from_str_radix(&six, 2).unwrap()
    });
    sextets.map(|at| char::from(ALPHABET[at])).collect()
}

#[test]
fn a_request_with_a_secret_is_refused_by_part_and_rule_and_the_secret_is_not_said() {
    let token = secret("github-token");
    let hex: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let urls = [
        format!("https://example.com/?q={token}"),
        format!("https://example.com/{hex}"),
        format!("https://example.com/path/{}", base64(&token)),
        format!(
            "https://example.com/?q={}",
            base64(&format!("it is {token}, see"))
        ),
        format!(
            "https://example.com/?q={}",
            base64(&token).replace('/', "%2F")
        ),
    ];
    for url in &urls {
        let refused = check_request_for_secrets(&[("URL", url.as_bytes()), ("body", b"nothing")]);
        let why = refused.expect_err(url);
        assert!(why.contains("the URL (github-token)"), "{why}");
        assert!(!why.contains(&token) && !why.contains("body"), "{why}");
    }
    let mut body = vec![0xff, 0xfe];
    body.extend(token.bytes());
    let why = check_request_for_secrets(&[("header x-note", token.as_bytes()), ("body", &body)])
        .unwrap_err();
    assert!(
        why.contains("the header x-note (github-token) and the body (github-token)"),
        "{why}"
    );
}

#[test]
fn a_request_without_a_secret_goes_out() {
    let image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ".repeat(40);
    let parts: [(&str, &[u8]); 4] = [
        (
            "URL",
            b"https://api.example.com/v1/things/6f1ed002ab5595859014ebf0951522d9?q=100%25",
        ),
        ("header user-agent", b"guest/0.1"),
        ("body", image.as_bytes()),
        ("body", &[0, 159, 146, 150]),
    ];
    assert_eq!(check_request_for_secrets(&parts), Ok(()));
}
