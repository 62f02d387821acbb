//! Tests of reading, writing, editing, listing and searching files.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use rind::message::Blob;
use serde_json::json;

use super::{Fixture, link};

#[tokio::test]
async fn a_file_is_read_in_parts_that_say_how_to_go_on() {
    let fixture = Fixture::new();
    let lines: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    fixture.put("long.txt", lines);
    let first = fixture.ok("read_file", json!({"path": "long.txt"})).await;
    assert!(first.starts_with("line 1\n"));
    assert!(
        first.ends_with("line 2000\n[lines 1–2000; the file continues: read it with offset 2001]")
    );
    let part = fixture
        .ok(
            "read_file",
            json!({"path": "long.txt", "offset": 4999, "limit": 1}),
        )
        .await;
    assert_eq!(
        part,
        "line 4999\n[lines 4999–4999; the file continues: read it with offset 5000]"
    );
    let last = fixture
        .ok("read_file", json!({"path": "long.txt", "offset": 5000}))
        .await;
    assert_eq!(last, "line 5000\n");
    let behind = fixture
        .error("read_file", json!({"path": "long.txt", "offset": 6000}))
        .await;
    assert!(behind.contains("only 5000 lines"), "{behind}");
}

#[tokio::test]
async fn what_is_not_a_text_file_is_told_as_such() {
    let fixture = Fixture::new();
    fixture.put("program", b"\x7fELF\x02\x01\x01\0");
    fixture.put("empty", "");
    fixture.put("latin1.txt", b"caf\xe9\n");
    fixture.put("long_line", "x".repeat(300 * 1024));
    let read = |path: &'static str| fixture.call("read_file", json!({"path": path}));
    assert_eq!(
        read("program").await.content,
        "`program` is a binary file of 8 bytes; this tool reads text and images"
    );
    assert_eq!(read("empty").await.content, "[the file is empty]");
    let latin1 = read("latin1.txt").await.content.to_string();
    assert!(latin1.starts_with("caf\u{e9}\n[the file is not UTF-8 and is read as Latin-1"));
    let long = read("long_line").await.content.to_string();
    assert!(
        long.ends_with("[line 1 is longer than 262144 bytes and was cut; continue with offset 2]")
    );
    assert_eq!(read("missing").await.content, "`missing` does not exist");
    assert_eq!(read(".").await.content, "`.` is not a file");
}

#[tokio::test]
async fn an_image_is_told_by_its_bytes_and_answered_whole() {
    let fixture = Fixture::new();
    let dot = include_bytes!("../../recorded/dot.png");
    fixture.put("dot.txt", dot);
    let answer = fixture.call("read_file", json!({"path": "dot.txt"})).await;
    assert!(!answer.is_error);
    assert_eq!(answer.bytes, [dot.to_vec()]);
    let blobs: Vec<&Blob> = answer.content.blobs().collect();
    assert_eq!(blobs, [&Blob::from_bytes(dot, "")]);
    assert_eq!(blobs[0].pixels, Some((1, 1)));
    assert_eq!(answer.content.text(), "[image/png, 70 B]");
}

