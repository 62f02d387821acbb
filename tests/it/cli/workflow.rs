//! The workflow of a new plugin, run step by step as a CI service would: in a fresh clone, on a machine without a home folder and
//! without the program, which the first step fetches.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rind::front_matter::parse_yaml_document;
use rind_tests::cli::{Rind, program};
use serde_json::Value;

use crate::examples::{LANGUAGES, has};

/// Commands that fetch compilers, which are already on the search path in tests.
const FETCHES: [&str; 3] = ["rustup target add", "npm install", "python3 -m venv"];

/// A job of a CI service.
struct Job {
    /// Folder of the clone, in which steps run.
    folder: PathBuf,
    /// Value of `RUNNER_TEMP`.
    temp: PathBuf,
    /// Folders that steps prepend to the search path.
    paths: Vec<String>,
    /// Environment variables of all steps, including those that earlier steps set.
    variables: BTreeMap<String, String>,
}

impl Job {
    fn new(rind: &Rind, folder: &Path) -> Self {
        let temp = rind.workspace().join("runner");
        fs::create_dir_all(&temp).unwrap();
        let mut variables =
            BTreeMap::from([("RUNNER_TEMP".to_owned(), temp.display().to_string())]);
        // The job uses this machine's toolchain; a real runner has one in its home folder.
        let machine = std::env::var("HOME").unwrap_or_default();
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let own = std::env::var(name).unwrap_or(format!("{machine}/{folder}"));
            variables.insert(name.to_owned(), own);
        }
        for name in ["RUSTUP_TOOLCHAIN", "PYENV_ROOT"] {
            variables.extend(std::env::var(name).map(|value| (name.to_owned(), value)));
        }
        Self {
            folder: folder.to_owned(),
            temp,
            paths: Vec::new(),
            variables,
        }
    }

    /// Runs one step, which must succeed, and takes over the folders and variables that it sets.
    fn run(&mut self, script: &str, of_step: &BTreeMap<String, String>) {
        let (succeeds, said) = self.try_step(script, of_step);
        assert!(succeeds, "{script}\n{said}");
        let set = |file: &str| fs::read_to_string(self.temp.join(file)).unwrap();
        let (paths, variables) = (set("path"), set("env"));
        self.paths.splice(0..0, paths.lines().map(str::to_owned));
        let variables = variables.lines().filter_map(|line| line.split_once('='));
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.variables.extend(variables);
    }

    /// Runs one step. Returns whether it succeeds, and its output.
    fn try_step(&self, script: &str, of_step: &BTreeMap<String, String>) -> (bool, String) {
        let (paths, variables) = (self.temp.join("path"), self.temp.join("env"));
        for file in [&paths, &variables] {
            fs::write(file, "").unwrap();
        }
        // The first step fetches the program, so folders that already hold one are not on the
        // search path.
        let path = std::env::var("PATH").unwrap();
        let path: Vec<&str> = path
            .split(':')
            .filter(|folder| !Path::new(folder).join("rind").is_file())
            .collect();
        let path = path.join(":");
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(&self.folder)
            .env_clear()
            .envs(&self.variables)
            .envs(of_step)
            .env("PATH", [&self.paths[..], &[path]].concat().join(":"))
            .env("GITHUB_PATH", &paths)
            .env("GITHUB_ENV", &variables)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.success(), said)
    }
}

/// The steps of the only job of a workflow.
fn steps(workflow: &str) -> Vec<Value> {
    let document = parse_yaml_document(workflow).unwrap_or_else(|fault| panic!("{fault:?}"));
    let jobs = document.get("jobs").unwrap().node.to_json_value();
    let jobs = jobs.as_object().unwrap();
    assert_eq!(jobs.len(), 1);
    let job = jobs.values().next().unwrap();
    job["steps"].as_array().unwrap().clone()
}

/// Makes an archive like that of a release, and returns its URL and checksum.
fn release(rind: &Rind) -> (String, String) {
    let folder = rind.workspace().join("release");
    let bin = folder.join("rind-0.1.0/bin");
    fs::create_dir_all(&bin).unwrap();
    // A script stands in for the program, which has hundreds of megabytes in a test build.
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", program().display());
    fs::write(bin.join("rind"), script).unwrap();
    fs::set_permissions(bin.join("rind"), fs::Permissions::from_mode(0o755)).unwrap();
    let archive = folder.join("rind.tar.gz");
    let packed = Command::new("tar")
        .args(["--create", "--gzip", "--file"])
        .arg(&archive)
        .args(["--directory", folder.to_str().unwrap(), "rind-0.1.0"])
        .status();
    assert!(packed.unwrap().success());
    let summed = Command::new("sha256sum").arg(&archive).output().unwrap();
    let summed = String::from_utf8(summed.stdout).unwrap();
    let digest = summed.split(' ').next().unwrap().to_owned();
    (format!("file://{}", archive.display()), digest)
}

