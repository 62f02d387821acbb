//! Secrets for tests. They are assembled at run time, so that no source contains one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Value;

#[derive(Deserialize)]
struct Samples {
    alphabets: BTreeMap<String, String>,
    secrets: Vec<Sample>,
    harmless: Vec<Harmless>,
}

#[derive(Deserialize)]
struct Sample {
    rule: String,
    #[serde(default = "alnum")]
    alphabet: String,
    /// Pieces of the secret: fixed texts, and numbers of characters from the alphabet.
    pieces: Vec<Value>,
    #[serde(default)]
    around: (String, String),
}

/// Texts that hold no secret.
#[derive(Deserialize)]
pub struct Harmless {
    /// Kind of the texts.
    pub what: String,
    /// Texts without a secret.
    pub texts: Vec<String>,
}

/// A secret, and the text around it.
pub struct Secret {
    /// Id of the rule that finds it.
    pub rule: String,
    /// Text before the secret.
    pub before: String,
    /// Text that is masked.
    pub secret: String,
    /// Text after the secret.
    pub after: String,
}

fn alnum() -> String {
    "alnum".to_owned()
}

fn samples() -> Samples {
    toml::from_str(include_str!("secrets/samples.toml")).unwrap()
}

/// Returns one or more secrets for every rule.
#[must_use]
pub fn secrets() -> Vec<Secret> {
    let samples = samples();
    let secret = |sample: &Sample| {
        let alphabet = &samples.alphabets[&sample.alphabet];
        // Each piece continues in the alphabet after the previous one, so that a token does not
        // repeat.
        let mut random = alphabet.chars().cycle();
        let mut piece = |piece: &Value| match piece {
            Value::Integer(n) => random.by_ref().take(usize::try_from(*n).unwrap()).collect(),
            text => text.as_str().unwrap().to_owned(),
        };
        Secret {
            rule: sample.rule.clone(),
            before: sample.around.0.clone(),
            secret: sample.pieces.iter().map(&mut piece).collect(),
            after: sample.around.1.clone(),
        }
    };
    samples.secrets.iter().map(secret).collect()
}

/// Returns the first secret of a rule.
#[must_use]
pub fn secret(rule: &str) -> String {
    let found = secrets().into_iter().find(|secret| secret.rule == rule);
    found
        .unwrap_or_else(|| panic!("there is no sample of `{rule}`"))
        .secret
}

/// Returns texts that must not be masked.
#[must_use]
pub fn harmless() -> Vec<Harmless> {
    samples().harmless
}

/// Returns the ids of the rules and all of their keywords.
#[must_use]
pub fn rules() -> (BTreeSet<String>, Vec<String>) {
    let rules: toml::Table =
        toml::from_str(include_str!("../host/crates/base/src/secret/rules.toml")).unwrap();
    let rules = rules["rules"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let keywords = |rule: &Value| rule["keywords"].as_array().unwrap().clone();
    (
        rules.iter().map(|rule| text(&rule["id"])).collect(),
        rules
            .iter()
            .flat_map(keywords)
            .map(|word| text(&word))
            .collect(),
    )
}
