//! Reports faults of plugins, one line each in the format of compilers, so that editors find the
//! place.

use serde_json::json;

use super::annotation::{GithubAnnotation, print_github_annotation};
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, format_count_with_noun, print_stderr_line,
    print_stdout_line, printable_text, style_text,
};
use rind_check::{PluginCheckResult, PluginFault};

/// Prints the faults to standard output and their number to standard error.
pub(in super::super) fn report_plugin_faults(all: &[PluginCheckResult], n_fixed: usize) {
    let faults = || all.iter().flat_map(|checked| &checked.faults);
    faults().for_each(|fault| print_stdout_line(format_fault_line(fault)));
    let n_plugins = format_count_with_noun(all.len() as u64, "plugin");
    let n_faults = faults().count();
    let n_fixable = faults().filter(|fault| fault.fix.is_some()).count();
    if n_faults == 0 {
        print_stderr_line(format_args!(
            "{} {n_plugins} checked, no faults",
            style_text(SUCCESS_STYLE, "✓")
        ));
        return;
    }
    let mut text = format!(
        "{n_plugins} checked, {}",
        format_count_with_noun(n_faults as u64, "fault")
    );
    if n_fixable > 0 && n_fixed == 0 {
        text.push_str(&format!("; `--fix` corrects {n_fixable}"));
    }
    print_stderr_line(format_args!("{} {text}", style_text(ERROR_STYLE, "✗")));
}

pub(in super::super) fn print_repaired_fault(fault: &PluginFault) {
    print_stderr_line(format_args!(
        "{} {}",
        style_text(SUCCESS_STYLE, "fixed"),
        format_fault_line(fault)
    ));
}

fn format_fault_line(fault: &PluginFault) -> String {
    let mut place = fault.path.display().to_string();
    place = place.strip_prefix("./").map(str::to_owned).unwrap_or(place);
    if let Some(line) = fault.line {
        place.push_str(&format!(":{line}"));
    }
    format!(
        "{}: {} {}",
        style_text(BOLD_STYLE, printable_text(&place)),
        printable_text(&fault.message),
        style_text(DIM_STYLE, format_args!("[{}]", fault.rule))
    )
}

/// Prints each fault of a plugin as an annotation for GitHub.
pub(in super::super) fn print_faults_as_github_annotations(all: &[PluginCheckResult]) {
    for fault in all.iter().flat_map(|checked| &checked.faults) {
        let path = fault.path.display().to_string();
        print_github_annotation(&GithubAnnotation {
            file: path.strip_prefix("./").unwrap_or(&path).to_owned(),
            line: fault.line,
            title: format!("rind plugin check: {}", fault.rule),
            message: fault.message.clone(),
        });
    }
}

pub(in super::super) fn print_json(all: &[PluginCheckResult]) -> anyhow::Result<()> {
    let plugin = |checked: &PluginCheckResult| {
        let faults = checked.faults.iter().map(|fault| {
            let mut value = serde_json::to_value(fault)?;
            value["is_fixable"] = fault.fix.is_some().into();
            Ok(value)
        });
        let faults = faults.collect::<serde_json::Result<Vec<_>>>()?;
        Ok(json!({"name": checked.name, "folder": checked.folder, "faults": faults}))
    };
    let plugins = all
        .iter()
        .map(plugin)
        .collect::<serde_json::Result<Vec<_>>>()?;
    super::print_json(&json!({"plugins": plugins}))
}