#[tokio::test]
async fn an_image_that_no_model_takes_is_an_error_that_says_why() {
    let fixture = Fixture::new();
    let png = |width: u32, size: usize| {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(9_u32.to_be_bytes());
        bytes.resize(size, 0);
        bytes
    };
    fixture.put("large.png", png(9, 6_000_000));
    fixture.put("wide.png", png(9_000, 30));
    fixture.put("torn.png", &png(9, 30)[..20]);
    let read = |path: &'static str| fixture.error("read_file", json!({"path": path}));
    let said = [
        read("large.png").await,
        read("wide.png").await,
        read("torn.png").await,
    ];
    assert_snapshot!(said.join("\n"), @r"
    `large.png` cannot be shown, it is [image/png, 6.0 MB; not shown: images have at most 3932160 bytes]. Make a smaller copy of it and read that
    `wide.png` cannot be shown, it is [image/png, 30 B; not shown: 9000×9 pixels; a side has 1 to 8000]. Make a smaller copy of it and read that
    `torn.png` cannot be shown, it is [image/png, 20 B; not shown: the header of the image is damaged]. Make a smaller copy of it and read that
    ");
}

#[tokio::test]
async fn a_pipe_is_refused_at_once() {
    let fixture = Fixture::new();
    fixture.ok("bash", json!({"command": "mkfifo pipe"})).await;
    let why = fixture.error("read_file", json!({"path": "pipe"})).await;
    assert_eq!(why, "`pipe` is not a file");
    let why = fixture
        .error("write_file", json!({"path": "pipe", "content": ""}))
        .await;
    assert_eq!(why, "`pipe` is not a file");
    assert_eq!(
        fixture.ok("search", json!({"pattern": "x"})).await,
        "[no match]"
    );
}

#[tokio::test]
async fn a_file_keeps_its_encoding_or_is_not_written() {
    let utf16 = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    let latin1 = b"caf\xe9 one\n".to_vec();
    let damaged = [&b"\xc3\xbc\xc3\xbc one \xe9\n"[..]].concat();
    let bom = b"\xef\xbb\xbfone\r\n".to_vec();
    let fixture = Fixture::new();
    for (bytes, note, edited, written) in [
        (
            utf16("\u{fc} one\n"),
            "UTF-16",
            utf16("\u{fc} 1\n"),
            Some(utf16("new")),
        ),
        (
            latin1,
            "Latin-1",
            b"caf\xe9 1\n".to_vec(),
            Some(b"new".to_vec()),
        ),
        (
            damaged,
            "U+FFFD",
            b"\xc3\xbc\xc3\xbc 1 \xe9\n".to_vec(),
            None,
        ),
        (
            bom,
            "byte order mark",
            b"\xef\xbb\xbf1\r\n".to_vec(),
            Some(b"\xef\xbb\xbfnew".to_vec()),
        ),
    ] {
        fixture.put("f", &bytes);
        let read = fixture.ok("read_file", json!({"path": "f"})).await;
        assert!(read.contains(note), "{read}");
        let edit = json!({"path": "f", "old_text": "one", "new_text": "1"});
        fixture.ok("edit_file", edit).await;
        assert_eq!(
            std::fs::read(fixture.inside("f")).unwrap(),
            edited,
            "{note}"
        );
        let write =
            |content: &str| fixture.call("write_file", json!({"path": "f", "content": content}));
        let lossy = write("caf\u{fffd} \u{4e2d}").await;
        let answer = write("new").await;
        let after = std::fs::read(fixture.inside("f")).unwrap();
        match written {
            Some(written) => assert_eq!(after, written, "{note}"),
            None => assert!(answer.is_error && lossy.is_error && after == edited),
        }
    }
    fixture.put("latin1.txt", b"caf\xe9\n");
    for content in ["caf\u{fffd}", "\u{20ac}"] {
        let why = fixture
            .error(
                "write_file",
                json!({"path": "latin1.txt", "content": content}),
            )
            .await;
        assert!(why.contains("is not written"), "{why}");
    }
    assert_eq!(
        std::fs::read(fixture.inside("latin1.txt")).unwrap(),
        b"caf\xe9\n"
    );
    fixture.put("program", b"\x7fELF\0");
    let edit = json!({"path": "program", "old_text": "ELF", "new_text": "x"});
    let why = fixture.error("edit_file", edit).await;
    assert!(why.contains("binary file"), "{why}");
}

#[tokio::test]
async fn a_write_keeps_hard_links_owner_mode_and_attributes() {
    use std::os::unix::fs::MetadataExt;
    let fixture = Fixture::new();
    fixture.put("one", "old old old\n");
    std::fs::hard_link(fixture.inside("one"), fixture.inside("two")).unwrap();
    let edit = |path: &'static str| {
        let edit = json!({"path": path, "old_text": "old old old", "new_text": "new"});
        fixture.ok("edit_file", edit)
    };
    let told = edit("one").await;
    assert!(told.contains("2 names (hard links)"), "{told}");
    assert_eq!(fixture.text("two"), "new\n");
    fixture.put("owned", "old old old\n");
    let owned = fixture.inside("owned");
    std::fs::set_permissions(&owned, PermissionsExt::from_mode(0o640)).unwrap();
    // Only root may change the owner of a file.
    let is_given = std::os::unix::fs::chown(&owned, Some(4321), Some(4321)).is_ok();
    edit("owned").await;
    let after = owned.metadata().unwrap();
    assert_eq!(after.mode() & 0o7777, 0o640);
    assert!(!is_given || (after.uid(), after.gid()) == (4321, 4321));
    let names = std::fs::read_dir(fixture.inside("")).unwrap();
    assert_eq!(names.count(), 3, "no temporary file is left");
}

