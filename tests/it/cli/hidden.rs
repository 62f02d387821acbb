//! Workspaces that contain Rind's own folders: the home folder, a folder above it, the folder of
//! settings. File tools and commands must not see the contents of Rind's folders.

use std::fs;
use std::path::Path;

use rind_tests::cli::{Ran, Rind};

/// Content of a file that the agent must not be able to read.
const SECRET: &str = "hunter2-SECRET";

/// Script of a model that tries in every way to access Rind's own folder, which is inserted for
/// `FOLDER`.
const ATTACK: &str = r#"
[[reply]]
tool_calls = [
    { name = "list_files", arguments = { path = "." } },
    { name = "list_files", arguments = { path = "FOLDER" } },
    { name = "read_file", arguments = { path = "FOLDER/note.txt" } },
    { name = "read_file", arguments = { path = "./x/../FOLDER/./note.txt" } },
    { name = "read_file", arguments = { path = "link/note.txt" } },
    { name = "search", arguments = { pattern = "hunter2-SECRE." } },
    { name = "write_file", arguments = { path = "FOLDER/config.toml", content = "planted" } },
    { name = "write_file", arguments = { path = "FOLDER/new/deep/x", content = "planted" } },
    { name = "write_file", arguments = { path = "beside.txt", content = "fine\n" } },
]
[[reply]]
tool_calls = [
    { name = "bash", arguments = { command = "cat FOLDER/*; ls -A FOLDER; cat link/*; echo planted > FOLDER/config.toml; echo end-1" } },
    { name = "bash", arguments = { command = "mv PARENT moved; mv FOLDER moved; cat moved/rind/*; cat moved/*; rm -rf FOLDER; echo end-2" } },
    { name = "bash", arguments = { command = "cat FOLDER/* moved/* moved/rind/*; echo beside >> beside.txt; cat beside.txt; echo end-3" } },
]
[[reply]]
text = "Tried."
"#;

/// Runs the attack in `workspace`, with the user's home at `home` and `folder` as the path from the
/// workspace to Rind's settings.
fn attack(rind: &Rind, workspace: &Path, home: &Path, folder: &str) -> Ran {
    let config = home.join(".config/rind");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("note.txt"), SECRET).unwrap();
    fs::create_dir_all(workspace.join("x")).unwrap();
    let _ = std::os::unix::fs::symlink(folder, workspace.join("link"));
    let parent = folder.rsplit_once('/').map_or("none", |(parent, _)| parent);
    rind.script(&ATTACK.replace("FOLDER", folder).replace("PARENT", parent));
    let mut command = rind.command(&["run", "attack", "--yes", "--no-plugins", "--json"]);
    command
        .env_remove("RIND_HOME")
        .env("HOME", home)
        .current_dir(workspace);
    let ran = rind.finish(&mut command).exits(0);
    assert_eq!(fs::read_to_string(config.join("note.txt")).unwrap(), SECRET);
    assert!(!config.join("config.toml").exists());
    assert!(!config.join("new").exists());
    ran
}

#[test]
fn in_the_home_folder_nothing_reaches_the_folders_of_rinds_own() {
    let rind = Rind::default();
    let home = rind.user_home();
    for (workspace, folder) in [
        (home.clone(), ".config/rind"),
        (home.join(".config"), "rind"),
        (home.join(".."), "user/.config/rind"),
    ] {
        fs::create_dir_all(&workspace).unwrap();
        let workspace = workspace.canonicalize().unwrap();
        let ran = attack(&rind, &workspace, &home, folder);
        assert!(!ran.stdout.contains(SECRET), "{folder}: {}", ran.stdout);
        assert!(ran.stdout.contains("in a folder of Rind's own"), "{folder}");
        let beside = fs::read_to_string(workspace.join("beside.txt")).unwrap();
        if ran.stdout.contains("`bash` is refused") {
            assert_eq!(beside, "fine\n", "{folder}");
        } else {
            assert!(ran.stdout.contains("end-3"), "{folder}: {}", ran.stdout);
            assert_eq!(beside, "fine\nbeside\n", "{folder}");
        }
        fs::remove_file(workspace.join("link")).unwrap();
    }
}

#[test]
fn where_only_landlock_confines_commands_are_refused_in_the_home_folder() {
    let rind = Rind::default();
    let home = rind.user_home();
    fs::create_dir_all(home.join(".config/rind")).unwrap();
    for bash in ["required", "when-possible"] {
        let settings = format!("[sandbox]\nbash = \"{bash}\"\nmechanism = \"landlock\"\n");
        fs::write(home.join(".config/rind/config.toml"), settings).unwrap();
        rind.script(
            "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"echo ran > ran\" } }]\n[[reply]]\ntext = \"Done.\"\n",
        );
        let mut command = rind.command(&["run", "go", "--yes", "--no-plugins", "--json"]);
        command
            .env_remove("RIND_HOME")
            .env("HOME", &home)
            .current_dir(&home);
        let ran = rind.finish(&mut command).exits(0);
        assert!(ran.stdout.contains("`bash` is refused"), "{}", ran.stdout);
        assert!(!home.join("ran").exists(), "{bash}");
    }
}

#[test]
fn a_link_on_the_way_to_a_folder_of_rinds_own_keeps_commands_from_running() {
    let rind = Rind::default();
    let home = rind.user_home();
    let elsewhere = rind.workspace().join("elsewhere");
    fs::create_dir_all(elsewhere.join("rind")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, home.join(".config")).unwrap();
    rind.script(
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"rm .config; mkdir -p .config/rind; echo planted > .config/rind/config.toml\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    let mut command = rind.command(&["run", "go", "--yes", "--no-plugins", "--json"]);
    command
        .env_remove("RIND_HOME")
        .env("HOME", &home)
        .current_dir(&home);
    let ran = rind.finish(&mut command).exits(0);
    assert!(ran.stdout.contains("`bash` is refused"), "{}", ran.stdout);
    let config = home.join(".config").symlink_metadata().unwrap();
    assert!(config.is_symlink());
}

#[test]
fn at_the_root_of_the_system_file_tools_work_and_commands_do_not() {
    let rind = Rind::default();
    let home = rind.user_home();
    rind.script(
        "[[reply]]\ntool_calls = [{ name = \"list_files\", arguments = { path = \"usr\", depth = 1 } }, { name = \"bash\", arguments = { command = \"echo ran\" } }]\n[[reply]]\ntext = \"Done.\"\n",
    );
    let mut command = rind.command(&["run", "go", "--yes", "--no-plugins", "--json"]);
    command
        .env_remove("RIND_HOME")
        .env("HOME", &home)
        .current_dir("/");
    let ran = rind.finish(&mut command).exits(0);
    assert!(ran.stdout.contains("bin"), "{}", ran.stdout);
    assert!(ran.stdout.contains("`bash` is refused"), "{}", ran.stdout);
}
