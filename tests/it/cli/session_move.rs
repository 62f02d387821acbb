//! `rind session export` and `import`: what leaves the store and what enters it.

use std::fs;
use std::path::{Path, PathBuf};

use rind_tests::cli::Rind;
use rind_tests::secrets::secret;

use super::session_look::only;

/// A machine with one session in which the model writes a secret and a script. Returns the folder
/// of all sessions and the session's id as well.
fn machine() -> (Rind, PathBuf, String) {
    let token = secret("github-token");
    let rind = Rind::with_script(&format!(
        "[[reply]]\ntext = \"</pre><script>alert(1)</script> {token}\"\n"
    ));
    rind.run(&["run", "say <b>it</b>\n```\n# not a heading"])
        .exits(0);
    let (sessions, id) = only(&rind);
    (rind, sessions, id)
}

/// Adds a plugin's blob and the session of a holder below `agents`, so that the session is exported
/// as an archive.
fn widen(folder: &Path) {
    let held = folder.join("agents/held-1");
    fs::create_dir_all(&held).unwrap();
    fs::copy(folder.join("session.jsonl"), held.join("session.jsonl")).unwrap();
    fs::create_dir_all(folder.join("blobs")).unwrap();
    let name = rind::message::Blob::from_bytes(b"value", "text/plain").id;
    fs::write(folder.join("blobs").join(&name), "value").unwrap();
}

