//! Detects texts that ask for a password, token, key or other secret, even in disguised spelling.
//!
//! This is a heuristic that refuses when in doubt. Start from [`label_asks_for_secret`].

use rind_lib::skill::normalize_skill_name;

/// Names of secrets that also match inside a longer word. They are spelled with the letters that
/// [`to_lookalike_latin_letter`] returns, so the Russian word begins with Latin letters.
const SECRET_NAME_SUBSTRINGS: [&str; 37] = [
    "password",
    "passwd",
    "passwort",
    "kennwort",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "credential",
    "cardnumber",
    "onetimecode",
    "verificationcode",
    "securitycode",
    "authenticator",
    "seedphrase",
    "recoveryphrase",
    "recoverycode",
    "backupcode",
    "mnemonic",
    "motdepasse",
    "contrasena",
    "palavrapasse",
    "losenord",
    "adgangskode",
    "wachtwoord",
    "salasana",
    "jelszo",
    "napoл",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
];

/// Names of a secret that match only a complete word, because they occur inside harmless words,
/// such as `senha` in the Portuguese `resenha`.
const SECRET_NAME_WHOLE_WORDS: [&str; 8] = [
    "senha", "senhas", "haslo", "hasla", "heslo", "hesla", "sifre", "sifreniz",
];

/// Names of a secret that match only a complete word, and only in names and labels, not in
/// sentences.
const WHOLE_WORD_SECRET_LABELS: [&str; 9] = [
    "key", "keys", "pin", "otp", "cvv", "cvc", "ssn", "iban", "pwd",
];

/// Whether a name or label asks for a secret. Also detects names such as `apiKey`, and letters of
/// other scripts that look like Latin ones.
pub(crate) fn label_asks_for_secret(text: &str) -> bool {
    let words = split_words(text);
    words
        .iter()
        .any(|word| WHOLE_WORD_SECRET_LABELS.contains(&word.as_str()))
        || sentence_asks_for_secret(text)
}

/// Whether a sentence asks for a secret. A single word such as `key` is allowed in a sentence,
/// unlike in a name or label, because it may have another meaning.
pub(crate) fn sentence_asks_for_secret(text: &str) -> bool {
    let words = split_words(text);
    let is_part = |word: &String| {
        SECRET_NAME_WHOLE_WORDS.contains(&word.as_str())
            || SECRET_NAME_SUBSTRINGS
                .iter()
                .any(|part| word.contains(part))
    };
    // Join neighboring words to find `api key` and `one time code`. Ignore words that join to
    // `token`, such as `to ken`.
    let is_split = |n: usize| {
        let mut groups = words.windows(n).map(<[String]>::concat);
        groups.any(|group| group != "token" && SECRET_NAME_SUBSTRINGS.contains(&group.as_str()))
    };
    words.iter().any(is_part) || is_split(2) || is_split(3)
}

/// Splits a text into lowercase words; `apiKey` becomes two words. Letters of other
/// scripts that look like Latin ones are replaced by the Latin ones, and consecutive single letters
/// are joined into one word.
fn split_words(text: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(text.len());
    let mut was_small = false;
    for c in text.chars() {
        if c.is_uppercase() && was_small {
            spaced.push(' ');
        }
        was_small = c.is_lowercase() || c.is_numeric();
        spaced.push(c);
    }
    let folded: String = normalize_skill_name(&spaced)
        .chars()
        .map(to_lookalike_latin_letter)
        .collect();
    let mut words: Vec<String> = Vec::new();
    let mut was_alone = false;
    for word in folded.split(|c: char| !c.is_alphanumeric()) {
        let is_alone = word.chars().count() == 1;
        match words.last_mut() {
            Some(last) if is_alone && was_alone => last.push_str(word),
            _ if word.is_empty() => continue,
            _ => words.push(word.to_owned()),
        }
        was_alone = is_alone;
    }
    words
}

fn to_lookalike_latin_letter(c: char) -> char {
    match c {
        'а' | 'α' | '@' | '4' | 'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'е' | 'ё' | 'ε' | '3' | 'é' | 'è' | 'ê' => 'e',
        'о' | 'ο' | '0' | 'ó' | 'ô' | 'ö' | 'ő' => 'o',
        'р' | 'ρ' => 'p',
        'с' | 'ç' => 'c',
        'ѕ' | '$' | '5' | 'ś' | 'š' | 'ş' => 's',
        'ł' => 'l',
        'к' | 'κ' => 'k',
        'у' | 'γ' => 'y',
        'і' | 'ι' | '1' => 'i',
        'т' | 'τ' | '7' => 't',
        'п' | 'η' | 'ñ' => 'n',
        'ԁ' => 'd',
        'ԝ' | 'ω' => 'w',
        other => other,
    }
}
