//! Reads logins from `~/.netrc`, which pip and uv use for an index without a login in its address.
//!
//! The format is that of ftp (`netrc(5)`): words separated by white space. An entry `default`,
//! which applies to every host, is ignored: a login is sent only to a host that an entry names.

use std::path::PathBuf;

use super::{PackageClientEnvironment, read_settings_file};

/// Returns the login for a host as `USER:PASSWORD`.
///
/// # Errors
/// The file exists but cannot be read.
pub(super) fn find_netrc_login(
    environment: &PackageClientEnvironment,
    host: &str,
) -> anyhow::Result<Option<String>> {
    let named = environment.env_variable("NETRC").map(PathBuf::from);
    let Some(path) = named.or_else(|| environment.path_in_home_folder(".netrc")) else {
        return Ok(None);
    };
    let text = read_settings_file(&path)?;
    Ok(text.and_then(|text| find_host_login(&text, host)))
}

/// Returns the login in the first entry for the host.
fn find_host_login(text: &str, host: &str) -> Option<String> {
    let words = split_netrc_words(text);
    let mut words = words.iter().map(String::as_str);
    let (mut is_host, mut user, mut password) = (false, None, None);
    while let Some(word) = words.next() {
        match word {
            "machine" | "default" if is_host => break,
            "machine" => is_host = words.next()?.eq_ignore_ascii_case(host),
            "login" | "password" | "account" => {
                let value = words.next()?;
                match word {
                    "login" if is_host => user = Some(value),
                    "password" if is_host => password = Some(value),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let password = password.filter(|_| is_host)?;
    Some(format!("{}:{password}", user.unwrap_or_default()))
}

/// Splits the text into words and skips comments and macros. A word in double quotes may contain
/// white space, and a backslash in such a word escapes the next character.
fn split_netrc_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut in_macro = false;
    for line in text.lines() {
        // A macro ends with an empty line.
        in_macro &= !line.trim().is_empty();
        let mut rest = if in_macro { "" } else { line.trim_start() };
        while !rest.is_empty() && !rest.starts_with('#') {
            let (word, after) = split_first_word(rest);
            if word == "macdef" {
                in_macro = true;
                break;
            }
            words.push(word);
            rest = after.trim_start();
        }
    }
    words
}

fn split_first_word(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        return (word.to_owned(), rest);
    };
    let mut word = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => word.extend(characters.next()),
            _ => word.push(character),
        }
    }
    (word, characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_of_the_named_host_is_found_and_no_other() {
        let text = "# ours\nmachine a.example login u password p\nmacdef init\nmachine m.example password x\n\n\
                    machine B.example\n\tpassword \"p \\\" q\"\n\tlogin \"u v\"\n\
                    machine c.example login only\ndefault login anonymous password guest\n";
        for (host, login) in [
            ("a.example", Some("u:p")),
            ("b.example", Some("u v:p \" q")),
            ("c.example", None),
            ("m.example", None),
            ("d.example", None),
            ("example", None),
        ] {
            assert_eq!(find_host_login(text, host).as_deref(), login, "{host}");
        }
    }

    #[test]
    fn text_that_is_no_netrc_has_no_login() {
        for text in [
            "",
            "machine",
            "machine a",
            "machine a password",
            "password p",
            "\"",
            "machine a login \"\\",
        ] {
            assert_eq!(find_host_login(text, "a"), None, "{text}");
        }
    }
}
