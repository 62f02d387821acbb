//! Tests of sources that are false, damaged, or try to write outside their folder: each is refused
//! and leaves nothing behind.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rind_tests::cli::Rind;
use rind_tests::guests;
use tar::{EntryType, Header};

use super::install::{hello, installed, packed, plugin};

const MANIFEST: &str = "name = \"words\"\nversion = \"1.0.0\"\ndescription = \"Prompts.\"\n";

/// Checks that installing a source is refused with this reason and changes no installed plugin.
fn refused(rind: &Rind, source: &Path, what: &str) {
    let before = installed(rind);
    let ran = plugin(rind, "install", source);
    assert_eq!(ran.code, Some(1), "{what}: {} {}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    assert_eq!(installed(rind), before, "{what}");
}

/// Writes an archive with a manifest and one more entry, whose name and link target are not
/// sanitized.
fn archive(rind: &Rind, name: &str, kind: EntryType, target: &str, content: &[u8]) -> PathBuf {
    let path = rind.workspace().join("words.tar.gz");
    let mut tar = tar::Builder::new(GzEncoder::new(
        fs::File::create(&path).unwrap(),
        Compression::fast(),
    ));
    let mut add = |name: &str, kind, target: &str, content: &[u8]| {
        let mut header = Header::new_gnu();
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    };
    add("plugin.toml", EntryType::Regular, "", MANIFEST.as_bytes());
    add(name, kind, target, content);
    tar.into_inner().unwrap().finish().unwrap();
    path
}

#[test]
fn an_archive_with_more_than_its_list_shows_is_refused() {
    let rind = Rind::default();
    let path = archive(&rind, "prompts/a.md", EntryType::Regular, "", b"x");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, [bytes.clone(), bytes.clone()].concat()).unwrap();
    refused(&rind, &path, "data after its end");
    fs::write(&path, [bytes.clone(), b"text".to_vec()].concat()).unwrap();
    refused(&rind, &path, "the archive is truncated");
    let mut tar = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut tar).unwrap();
    let mut file = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
    file.write_all(&tar[..tar.len() - 1024]).unwrap();
    file.finish().unwrap();
    refused(&rind, &path, "its end-of-archive blocks are missing");
}

#[test]
fn archives_that_lead_out_of_themselves_are_refused() {
    let rind = Rind::default();
    for (name, kind, target, what) in [
        (
            "../x",
            EntryType::Regular,
            "",
            "a path with `..` is not allowed",
        ),
        (
            "prompts/../../x",
            EntryType::Regular,
            "",
            "a path with `..` is not allowed",
        ),
        (
            "/tmp/x",
            EntryType::Regular,
            "",
            "an absolute path is not allowed",
        ),
        (
            "..",
            EntryType::Directory,
            "",
            "a path with `..` is not allowed",
        ),
        ("prompts", EntryType::Symlink, "/etc", "is a link"),
        ("prompts/a", EntryType::Link, "plugin.toml", "is a link"),
        (
            "prompts/a",
            EntryType::Fifo,
            "",
            "neither a file nor a folder",
        ),
        (
            "prompts/a",
            EntryType::Char,
            "",
            "neither a file nor a folder",
        ),
        (
            "plugin.toml",
            EntryType::Regular,
            "",
            "it has `plugin.toml` twice",
        ),
        ("prompts/a\n", EntryType::Regular, "", "control characters"),
    ] {
        let path = archive(&rind, name, kind, target, b"");
        refused(&rind, &path, what);
    }
    let deep = "a/".repeat(17) + "b";
    let path = archive(&rind, &deep, EntryType::Regular, "", b"");
    refused(&rind, &path, "deeper than");
    assert!(!rind.home().join("config/x").exists());
}

#[test]
fn an_archive_that_is_torn_anywhere_is_refused() {
    let rind = Rind::default();
    let noise: Vec<u8> = (0..50_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    let path = archive(&rind, "prompts/a.md", EntryType::Regular, "", &noise);
    let whole = fs::read(&path).unwrap();
    for n_bytes in [3, 20, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        fs::write(&path, &whole[..n_bytes]).unwrap();
        refused(&rind, &path, "cannot read");
    }
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    fs::write(&path, flipped).unwrap();
    refused(&rind, &path, "cannot read");
    fs::write(&path, whole).unwrap();
    plugin(&rind, "install", &path).exits(0);
}

#[test]
fn an_archive_that_decompresses_to_too_much_is_refused() {
    let rind = Rind::default();
    let zeros = vec![0; 257 << 20];
    let path = archive(&rind, "prompts/a.md", EntryType::Regular, "", &zeros);
    assert!(fs::metadata(&path).unwrap().len() < 4 << 20);
    refused(&rind, &path, "more than 256 MiB");
}

#[test]
fn packed_files_without_a_manifest_with_two_or_torn_are_refused() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap();
    let table: toml::Table = toml::from_str(&manifest).unwrap();
    // The plain component has no manifest in it; `rind plugin build` would append one.
    let component = guests::workspace().join("tests/evolution/contract-0.1.0.wasm");
    refused(&rind, &component, "has no plugin.toml in it");

    let file = packed(&rind, &folder, "hello.wasm");
    let whole = fs::read(&file).unwrap();
    for n_bytes in [4, 9, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..n_bytes]).unwrap();
        refused(&rind, &file, "is not a packed plugin");
    }
    for (path, what) in [
        ("plugin.toml", "it contains `plugin.toml` twice"),
        ("../x", "a path with `..` is not allowed"),
        (
            table["component"].as_str().unwrap(),
            "contains its component twice",
        ),
    ] {
        let name = format!("rind:file/{path}");
        let mut bytes = whole.clone();
        let body = [&[u8::try_from(name.len()).unwrap()], name.as_bytes(), b"x"].concat();
        bytes.extend([0, u8::try_from(body.len()).unwrap()]);
        bytes.extend(body);
        fs::write(&file, bytes).unwrap();
        refused(&rind, &file, what);
    }
    fs::write(&file, "text").unwrap();
    refused(&rind, &file, "is not a plugin");
    refused(&rind, &rind.workspace().join("none"), "cannot read");
    refused(
        &rind,
        Path::new("https://localhost/x.wasm"),
        "download it first",
    );
}