#[tokio::test]
async fn writing_makes_folders_and_says_what_happened() {
    let fixture = Fixture::new();
    let write = |content: &'static str| {
        fixture.ok(
            "write_file",
            json!({"path": "a/b/c.sh", "content": content}),
        )
    };
    assert_eq!(write("one").await, "created `a/b/c.sh` (3 bytes)");
    std::fs::set_permissions(fixture.inside("a/b/c.sh"), PermissionsExt::from_mode(0o750)).unwrap();
    assert_eq!(write("three").await, "overwrote `a/b/c.sh` (5 bytes)");
    let mode = fixture
        .inside("a/b/c.sh")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(
        (fixture.text("a/b/c.sh").as_str(), mode & 0o777),
        ("three", 0o750)
    );
    let left: Vec<_> = std::fs::read_dir(fixture.inside("a/b")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[tokio::test]
async fn folders_and_read_only_files_are_not_overwritten() {
    let fixture = Fixture::new();
    fixture.put("folder/file", "x");
    std::fs::set_permissions(
        fixture.inside("folder/file"),
        PermissionsExt::from_mode(0o444),
    )
    .unwrap();
    for (path, why) in [
        ("folder", "`folder` is not a file"),
        ("folder/file", "`folder/file` is read-only"),
        (".", "`.` is not a file"),
        ("", "`` is not a file"),
        ("folder/file/below", "`folder/file/below` is not a folder"),
    ] {
        let told = fixture
            .error("write_file", json!({"path": path, "content": "y"}))
            .await;
        assert_eq!(told, why);
    }
    assert_eq!(fixture.text("folder/file"), "x");
}

#[tokio::test]
async fn an_edit_must_match_once_and_keeps_everything_else() {
    let fixture = Fixture::new();
    fixture.put("a.txt", "one\r\ntwo\r\ntwo\r\n");
    std::fs::set_permissions(fixture.inside("a.txt"), PermissionsExt::from_mode(0o600)).unwrap();
    let edit = |old: &str, new: &str, all: bool| {
        fixture.call(
            "edit_file",
            json!({"path": "a.txt", "old_text": old, "new_text": new, "replace_all": all}),
        )
    };
    assert!(
        edit("three", "x", false)
            .await
            .content
            .text()
            .contains("old_text is not in the file")
    );
    assert!(
        edit("two", "x", false)
            .await
            .content
            .text()
            .contains("2 times")
    );
    assert!(
        edit("one", "one", false)
            .await
            .content
            .text()
            .contains("are the same")
    );
    assert!(edit("", "x", false).await.is_error);
    assert_eq!(fixture.text("a.txt"), "one\r\ntwo\r\ntwo\r\n");
    let shown = edit("one\ntwo\n", "1\n2\n", false)
        .await
        .content
        .to_string();
    assert_eq!(
        shown,
        "edited `a.txt` in 1 place\n@@ line 1 @@\n-one\n-two\n+1\n+2\n two\n"
    );
    assert_eq!(fixture.text("a.txt"), "1\r\n2\r\ntwo\r\n");
    let mode = fixture
        .inside("a.txt")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        edit("\n", "\n\n", true)
            .await
            .content
            .text()
            .contains("in 3 places")
    );
}

#[tokio::test]
async fn a_question_says_what_a_call_would_meet() {
    let fixture = Fixture::new();
    fixture.put("a.txt", "one\ntwo\nthreé\ntwo\n");
    fixture.put("bytes", [0xff, b'\n', b'x']);
    fixture.put("named", "x\n");
    std::fs::hard_link(fixture.inside("named"), fixture.inside("twice")).unwrap();
    let edit = |old: &str, all: bool| {
        let arguments =
            json!({"path": "a.txt", "old_text": old, "new_text": "x", "replace_all": all});
        ("edit_file", arguments)
    };
    let write = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
    for ((tool, arguments), expected) in [
        (edit("threé", false), "line 3"),
        (edit("two\nthreé\n", false), "lines 2 to 3"),
        (edit("two", true), "2 places"),
        (
            edit("two", false),
            "the edit will fail and change nothing: old_text occurs in the file 2 times",
        ),
        (
            edit("four", false),
            "the edit will fail and change nothing: old_text is not in the file",
        ),
        (write("a.txt"), "replaces 19 bytes, 4 lines"),
        (write("bytes"), "replaces 3 bytes, 2 lines"),
        (
            write("named"),
            "replaces 2 bytes, 1 line; the file has another name (hard link)",
        ),
        (write("b.txt"), "a file that is not there yet"),
        (write("../outside/secret.txt"), ""),
        (("read_file", json!({"path": "a.txt"})), ""),
    ] {
        let entry = fixture.tools.get(tool).unwrap();
        let said = entry
            .tool
            .describe_call_target(&arguments)
            .await
            .unwrap_or_default();
        assert!(said.starts_with(expected), "{arguments}: {said}");
        assert_eq!(said.is_empty(), expected.is_empty(), "{arguments}: {said}");
    }
}

