//! Lists programs that start others: those in `starters.txt`, and those whose arguments are parsed
//! (see `nested.rs`).

use std::sync::LazyLock;

use super::nested::{COMMAND_WRAPPER_PROGRAMS, SHELL_PROGRAM_NAMES};

/// Lists of programs that start other programs, by name or by prefix (an entry that ends in `*`).
struct ProgramLauncherLists {
    /// Programs that start a program named in their arguments.
    runs: Vec<&'static str>,
    /// Programs that can take a command, or a script in a language that can run commands, in an
    /// argument.
    scripts: Vec<&'static str>,
}

static PROGRAM_LAUNCHER_LISTS: LazyLock<ProgramLauncherLists> = LazyLock::new(|| {
    let lines = include_str!("starters.txt").lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    let section = |title: &str| {
        let behind = lines.iter().skip_while(|line| **line != title).skip(1);
        let names = behind.take_while(|line| !line.starts_with('['));
        names.copied().filter(|name| !name.is_empty()).collect()
    };
    ProgramLauncherLists {
        runs: section("[runs]"),
        scripts: section("[scripts]"),
    }
});

/// Returns the base name of a program path.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether a program starts other programs named in its arguments and `nested.rs` does not parse
/// these arguments.
pub(in super::super) fn is_launcher_with_unparsed_arguments(program: &str) -> bool {
    let name = base_name(program);
    // `nested.rs` parses the arguments of `bash` and `env`, but not those of programs whose names
    // contain a version, such as `bash-5.2` and `env9`.
    let is_read = |name: &str| {
        SHELL_PROGRAM_NAMES.contains(&name) || COMMAND_WRAPPER_PROGRAMS.iter().any(|w| w.0 == name)
    };
    let is_of_version = strip_version_suffix(name) != name && is_read(strip_version_suffix(name));
    is_of_version || (!is_read(name) && is_program_in_list(&PROGRAM_LAUNCHER_LISTS.runs, name))
}

/// Whether a program starts another program that its arguments name. A rule that allowed such a
/// program with any arguments would allow every command.
pub(crate) fn is_program_launcher(program: &str) -> bool {
    let name = base_name(program);
    is_launcher_with_unparsed_arguments(name)
        || SHELL_PROGRAM_NAMES.contains(&name)
        || name == "eval"
        || COMMAND_WRAPPER_PROGRAMS
            .iter()
            .any(|(wrapper, ..)| *wrapper == name)
}

/// Whether a program may run other programs or scripts, so that its first argument does not show
/// what a call does.
pub(super) fn may_run_other_programs(program: &str) -> bool {
    let name = base_name(program);
    is_program_launcher(name)
        || name == "find"
        || is_program_in_list(&PROGRAM_LAUNCHER_LISTS.scripts, name)
}

fn is_program_in_list(list: &[&str], name: &str) -> bool {
    let bare = strip_version_suffix(name);
    list.iter().any(|listed| match listed.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => *listed == name || *listed == bare,
    })
}

/// Removes the version from the end of a program's name: `python` for `python3.12`.
fn strip_version_suffix(name: &str) -> &str {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
    if bare.is_empty() { name } else { bare }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_start_others_are_known_by_name_version_and_beginning() {
        for name in [
            "sudo",
            "/usr/bin/ssh-agent",
            "x86_64",
            "/lib64/ld-linux-x86-64.so.2",
            "ld-musl-x86_64.so.1",
            "rbash",
            "bash-5.2",
            "busybox",
            "cross-env",
        ] {
            assert!(is_launcher_with_unparsed_arguments(name), "{name}");
        }
        for name in ["bash", "env", "timeout", "git", "cargo", "ls", "[", "7z"] {
            assert!(!is_launcher_with_unparsed_arguments(name), "{name}");
        }
        for name in ["python3.12", "gawk", "make", "find", "sh", "perl5.36.0"] {
            assert!(may_run_other_programs(name), "{name}");
        }
        for name in ["git", "cargo", "ls", "grep", "cat"] {
            assert!(!may_run_other_programs(name), "{name}");
        }
    }

    #[test]
    fn the_lists_are_sorted_and_name_each_program_once() {
        for list in [
            &PROGRAM_LAUNCHER_LISTS.runs,
            &PROGRAM_LAUNCHER_LISTS.scripts,
        ] {
            assert!(list.len() > 100 && list.is_sorted());
            assert!(list.windows(2).all(|pair| pair[0] != pair[1]));
        }
        assert!(
            PROGRAM_LAUNCHER_LISTS
                .runs
                .iter()
                .all(|name| !PROGRAM_LAUNCHER_LISTS.scripts.contains(name))
        );
    }
}
