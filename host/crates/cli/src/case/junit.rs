//! Writes the JUnit report of cases in the form that GitLab, Jenkins and others show: one suite for
//! each plugin, and the reason of each failure as the failure's headline.

use std::path::{Path, PathBuf};

use rind_cases::suite::{CaseRunResult, PluginCoverage};

use super::report::{CaseReport, display_case_file_path};

/// Test cases of one plugin, which become one `<testsuite>` of the JUnit report.
struct JunitTestSuite<'a> {
    plugin: &'a str,
    /// Directory of the plugin. It distinguishes two plugins with the same name.
    folder: PathBuf,
    cases: Vec<&'a CaseRunResult>,
}

/// Renders the results of all test cases as a JUnit report in XML.
pub(super) fn render_junit_report(report: &CaseReport) -> String {
    let mut suites: Vec<JunitTestSuite<'_>> = Vec::new();
    for case in &report.cases {
        let folder = plugin_folder_of_case(case);
        let is_it =
            |suite: &&mut JunitTestSuite<'_>| suite.plugin == case.plugin && suite.folder == folder;
        match suites.iter_mut().find(is_it) {
            Some(suite) => suite.cases.push(case),
            None => suites.push(JunitTestSuite {
                plugin: &case.plugin,
                folder,
                cases: vec![case],
            }),
        }
    }
    let counts = test_count_attributes(&report.cases.iter().collect::<Vec<_>>());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"rind {} test\" {counts}>\n",
        report.of
    );
    for suite in &suites {
        let n_named = suites.iter().filter(|other| other.plugin == suite.plugin);
        let name = match n_named.count() {
            1 => suite.plugin.to_owned(),
            _ => format!("{} ({})", suite.plugin, suite.folder.display()),
        };
        let coverage = report.coverage.iter();
        let mut coverage = coverage.filter(|(plugin, _)| plugin == suite.plugin);
        let coverage = coverage.next().map(|(_, coverage)| coverage);
        text.push_str(&suite.render_testsuite_xml(&name, report, coverage));
    }
    text + "</testsuites>\n"
}

/// Returns the directory of the plugin that a case tests.
fn plugin_folder_of_case(case: &CaseRunResult) -> PathBuf {
    let above = case.file.parent().unwrap_or(Path::new(""));
    let is_tests = above.file_name().is_some_and(|name| name == "tests");
    let folder = if is_tests {
        above.parent()
    } else {
        Some(above)
    };
    folder.unwrap_or(above).to_owned()
}

/// Returns the XML attributes with the numbers of cases and their total time.
fn test_count_attributes(cases: &[&CaseRunResult]) -> String {
    let n_errors = cases.iter().filter(|case| case.is_error).count();
    let n_failed = cases.iter().filter(|case| !case.passed()).count();
    let seconds: f64 = cases.iter().map(|case| case.total.as_secs_f64()).sum();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{n_errors}\" skipped=\"0\" time=\"{seconds:.3}\"",
        cases.len(),
        n_failed - n_errors
    )
}

impl JunitTestSuite<'_> {
    fn render_testsuite_xml(
        &self,
        name: &str,
        report: &CaseReport,
        coverage: Option<&PluginCoverage>,
    ) -> String {
        let name = escape_xml(name);
        let started = report.started.strftime("%Y-%m-%dT%H:%M:%S");
        let mut text = format!(
            "  <testsuite name=\"{name}\" {} timestamp=\"{started}\" file=\"{}\">\n",
            test_count_attributes(&self.cases),
            escape_xml(&self.folder.display().to_string()),
        );
        let never = coverage.into_iter().flat_map(|coverage| {
            let names: Vec<&str> = coverage.uncalled_plugin_parts().collect();
            let unseen = coverage.untested_hook_outcomes();
            let unseen: Vec<String> = unseen
                .map(|(point, outcome)| format!("{point}:{outcome}"))
                .collect();
            [
                ("never-called".to_owned(), names.join(" ")),
                ("never-seen".to_owned(), unseen.join(" ")),
            ]
        });
        text.push_str(&render_properties_xml("    ", never));
        for case in &self.cases {
            text.push_str(&render_testcase_xml(case));
        }
        text + "  </testsuite>\n"
    }
}

fn render_testcase_xml(case: &CaseRunResult) -> String {
    let (plugin, name) = (escape_xml(&case.plugin), escape_xml(&case.name));
    let file = escape_xml(&display_case_file_path(case));
    let (line, seconds) = (case.line, case.total.as_secs_f64());
    let mut text = format!(
        "    <testcase classname=\"{plugin}\" name=\"{name}\" file=\"{file}\" line=\"{line}\" time=\"{seconds:.6}\">\n"
    );
    let memory = (
        "memory-bytes".to_owned(),
        case.cost.memory_bytes.to_string(),
    );
    let turn = (
        "turn-seconds".to_owned(),
        format!("{:.6}", case.cost.took.as_secs_f64()),
    );
    let calls = case.cost.host_calls.iter();
    let calls = calls.map(|(name, n)| (format!("host-calls.{name}"), n.to_string()));
    let all = [memory, turn].into_iter().chain(calls);
    text.push_str(&render_properties_xml("      ", all));
    if let Some(first) = case.failures.first() {
        let tag = if case.is_error { "error" } else { "failure" };
        let headline = escape_xml(first.lines().next().unwrap_or_default());
        let why = escape_xml(&format!("{file}:{line}\n{}", case.failures.join("\n")));
        text.push_str(&format!(
            "      <{tag} message=\"{headline}\" type=\"{tag}\">{why}</{tag}>\n"
        ));
    }
    if !case.log.is_empty() {
        let log = escape_xml(&case.log.join("\n"));
        text.push_str(&format!("      <system-out>{log}</system-out>\n"));
    }
    text + "    </testcase>\n"
}

fn render_properties_xml(indent: &str, all: impl Iterator<Item = (String, String)>) -> String {
    let lines: String = all
        .map(|(name, value)| {
            let (name, value) = (escape_xml(&name), escape_xml(&value));
            format!("{indent}  <property name=\"{name}\" value=\"{value}\"/>\n")
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("{indent}<properties>\n{lines}{indent}</properties>\n")
}

/// Escapes a text for XML. Control characters that XML forbids are dropped.
fn escape_xml(text: &str) -> String {
    let is_allowed = |c: &char| match c {
        '\n' | '\t' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_control(),
    };
    let entities = text.chars().filter(is_allowed).map(|c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' => "&#10;".to_owned(),
        other => other.to_string(),
    });
    entities.collect()
}