#[tokio::test]
async fn ignored_files_are_neither_listed_nor_searched() {
    let fixture = Fixture::new();
    fixture.put(".gitignore", "target/\n*.log\n!keep.log\n");
    fixture.put("sub/.gitignore", "/local\n");
    fixture.put(".git/config", "needle");
    fixture.put(".git/info/exclude", "private\n");
    for path in [
        "target/a",
        "x.log",
        "keep.log",
        "sub/local",
        "sub/other",
        "private",
        ".hidden/a",
        "z/local",
    ] {
        fixture.put(path, "needle");
    }
    let expected = [".hidden/a", "keep.log", "sub/other", "z/local"];
    let found = fixture.ok("search", json!({"pattern": "needle"})).await;
    let found: Vec<&str> = found
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(found, expected);
    let listed = fixture.ok("list_files", json!({"glob": "[!.]*"})).await;
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    let asked = fixture.ok("list_files", json!({"path": "target"})).await;
    assert_eq!(
        asked, "target/a\n",
        "a folder that is asked for by name is listed"
    );
}

#[tokio::test]
async fn rules_of_the_repository_around_the_workspace_hold() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.folder.path().join(".git")).unwrap();
    std::fs::write(
        fixture.folder.path().join(".gitignore"),
        "/workspace/build\n",
    )
    .unwrap();
    fixture.put("build/out", "x");
    fixture.put("src/in", "x");
    assert_eq!(fixture.ok("list_files", json!({})).await, "src/\n");
}

#[tokio::test]
async fn a_listing_is_sorted_and_capped_and_counts_the_rest() {
    let fixture = Fixture::new();
    for n in 0..1_100 {
        fixture.put(&format!("many/{n:04}"), "");
    }
    fixture.put("a.rs", "");
    link("a.rs", fixture.inside("b"));
    assert_eq!(
        fixture.ok("list_files", json!({})).await,
        "a.rs\nb@\nmany/\n"
    );
    let listed = fixture.ok("list_files", json!({"path": "many"})).await;
    assert!(listed.starts_with("many/0000\n"));
    assert!(listed.ends_with("many/0999\n[100 more; list a folder or use a glob to see them]\n"));
    let around = fixture.ok("list_files", json!({"path": "many/.."})).await;
    assert_eq!(around, "a.rs\nb@\nmany/\n");
    let by_glob = fixture
        .ok("list_files", json!({"glob": "many/10[0-9]0"}))
        .await;
    assert_eq!(by_glob.lines().count(), 10);
    assert_eq!(
        fixture.ok("list_files", json!({"glob": "*.rs"})).await,
        "a.rs\n"
    );
    assert_eq!(
        fixture.ok("list_files", json!({"glob": "*.py"})).await,
        "[nothing there]"
    );
    assert!(
        fixture
            .error("list_files", json!({"glob": "["}))
            .await
            .contains("not a valid glob")
    );
    assert!(
        fixture
            .error("list_files", json!({"path": "a.rs"}))
            .await
            .contains("not a folder")
    );
}

#[tokio::test]
async fn a_search_shows_lines_context_and_where_it_was_cut() {
    let fixture = Fixture::new();
    fixture.put("src/a.rs", "one\ntwo\nthree\nfour\nfive\nsix\ntwo\n");
    fixture.put("b.txt", "two\n");
    fixture.put("binary", b"two\0two\n");
    let search = |arguments| fixture.call("search", arguments);
    let all = search(json!({"pattern": "t[w]o"}))
        .await
        .content
        .to_string();
    assert_eq!(all, "b.txt:1:two\nsrc/a.rs:2:two\nsrc/a.rs:7:two\n");
    let context = search(json!({"pattern": "TWO|(?i)SIX", "glob": "*.rs", "context": 1}))
        .await
        .content
        .to_string();
    assert_eq!(context, "src/a.rs-5-five\nsrc/a.rs:6:six\nsrc/a.rs-7-two\n");
    let groups = search(json!({"pattern": "two", "path": "src", "context": 1}))
        .await
        .content
        .to_string();
    assert_eq!(
        groups,
        "src/a.rs-1-one\nsrc/a.rs:2:two\nsrc/a.rs-3-three\n--\nsrc/a.rs-6-six\nsrc/a.rs:7:two\n"
    );
    let cut = search(json!({"pattern": "two", "max_matches": 2}))
        .await
        .content
        .to_string();
    assert!(
        cut.contains("src/a.rs:2:two\n[cut after 2 matches in 2 files;"),
        "{cut}"
    );
    let one = search(json!({"pattern": "two", "path": "b.txt"}))
        .await
        .content
        .to_string();
    assert_eq!(one, "b.txt:1:two\n");
    assert!(search(json!({"pattern": "("})).await.is_error);
}

#[tokio::test]
async fn a_search_answers_with_at_most_a_mebibyte() {
    let fixture = Fixture::new();
    fixture.put(
        "big.txt",
        format!("{}\n", "needle ".repeat(200)).repeat(2_000),
    );
    let found = fixture.ok("search", json!({"pattern": "needle"})).await;
    assert!(
        (900_000..1_050_000).contains(&found.len()),
        "{}",
        found.len()
    );
    assert!(found.contains("[cut after "));
}
