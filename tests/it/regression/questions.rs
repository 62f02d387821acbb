//! Tests of questions to the user: their text, the scope of the answer, and the settings and
//! plugins that load after it.

mod answers;
mod grammar;
mod rules;
mod screen;
mod trust;

use rind_tests::cli::Rind;

/// Returns the text of a terminal's screen without color codes.
fn plain(screen: &str) -> String {
    let mut plain = String::new();
    let mut rest = screen;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

/// Creates a machine whose model runs these commands, one in each step.
fn with_commands(commands: &[&str]) -> Rind {
    let mut script = String::new();
    for command in commands {
        let arguments = toml::Value::Table(
            [("command".to_owned(), toml::Value::from(*command))]
                .into_iter()
                .collect(),
        );
        script.push_str(&format!(
            "[[reply]]\ntool_calls = [{{ name = \"bash\", arguments = {arguments} }}]\n"
        ));
    }
    script.push_str("[[reply]]\ntext = \"So it is.\"\n");
    Rind::with_script(&script)
}

/// Creates a machine whose model writes these files, one in each step.
fn with_writes(files: &[(&str, &str)]) -> Rind {
    let mut script = String::new();
    for (path, content) in files {
        let arguments = toml::Value::Table(
            [("path", *path), ("content", *content)]
                .map(|(key, value)| (key.to_owned(), toml::Value::from(value)))
                .into_iter()
                .collect(),
        );
        script.push_str(&format!(
            "[[reply]]\ntool_calls = [{{ name = \"write_file\", arguments = {arguments} }}]\n"
        ));
    }
    script.push_str("[[reply]]\ntext = \"So it is.\"\n");
    Rind::with_script(&script)
}
