//! Reports of `rind plugin test` and `rind skill test` for other programs: JSON, and JUnit for CI.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use rind_cases::Cost;
use rind_cases::suite::{Coverage, Ran};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Format {
    Json,
    Junit,
}

/// Reads `FORMAT=FILE`.
pub(in super::super) fn parse(text: &str) -> Result<(Format, PathBuf), String> {
    match text.split_once('=') {
        Some(("json", file)) if !file.is_empty() => Ok((Format::Json, file.into())),
        Some(("junit", file)) if !file.is_empty() => Ok((Format::Junit, file.into())),
        _ => Err("write `json=FILE` or `junit=FILE`".to_owned()),
    }
}

/// Cases that were run, and the coverage of plugins by name.
#[derive(Debug)]
pub(in super::super) struct Report {
    /// Subject of the cases: `plugin` or `skill`.
    pub(in super::super) of: &'static str,
    pub(in super::super) cases: Vec<Ran>,
    pub(in super::super) coverage: Vec<(String, Coverage)>,
}

impl Report {
    /// A report without cases.
    pub(in super::super) fn of(of: &'static str) -> Self {
        Self {
            of,
            cases: Vec::new(),
            coverage: Vec::new(),
        }
    }

    pub(in super::super) fn write(&self, format: Format, file: &Path) -> anyhow::Result<()> {
        std::fs::write(file, self.text(format)?)
            .with_context(|| format!("write the report {}", file.display()))
    }

    pub(in super::super) fn text(&self, format: Format) -> anyhow::Result<String> {
        Ok(match format {
            Format::Json => serde_json::to_string_pretty(&self.json())? + "\n",
            Format::Junit => self.junit(),
        })
    }

    pub(in super::super) fn json(&self) -> Value {
        let cost = |cost: &Cost| {
            json!({
                "seconds": cost.took.as_secs_f64(),
                "memory_bytes": cost.memory_bytes,
                "host_calls": cost.host_calls,
            })
        };
        let cases = self.cases.iter().map(|case| {
            json!({
                self.of: case.plugin,
                "name": case.name,
                "place": place(case),
                "passed": case.passed(),
                "cost": cost(&case.cost),
                "last": case.last.as_ref().map(cost),
                "failures": case.failures,
            })
        });
        let counts = |all: &[(String, usize)]| -> Value {
            let counts = all.iter().map(|(name, n)| (name.clone(), json!(n)));
            Value::Object(counts.collect())
        };
        let coverage = self.coverage.iter().map(|(plugin, coverage)| {
            let counted = json!({
                "hooks": counts(&coverage.hooks),
                "tools": counts(&coverage.tools),
                "commands": counts(&coverage.commands),
                "loops": counts(&coverage.loops),
                "never_called": coverage.never_called().collect::<Vec<_>>(),
            });
            (plugin.clone(), counted)
        });
        json!({
            "cases": cases.collect::<Vec<_>>(),
            "coverage": Value::Object(coverage.collect()),
        })
    }

    fn junit(&self) -> String {
        let n_failed = self.cases.iter().filter(|case| !case.passed()).count();
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"rind {} test\" tests=\"{}\" failures=\"{n_failed}\">\n",
            self.of,
            self.cases.len()
        );
        let never = self.coverage.iter().map(|(plugin, coverage)| {
            let names: Vec<&str> = coverage.never_called().collect();
            (format!("never-called.{plugin}"), names.join(" "))
        });
        text.push_str(&properties("  ", never));
        for case in &self.cases {
            let (plugin, name) = (escaped(&case.plugin), escaped(&case.name));
            let seconds = case.cost.took.as_secs_f64();
            text.push_str(&format!(
                "  <testcase classname=\"{plugin}\" name=\"{name}\" time=\"{seconds:.6}\">\n"
            ));
            let memory = (
                "memory-bytes".to_owned(),
                case.cost.memory_bytes.to_string(),
            );
            let calls = case.cost.host_calls.iter();
            let calls = calls.map(|(name, n)| (format!("host-calls.{name}"), n.to_string()));
            text.push_str(&properties("    ", [memory].into_iter().chain(calls)));
            if !case.passed() {
                let (place, why) = (escaped(&place(case)), escaped(&case.failures.join("\n")));
                text.push_str(&format!(
                    "    <failure message=\"{place}\">{why}</failure>\n"
                ));
            }
            text.push_str("  </testcase>\n");
        }
        text + "</testsuite>\n"
    }
}

/// `FILE:LINE` of a case.
pub(in super::super) fn place(case: &Ran) -> String {
    let path = case.file.display().to_string();
    let path = path.strip_prefix("./").unwrap_or(&path);
    format!("{path}:{}", case.line)
}

fn properties(indent: &str, all: impl Iterator<Item = (String, String)>) -> String {
    let lines: String = all
        .map(|(name, value)| {
            let (name, value) = (escaped(&name), escaped(&value));
            format!("{indent}  <property name=\"{name}\" value=\"{value}\"/>\n")
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("{indent}<properties>\n{lines}{indent}</properties>\n")
}

/// Escapes a text for XML. Other control characters have no place in it at all.
fn escaped(text: &str) -> String {
    let shown = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    let entities = shown.map(|c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' => "&#10;".to_owned(),
        other => other.to_string(),
    });
    entities.collect()
}
