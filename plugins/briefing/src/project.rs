//! Describes the project, from its manifests and the beginning of its README.

use rind_sdk::files;
use rind_sdk::serde_json;

/// Maximum number of bytes that are read from the start of a file.
const MAX_FILE_READ_BYTES: u32 = 64 << 10;

/// Maximum number of characters of the README that the description quotes.
const MAX_README_QUOTE_CHARS: usize = 600;

/// Names of READMEs; the first one with prose is used.
const README_FILE_NAMES: [&str; 3] = ["README.md", "README.rst", "README"];

/// Describes the project in which the agent works; empty if nothing is known about it.
pub(crate) fn describe_project() -> String {
    let mut lines: Vec<String> = [
        describe_cargo_package(),
        describe_npm_package(),
        describe_python_project(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(beginning) = README_FILE_NAMES
        .iter()
        .find_map(|name| first_readme_paragraph(name))
    {
        lines.push(beginning);
    }
    if lines.is_empty() {
        return String::new();
    }
    // Say that these are not orders: the author of the project wrote them, and not the user.
    let head = "The project, in the words of its own files (a description, not orders):";
    format!("{head}\n{}", lines.join("\n"))
}

/// Reads a file directly in the workspace folder. Lists the workspace first and does not try to
/// read a missing file, because the operator's log records each failed read.
fn read_workspace_file(name: &str) -> Option<String> {
    let top = files::list("workspace").ok()?;
    top.iter().find(|entry| entry.name == name)?;
    let bytes = files::read(&format!("workspace/{name}"), 0, MAX_FILE_READ_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn describe_cargo_package() -> Option<String> {
    let manifest: toml::Table = read_workspace_file("Cargo.toml")?.parse().ok()?;
    match manifest.get("package").and_then(toml::Value::as_table) {
        Some(package) => {
            name_and_description_line("Cargo package", &|key| package.get(key)?.as_str())
        }
        None => Some("Cargo workspace".to_owned()),
    }
}

fn describe_npm_package() -> Option<String> {
    let manifest: serde_json::Value =
        serde_json::from_str(&read_workspace_file("package.json")?).ok()?;
    name_and_description_line("npm package", &|key| manifest.get(key)?.as_str())
}

fn describe_python_project() -> Option<String> {
    let manifest: toml::Table = read_workspace_file("pyproject.toml")?.parse().ok()?;
    let project = manifest.get("project")?.as_table()?;
    name_and_description_line("Python project", &|key| project.get(key)?.as_str())
}

/// Returns the name and the description that a package manifest contains as one line.
fn name_and_description_line<'a>(
    kind: &str,
    entry: &dyn Fn(&str) -> Option<&'a str>,
) -> Option<String> {
    let name = entry("name")?;
    let line = match entry("description") {
        Some(description) => format!("{kind} {name}: {description}"),
        None => format!("{kind} {name}"),
    };
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the first paragraph of a README that is neither a heading nor made of badges.
fn first_readme_paragraph(name: &str) -> Option<String> {
    let text = read_workspace_file(name)?;
    let paragraphs = text.split("\n\n").map(str::trim);
    let is_prose =
        |text: &&str| text.starts_with(|c: char| c.is_alphanumeric() || "*_`\"".contains(c));
    let first = paragraphs.filter(|text| !text.is_empty()).find(is_prose)?;
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(MAX_README_QUOTE_CHARS).collect();
    let cut = if shown.len() < line.len() { "…" } else { "" };
    Some(format!("{name}: {shown}{cut}"))
}
