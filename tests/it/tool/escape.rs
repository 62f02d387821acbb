//! Tests that each path out of the workspace is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{Fixture, link};

/// Creates links out of the workspace, and returns paths to files outside of it.
fn ways_out(fixture: &Fixture) -> Vec<String> {
    link(fixture.outside("secret.txt"), fixture.inside("file_link"));
    link(fixture.outside(""), fixture.inside("folder_link"));
    link("../outside/secret.txt", fixture.inside("relative_link"));
    link("folder_link/secret.txt", fixture.inside("link_to_link"));
    std::fs::create_dir_all(fixture.inside("sub/deep")).unwrap();
    link("../../..", fixture.inside("sub/deep/up"));
    let absolute = fixture.outside("secret.txt").to_str().unwrap().to_owned();
    let through_root = fixture.inside("../outside/secret.txt");
    [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "./sub/./../../outside/secret.txt",
        &absolute,
        through_root.to_str().unwrap(),
        "file_link",
        "relative_link",
        "folder_link/secret.txt",
        "link_to_link",
        "sub/deep/up/outside/secret.txt",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[tokio::test]
async fn no_path_reads_out_of_the_workspace() {
    let fixture = Fixture::new();
    for path in ways_out(&fixture) {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("search", json!({"pattern": "secret", "path": path})),
            (
                "edit_file",
                json!({"path": path, "old_text": "secret", "new_text": "x"}),
            ),
            (
                "list_files",
                json!({"path": path.replace("/secret.txt", "")}),
            ),
        ] {
            let output = fixture.call(tool, arguments).await;
            // Listing a folder with a link in it is allowed, but not reading the link's target.
            assert!(
                !output.content.text().contains("the secret"),
                "{tool} {path}: {}",
                output.content
            );
            if tool != "list_files" {
                assert!(output.is_error, "{tool} {path}");
                assert!(
                    output.content.text().contains("outside the workspace"),
                    "{tool} {path}: {}",
                    output.content
                );
            }
        }
    }
    for folder in ["..", "folder_link", "sub/deep/up", "/", "/etc"] {
        let why = fixture.error("list_files", json!({"path": folder})).await;
        assert!(why.contains("outside the workspace"), "{folder}: {why}");
    }
}

#[tokio::test]
async fn no_path_writes_out_of_the_workspace() {
    let fixture = Fixture::new();
    let mut paths = ways_out(&fixture);
    paths.extend(["folder_link/new.txt", "folder_link/a/b.txt", "../new.txt"].map(str::to_owned));
    link("../outside/made.txt", fixture.inside("dangling"));
    paths.push("dangling".to_owned());
    for path in paths {
        let why = fixture
            .error("write_file", json!({"path": path, "content": "taken over"}))
            .await;
        assert!(why.contains("outside the workspace"), "{path}: {why}");
    }
    let outside: Vec<_> = std::fs::read_dir(fixture.outside("")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    let secret = std::fs::read_to_string(fixture.outside("secret.txt")).unwrap();
    assert_eq!(secret, "the secret\n");
    assert!(!fixture.folder.path().join("new.txt").exists());
}

#[tokio::test]
async fn walks_pass_over_links_that_lead_out() {
    let fixture = Fixture::new();
    ways_out(&fixture);
    fixture.put("own.txt", "the secret is not here");
    assert_eq!(
        fixture.ok("search", json!({"pattern": "secret"})).await,
        "own.txt:1:the secret is not here\n"
    );
    let listed = fixture.ok("list_files", json!({"depth": 9})).await;
    assert!(listed.contains("folder_link@\n"), "{listed}");
    assert!(!listed.contains("secret.txt"), "{listed}");
}

#[tokio::test]
async fn links_and_absolute_paths_within_the_workspace_are_fine() {
    let fixture = Fixture::new();
    fixture.put("real/file.txt", "content");
    link("real", fixture.inside("alias"));
    link("real/file.txt", fixture.inside("direct"));
    let absolute = fixture.inside("real/file.txt");
    for path in [
        "alias/file.txt",
        "direct",
        "real/../real/file.txt",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(
            fixture.ok("read_file", json!({"path": path})).await,
            "content",
            "{path}"
        );
    }
    fixture
        .ok(
            "write_file",
            json!({"path": "direct", "content": "changed"}),
        )
        .await;
    assert_eq!(fixture.text("real/file.txt"), "changed");
    assert!(fixture.inside("direct").is_symlink());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_swapped_in_while_tools_run_leads_nowhere() {
    let fixture = Fixture::new();
    fixture.put("good/secret.txt", "harmless");
    link("good", fixture.inside("swapped"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swapped = fixture.inside("swapped");
            for (number, target) in ["good", "../outside"].into_iter().cycle().enumerate() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let next = fixture.inside(&format!("next{number}"));
                link(target, next.clone());
                std::fs::rename(next, &swapped).unwrap();
            }
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let until = tokio::time::Instant::now() + Duration::from_millis(700);
                let mut n_read = 0;
                while tokio::time::Instant::now() < until {
                    let read = fixture
                        .call("read_file", json!({"path": "swapped/secret.txt"}))
                        .await;
                    assert!(!read.content.text().contains("the secret"));
                    n_read += usize::from(read.content == "harmless");
                    let found = fixture
                        .call("search", json!({"pattern": "the secret"}))
                        .await;
                    assert_eq!(found.content, "[no match]");
                    fixture
                        .call(
                            "write_file",
                            json!({"path": "swapped/new.txt", "content": "x"}),
                        )
                        .await;
                }
                done.store(true, Ordering::Relaxed);
                assert!(n_read > 0, "the test must also see the good side");
            });
        });
    });
    assert!(!fixture.outside("new.txt").exists());
}