/// Commits a folder to a new repository and clones that.
fn clone(from: &Path, to: &Path) {
    let script = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm first && git clone -q . \"$1\"";
    let cloned = Command::new("bash")
        .args(["-ec", script, "clone", to.to_str().unwrap()])
        .current_dir(from)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status();
    assert!(cloned.unwrap().success());
}

#[test]
#[allow(
    clippy::print_stderr,
    reason = "a test that leaves something out says why"
)]
fn the_workflow_of_a_new_plugin_runs_in_a_fresh_clone_without_a_home_folder() {
    if !has("git") || !has("curl") {
        return;
    }
    for (lang, tools) in LANGUAGES {
        if !tools.iter().all(|tool| has(tool)) {
            continue;
        }
        let rind = Rind::author();
        let made = rind.run(&["plugin", "new", "made", "--lang", lang, "--kind", "tool"]);
        made.exits(0);
        let (origin, folder) = (
            rind.workspace().join("made"),
            rind.workspace().join("clone"),
        );
        clone(&origin, &folder);
        let (url, digest) = release(&rind);
        let workflow = fs::read_to_string(folder.join(".github/workflows/plugin.yml")).unwrap();
        let mut job = Job::new(&rind, &folder);
        rind.share_builds_with(&job.temp.join("rind-home"));
        let mut n_run = 0;
        for step in steps(&workflow) {
            let Some(script) = step["run"].as_str() else {
                assert!(step["uses"].is_string(), "{step}");
                continue;
            };
            if FETCHES.iter().any(|command| script.starts_with(command)) {
                eprintln!("left out, since the tools are there: {script}");
                continue;
            }
            let own = step["env"].as_object().into_iter().flatten();
            let mut own: BTreeMap<String, String> = own
                .map(|(name, value)| {
                    let value = value.as_str().unwrap();
                    let value = value.replace("${{ vars.RIND_URL }}", &url);
                    (
                        name.clone(),
                        value.replace("${{ vars.RIND_SHA256 }}", &digest),
                    )
                })
                .collect();
            assert!(own.values().all(|value| !value.contains("${{")), "{own:?}");
            // What a step with cargo compiles natively is kept between test runs, and has no debug
            // information: it is compiled in less time.
            if script.starts_with("cargo ") {
                let target = std::env::var("CARGO_TARGET_DIR").ok();
                let kept = target.map(|shared| format!("{shared}/made/workflow"));
                own.extend(kept.map(|folder| ("CARGO_TARGET_DIR".to_owned(), folder)));
                own.insert("CARGO_PROFILE_DEV_DEBUG".to_owned(), "false".to_owned());
            }
            job.run(script, &own);
            n_run += 1;
        }
        assert!(n_run >= 5, "{n_run}");
        // The last step uploads this report.
        let report = fs::read_to_string(folder.join("report.xml")).unwrap();
        assert!(
            report.contains("<testsuite ") && !report.contains("<failure"),
            "{report}"
        );
        let packed = fs::read_dir(&folder).unwrap().flatten();
        let n_components = packed
            .filter(|file| file.path().extension().is_some_and(|end| end == "wasm"))
            .count();
        assert!(
            n_components >= 2,
            "{lang}: the component and the packed plugin"
        );
        assert!(
            job.temp.join("rind-home/data").is_dir(),
            "not in a home folder"
        );
    }
}

#[test]
fn an_archive_with_another_checksum_ends_the_workflow_at_its_first_step() {
    if !has("curl") {
        return;
    }
    let rind = Rind::default();
    rind.run(&["plugin", "new", "made"]).exits(0);
    let folder = rind.workspace().join("made");
    let (url, _) = release(&rind);
    let workflow = fs::read_to_string(folder.join(".github/workflows/plugin.yml")).unwrap();
    let all = steps(&workflow);
    let install = all
        .iter()
        .find(|step| step["name"] == "Install rind")
        .unwrap();
    let job = Job::new(&rind, &folder);
    let script = install["run"].as_str().unwrap();
    for (url, digest, why) in [
        (url.as_str(), "0".repeat(64), "FAILED"),
        (
            "",
            String::new(),
            "set the variables RIND_URL and RIND_SHA256",
        ),
    ] {
        let own = [("URL", url.to_owned()), ("SHA256", digest)];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let (succeeds, said) = job.try_step(script, &own.into());
        assert!(!succeeds && said.contains(why), "{said}");
        let paths = fs::read_to_string(job.temp.join("path")).unwrap();
        assert_eq!(paths, "", "nothing is on the path: {said}");
    }
}
