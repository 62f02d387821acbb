//! Installations that are killed in the middle: afterwards the files on disk count as installed,
//! whether they are the old or the new ones.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rind_tests::cli::Rind;

use super::skill_install::{REVIEW, folder, install, skills};

/// System calls at which an installation is killed: renames into place, and the syncs before them.
const CALLS: [&str; 3] = ["renameat", "renameat2", "fsync"];

/// Runs a command under `strace`, which kills it at its call number `when` of this system call.
/// Returns whether the command was killed; `None` if `strace` does not work.
#[allow(clippy::print_stderr, reason = "a test that cannot run here says why")]
fn killed(rind: &Rind, args: &[&str], call: &str, when: usize) -> Option<bool> {
    let run = rind.command(args);
    let mut trace = Command::new("strace");
    trace
        .args(["--follow-forks", "--quiet=all", "--output=/dev/null"])
        .arg(format!("--trace={call}"))
        .arg(format!("--inject={call}:signal=KILL:when={when}"))
        .arg(run.get_program())
        .args(run.get_args())
        .env_clear()
        .envs(
            run.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(rind.workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let output = match trace.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped, `strace` cannot be run: {error}");
            return None;
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("strace:") {
        eprintln!("skipped: {told}");
        return None;
    }
    Some(output.status.code() != Some(0))
}

/// Names of temporary files beside the settings.
fn left(rind: &Rind) -> Vec<String> {
    let entries = fs::read_dir(rind.home().join("config")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn an_installation_that_is_killed_leaves_what_was_there_or_what_comes_and_blames_nobody() {
    let later = REVIEW.replace("a change", "changes");
    let (mut n_killed, mut seen) = (0, Vec::new());
    for call in CALLS {
        for when in 1..20 {
            let rind = Rind::default();
            let source = folder(&rind, "review", &[("SKILL.md", REVIEW)]);
            install(&rind, &source, &["--yes"]).exits(0);
            fs::write(source.join("SKILL.md"), &later).unwrap();
            let args = ["skill", "install", source.to_str().unwrap(), "--yes"];
            let Some(was_killed) = killed(&rind, &args, call, when) else {
                return;
            };
            let text = fs::read_to_string(skills(&rind).join("review/SKILL.md")).unwrap();
            assert!(text == REVIEW || text == later, "{call} {when}: {text}");
            seen.push(text);
            let list = rind.run(&["skill", "list"]).exits(0);
            assert!(
                list.stdout.contains("installed from") && !list.stdout.contains("changed since"),
                "{call} {when}: {}",
                list.stdout
            );
            install(&rind, &source, &["--yes"]).exits(0);
            assert_eq!(left(&rind), Vec::<String>::new(), "{call} {when}");
            let place: &Path = &skills(&rind).join("review/SKILL.md");
            assert_eq!(fs::read_to_string(place).unwrap(), later);
            rind.run(&["skill", "remove", "review"]).exits(0);
            if !was_killed {
                break;
            }
            n_killed += 1;
        }
    }
    assert!(n_killed >= 4, "{n_killed}");
    assert!(seen.iter().any(|text| text == REVIEW) && seen.contains(&later));
}

#[test]
fn an_update_of_a_plugin_that_is_killed_leaves_one_that_is_loaded() {
    let manifest = |version: &str| {
        format!("name = \"words\"\nversion = \"{version}\"\ndescription = \"Prompts.\"\n")
    };
    let mut n_killed = 0;
    for (call, when) in CALLS.into_iter().flat_map(|call| [(call, 1), (call, 2)]) {
        let rind = Rind::default();
        let files = [("plugin.toml", &*manifest("1.0.0")), ("prompts/a.md", "a")];
        let source = folder(&rind, "words", &files);
        let args = ["plugin", "install", source.to_str().unwrap()];
        rind.run(&args).exits(0);
        fs::write(source.join("plugin.toml"), manifest("1.1.0")).unwrap();
        let Some(was_killed) = killed(&rind, &args, call, when) else {
            return;
        };
        n_killed += usize::from(was_killed);
        let list = rind.run(&["plugin", "list"]).exits(0);
        assert!(
            list.stdout.contains("words"),
            "{call} {when}: {}",
            list.stdout
        );
        rind.run(&args).exits(0);
        let list = rind.run(&["plugin", "list"]).exits(0);
        assert!(
            list.stdout.contains("1.1.0"),
            "{call} {when}: {}",
            list.stdout
        );
        assert_eq!(left(&rind), Vec::<String>::new(), "{call} {when}");
    }
    assert!(n_killed >= 4, "{n_killed}");
}
