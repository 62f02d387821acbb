//! Faults of plugins: a line each, as compilers print them, so that editors find the place.

use serde_json::json;

use super::{BAD, BOLD, DIM, GOOD, answer_line, count, printable, say, styled};
use rind_check::{Checked, Fault};

/// Prints the faults on standard output and their number on standard error.
pub(in super::super) fn report(all: &[Checked], n_fixed: usize) {
    let faults = || all.iter().flat_map(|checked| &checked.faults);
    faults().for_each(|fault| answer_line(line(fault)));
    let n_plugins = count(all.len() as u64, "plugin");
    let n_faults = faults().count();
    let n_fixable = faults().filter(|fault| fault.fix.is_some()).count();
    if n_faults == 0 {
        say(format_args!(
            "{} {n_plugins} checked, no faults",
            styled(GOOD, "✓")
        ));
        return;
    }
    let mut text = format!("{n_plugins} checked, {}", count(n_faults as u64, "fault"));
    if n_fixable > 0 && n_fixed == 0 {
        text.push_str(&format!("; `--fix` corrects {n_fixable}"));
    }
    say(format_args!("{} {text}", styled(BAD, "✗")));
}

pub(in super::super) fn fixed(fault: &Fault) {
    say(format_args!("{} {}", styled(GOOD, "fixed"), line(fault)));
}

fn line(fault: &Fault) -> String {
    let mut place = fault.path.display().to_string();
    place = place.strip_prefix("./").map(str::to_owned).unwrap_or(place);
    if let Some(line) = fault.line {
        place.push_str(&format!(":{line}"));
    }
    format!(
        "{}: {} {}",
        styled(BOLD, printable(&place)),
        printable(&fault.message),
        styled(DIM, format_args!("[{}]", fault.rule))
    )
}

pub(in super::super) fn json(all: &[Checked]) -> anyhow::Result<()> {
    let plugin = |checked: &Checked| {
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
    super::json(&json!({"plugins": plugins}))
}