/// Every file of a folder except the lock, with its path and content.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let below = files(&path).into_iter();
            all.extend(below.map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
        } else if name != "lock" {
            all.push((name, fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

fn export(rind: &Rind, id: &str, format: &str, file: &str) -> PathBuf {
    rind.run(&["session", "export", id, "--format", format, "-o", file])
        .exits(0);
    rind.workspace().join(file)
}

#[test]
fn the_bytes_of_a_session_are_not_written_to_a_terminal() {
    let (rind, _, id) = machine();
    let args = ["session", "export", &id, "--format", "jsonl"];
    let Some(shown) = rind.at_terminal_then(&args, "echo code $?", Vec::new()) else {
        return;
    };
    assert!(shown.contains("code 2"), "{shown}");
    assert!(shown.contains("pass -o"), "{shown}");
    assert!(!shown.contains("alert(1)"), "{shown}");
    // A pipe gets the bytes.
    assert!(rind.run(&args).exits(0).stdout.contains("alert(1)"));
}

#[test]
fn pages_for_people_mask_secrets_and_escape_everything() {
    let (rind, _, id) = machine();
    let page = fs::read_to_string(export(&rind, &id, "html", "page.html")).unwrap();
    assert!(
        !page.contains("<script") && !page.contains("<b>it"),
        "{page}"
    );
    assert!(page.contains("&lt;/pre&gt;&lt;script&gt;"), "{page}");
    assert!(page.contains("default-src 'none'"), "{page}");
    let markdown = rind.run(&["session", "export"]).exits(0).stdout;
    assert!(
        markdown.contains("````text\nsay <b>it</b>\n```\n# not a heading\n````"),
        "{markdown}"
    );
    for text in [&page, &markdown] {
        assert!(!text.contains(&secret("github-token")), "{text}");
        assert!(text.contains("secret masked"), "{text}");
    }
}

#[test]
fn the_page_of_a_session_is_a_file_that_needs_no_server() {
    let (rind, _, id) = machine();
    let args = ["session", "show", &id, "--html", "page.html"];
    let ran = rind.run(&args).exits(0);
    assert!(ran.stderr.contains("wrote page.html"), "{}", ran.stderr);
    let page = fs::read_to_string(rind.workspace().join("page.html")).unwrap();
    for words in ["<script", "<b>it", "<form", "<link", "http://", "https://"] {
        assert!(!page.contains(words), "{words}\n{page}");
    }
    assert!(page.contains("&lt;/pre&gt;&lt;script&gt;"), "{page}");
    assert!(
        page.contains("style-src 'sha256-") && page.contains("Turn 1"),
        "{page}"
    );
    assert!(!page.contains(&secret("github-token")), "{page}");
    let turn = ["session", "show", &id, "--html", "-", "--turn", "1"];
    let out = rind.run(&turn).exits(0).stdout;
    assert!(out.contains("Turn 1") && !out.contains("Turn 2"), "{out}");
    // An existing page is replaced only by a complete one. A page in a missing folder is an error.
    let args = ["session", "show", &id, "--html", "no/such/folder.html"];
    let ran = rind.run(&args).exits(1);
    assert!(ran.stderr.contains("no/such"), "{}", ran.stderr);
}

#[test]
fn a_session_comes_back_byte_for_byte() {
    let (rind, sessions, id) = machine();
    for (is_wide, name) in [(false, "a.jsonl"), (true, "a.tar")] {
        let folder = sessions.join(&id);
        if is_wide {
            widen(&folder);
        }
        let file = export(&rind, &id, "jsonl", name);
        if !is_wide {
            let piped = rind
                .run(&["session", "export", &id, "--format", "jsonl"])
                .exits(0);
            let here = rind.workspace().display().to_string();
            let piped = piped.stdout.replace("[WORKSPACE]", &here);
            assert_eq!(piped, fs::read_to_string(&file).unwrap());
        }
        let before = files(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let ran = rind.run(&["session", "import", name, "--id", &id]).exits(0);
        assert_eq!(ran.stdout.trim(), id);
        assert_eq!(files(&folder), before, "{name}");
        // The session exists now, so its id is refused.
        let again = rind.run(&["session", "import", name, "--id", &id]).exits(1);
        assert!(again.stderr.contains("already"), "{}", again.stderr);
        rind.run(&["session", "import", name, "--id", "another"])
            .exits(0);
        assert_eq!(files(&sessions.join("another")), before);
        fs::remove_dir_all(sessions.join("another")).unwrap();
    }
    rind.run(&["run", "--resume", &id, "go on"]).exits(0);
}

#[test]
fn what_is_damaged_or_leads_elsewhere_is_not_imported() {
    let (rind, sessions, id) = machine();
    widen(&sessions.join(&id));
    let tar = fs::read(export(&rind, &id, "jsonl", "a.tar")).unwrap();
    let lines = fs::read_to_string(sessions.join(&id).join("session.jsonl")).unwrap();
    let refused = |name: &str, bytes: &[u8], words: &str| {
        fs::write(rind.workspace().join(name), bytes).unwrap();
        let ran = rind
            .run(&["session", "import", name, "--id", "new"])
            .exits(1);
        assert!(ran.stderr.contains(words), "{words}\n{}", ran.stderr);
        let mut left = fs::read_dir(&sessions).unwrap();
        let is_left = |name: &str| name != id && name != ".heads.json";
        assert!(
            !left.any(|entry| is_left(entry.unwrap().file_name().to_str().unwrap())),
            "{words}"
        );
    };
    for cut in [1, 511, 512, 1024, tar.len() / 2] {
        refused("cut.tar", &tar[..tar.len() - cut], "cut off");
    }
    let mut changed = tar;
    let at = changed
        .windows(5)
        .rposition(|part| part == b"value")
        .unwrap();
    changed[at] ^= 1;
    refused("changed.tar", &changed, "does not match its name");
    refused(
        "half.jsonl",
        &lines.as_bytes()[..lines.len() - 9],
        "cut off",
    );
    refused("torn.jsonl", lines.trim_end().as_bytes(), "cut off");
    refused("x.jsonl", b"{}\n", "not a session");
    refused("empty.jsonl", b"", "no entry that begins a session");
    let newer = lines.replacen("\"version\":1", "\"version\":99", 1);
    refused("newer.jsonl", newer.as_bytes(), "update rind");
    let header = lines.split_inclusive('\n').next().unwrap().as_bytes();
    for (entries, words) in [
        (
            &[("new/session.jsonl", header), ("new/session.jsonl", header)][..],
            "twice",
        ),
        (&[("new/../../x", header)], "is not a file of a session"),
        (
            &[("../x/session.jsonl", header)],
            "does not begin with the id",
        ),
        (
            &[("/etc/session.jsonl", header)],
            "does not begin with the id",
        ),
        (
            &[("new/session.jsonl", header), ("b/session.jsonl", header)],
            "more than one session",
        ),
        (&[("new/lock", header)], "is not a file of a session"),
        (&[], "cut off"),
    ] {
        refused("odd.tar", &archive(entries, b'0'), words);
    }
    for kind in *b"123456" {
        let entries = [("new/session.jsonl", &b""[..])];
        refused("odd.tar", &archive(&entries, kind), "is not a regular file");
    }
    rind.run(&["session", "import", "missing.tar"]).exits(1);
    assert!(!rind.home().join("data/x").exists());
}

/// A tar archive with entries of one type. The names are written without normalization.
fn archive(entries: &[(&str, &[u8])], kind: u8) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, content) in entries {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000600");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        all.extend(header);
        all.extend(*content);
        all.resize(all.len().next_multiple_of(512), 0);
    }
    all.resize(all.len() + 1024, 0);
    all
}
