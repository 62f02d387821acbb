//! Finds faults in the operator's settings that would otherwise go unnoticed: lists that another
//! settings file replaces, and misspelled environment variables.
//!
//! The faults are reported at the start of a run and by `rind doctor`.

use super::environment::OperatorEnvironment;
use rind_lib::config::Config;
use rind_lib::near::find_nearest_name;

/// Prefix of the names of variables that belong to Rind.
const RIND_VARIABLE_PREFIX: &str = "RIND_";

/// Names of the environment variables that Rind reads.
const KNOWN_RIND_VARIABLES: &[&str] = &[
    "RIND_COMPLETE",
    "RIND_GUARD_START",
    "RIND_HOME",
    "RIND_LOG",
    "RIND_MANAGED",
    "RIND_PLAIN",
];

/// Returns a message about each environment variable whose name is similar to the name of a
/// variable that Rind reads. Ignores other unknown names, which may belong to programs that start
/// Rind.
#[must_use]
pub fn find_misspelled_variables(environment: &OperatorEnvironment) -> Vec<String> {
    let names = environment.variables.keys();
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.to_uppercase().starts_with(RIND_VARIABLE_PREFIX))
        .filter(|name| !KNOWN_RIND_VARIABLES.contains(&name.as_str()))
        .collect();
    names.sort();
    let told = names.iter().filter_map(|name| {
        let meant = find_nearest_name(name, KNOWN_RIND_VARIABLES.iter().copied())?;
        let name = name.escape_debug();
        Some(format!(
            "the environment variable `{name}` is unknown, so it has no effect; did you mean `{meant}`?"
        ))
    });
    told.collect()
}

/// Returns a message about each list in a settings file that another file in the same folder
/// replaces.
#[must_use]
pub fn describe_overridden_list_settings(config: &Config) -> Vec<String> {
    config.describe_overridden_json_lists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_near_a_known_one_are_told() {
        let names = [
            "RIND_HOM",
            "RIND_MANGED",
            "rind_log",
            "RIND_HOME",
            "RIND_BLESS",
            "RIND_TEST_TOKEN",
            "RING_HOME",
        ];
        let environment = OperatorEnvironment {
            variables: names.map(|name| (name.into(), "x".into())).into(),
            ..OperatorEnvironment::default()
        };
        let told = find_misspelled_variables(&environment);
        let meant = ["RIND_HOME", "RIND_MANAGED", "RIND_LOG"];
        assert_eq!(told.len(), meant.len(), "{told:?}");
        for (told, meant) in told.iter().zip(meant) {
            assert!(told.contains(&format!("did you mean `{meant}`?")), "{told}");
        }
    }
}