#[test]
fn names_that_are_kept_for_rind_cannot_be_installed() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    let path = folder.join("plugin.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("name = \"hello\"", "name = \"audit-log\""),
    )
    .unwrap();
    refused(&rind, &folder, "audit-log");
    fs::write(
        &path,
        text.replace("name = \"hello\"", "name = \"../hello\""),
    )
    .unwrap();
    refused(&rind, &folder, "is not made of");
    fs::write(&path, text).unwrap();
    rind.managed("hello");
    refused(&rind, &folder, "comes with Rind");
}

#[test]
fn a_plugin_that_no_session_would_load_is_not_installed_over_one_that_works() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    plugin(&rind, "install", &folder).exits(0);
    hello(&rind, "src", "0.2.0", "");
    let path = folder.join("plugin.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n[hooks.pre-tool]\n")).unwrap();
    refused(&rind, &folder, "it cannot be loaded");
    let ran = rind.run(&["run", "hello"]).exits(0);
    assert!(
        ran.stderr.contains("1 hook call of 1 plugin"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_disk_that_is_full_and_a_process_that_is_killed_leave_what_was_there() {
    let rind = Rind::default();
    let folder = hello(&rind, "src", "0.1.0", "");
    plugin(&rind, "install", &folder).exits(0);
    hello(&rind, "src", "0.2.0", "");
    let lock = rind.home().join("config/plugins.lock.toml");
    let before = fs::read(&lock).unwrap();
    // Limits files to a few KiB. With SIGXFSZ ignored, writing fails with an error; otherwise the
    // signal kills the process.
    for (trap, code) in [("trap '' XFSZ; ", Some(1)), ("", None)] {
        let own = rind.command(&["plugin", "update"]);
        let mut shell = std::process::Command::new("sh");
        shell
            .args([
                "-c",
                &format!("{trap}ulimit -f 16; exec \"$0\" plugin update"),
            ])
            .arg(own.get_program())
            .env_clear()
            .envs(
                own.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .current_dir(rind.workspace())
            .stdin(std::process::Stdio::null());
        let ran = rind.finish(&mut shell);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert_eq!(fs::read(&lock).unwrap(), before);
        let ran = rind.run(&["run", "hello"]).exits(0);
        assert!(
            ran.stderr.contains("1 hook call of 1 plugin"),
            "{}",
            ran.stderr
        );
    }
    let left: Vec<String> = installed(&rind);
    assert!(left.len() > 1, "the killed one leaves its folder: {left:?}");
    rind.run(&["plugin", "update"]).exits(0);
    assert_eq!(installed(&rind), ["hello"]);
}

#[test]
fn a_lock_file_that_cannot_be_read_stops_everything_and_names_itself() {
    let rind = Rind::default();
    let folder = guests::guest("hello");
    let lock = rind.home().join("config/plugins.lock.toml");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    for text in ["x", "format = 2\n", "format = 1\nunknown = 1\n"] {
        fs::File::create(&lock)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        refused(&rind, folder, "plugins.lock.toml");
    }
}

#[test]
fn commands_at_the_same_time_leave_what_the_lock_file_says() {
    let rind = Rind::default();
    let versions = ["0.1.0", "0.2.0", "0.3.0", "0.4.0"];
    let files = versions.map(|version| {
        let folder = hello(&rind, "src", version, "");
        packed(&rind, &folder, &format!("{version}.wasm"))
    });
    let mut running: Vec<_> = files
        .iter()
        .map(|file| {
            let file = file.to_str().unwrap();
            rind.command(&["plugin", "install", file, "--change-source"])
        })
        .collect();
    running.push(rind.command(&["plugin", "update"]));
    running.push(rind.command(&["plugin", "remove", "hello"]));
    let running: Vec<_> = running
        .iter_mut()
        .map(|command| command.spawn().unwrap())
        .collect();
    for mut running in running {
        // Any exit code is accepted, because the order of the processes decides which of them fail.
        assert!(running.wait().unwrap().code().is_some());
    }
    let lock = fs::read_to_string(rind.home().join("config/plugins.lock.toml")).unwrap();
    let lock: toml::Table = toml::from_str(&lock).unwrap();
    let locked = lock["plugins"].get("hello");
    assert_eq!(installed(&rind).len(), usize::from(locked.is_some()));
    rind.run(&["run", "hello"]).exits(0);
    let ran = plugin(&rind, "install", &files[3]);
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    rind.run(&["run", "hello"]).exits(0);
}
