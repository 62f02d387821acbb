//! A rewind that is killed at any moment: no file is half written, and the same rewind can run
//! again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rind_tests::cli::Rind;

/// Number of files in the workspace.
const N_FILES: usize = 300;

/// Delays between the first file that a rewind changes and the kill, in milliseconds.
const MOMENTS_MS: [u64; 8] = [0, 1, 3, 7, 15, 30, 60, 120];

fn add_files(folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, files);
        } else {
            let content = fs::read(&path).unwrap();
            files.insert(path.display().to_string(), content);
        }
    }
}

fn files(rind: &Rind) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    add_files(&rind.workspace(), &mut files);
    files
}

fn has_begun(rind: &Rind, n_rewinds: usize) -> bool {
    let sessions = fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let changes = sessions.filter_map(|entry| {
        let path = entry.unwrap().path().join("checkpoints/changes.jsonl");
        fs::read_to_string(path).ok()
    });
    let text: String = changes.collect();
    let is_begin = |line: &&str| line.contains("\"rewind\"") && line.contains("\"begin\"");
    text.lines().filter(is_begin).count() > n_rewinds
}

#[test]
fn a_rewind_that_is_killed_leaves_no_half_of_a_file_and_runs_again() {
    let command = "for f in old/*; do echo changed >> $f; done; rm old/1*; mv more moved; \
                   for n in $(seq 200); do echo new > new-$n; done";
    let rind = Rind::with_script(&format!(
        "[[reply]]\ntool_calls = [{{ name = \"bash\", arguments = {{ command = \"{command}\" }} }}]\n[[reply]]\ntext = \"Done.\"\n"
    ));
    for n in 0..N_FILES {
        let folder = if n % 3 == 0 { "more" } else { "old" };
        rind.file(&format!("{folder}/{n}"), &format!("{n}\n").repeat(1_000));
    }
    let before = files(&rind);
    rind.run(&["run", "--yes", "work"]).exits(0);
    let after = files(&rind);
    if after == before {
        // The command did not run because this machine cannot confine commands.
        return;
    }
    rind.script("[[reply]]\ntext = \"x\"\n");
    let call = ["run", "--resume", "last", "/rewind 1 files"];
    for (n_rewinds, moment) in MOMENTS_MS.into_iter().enumerate() {
        let mut running = rind.start(&call);
        running.wait_until(|rind| has_begun(rind, n_rewinds));
        std::thread::sleep(Duration::from_millis(moment));
        running.signal("KILL");
        drop(running);
        let now = files(&rind);
        if now == before {
            break;
        }
        // Each file has its content from before or after the turn. At most one temporary file is
        // left beside them.
        let is_known = |(path, content): &(&String, &Vec<u8>)| {
            before.get(*path) == Some(content) || after.get(*path) == Some(content)
        };
        let odd: Vec<_> = now.iter().filter(|file| !is_known(file)).collect();
        assert!(odd.len() <= 1, "{}", odd.len());
        assert!(odd.iter().all(|(path, _)| path.contains(".rind-rewind-")));
    }
    let ran = rind.run(&call).exits(0);
    assert!(!ran.stdout.contains("stay as they are"), "{}", ran.stdout);
    assert!(files(&rind) == before, "all files are as they were");
}
