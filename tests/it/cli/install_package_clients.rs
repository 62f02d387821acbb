//! Tests that the ordinary clients (npm, pip and cargo) can use the packages that Rind makes of
//! plugins, without a registry. A client that is not installed is skipped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;

use rind_tests::cli::Rind;

use super::install_package::{Kind, package_file};

/// Runs a client with a home of its own, and returns its output; `None` where the client is not installed.
#[allow(clippy::print_stderr, reason = "a test that cannot run here says why")]
fn run(rind: &Rind, folder: &Path, program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder);
    if program != "cargo" {
        command.env("HOME", rind.user_home());
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: {program} cannot be run: {error}");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {args:?}: {said} {stderr}"
    );
    Some(said)
}

#[test]
fn npm_installs_a_package_of_a_plugin() {
    let rind = Rind::default();
    let file = package_file(&rind, Kind::Npm, "0.1.0", "");
    let folder = rind.workspace().join("project");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("package.json"), "{}").unwrap();
    let file = file.to_str().unwrap();
    let args = ["install", "--offline", "--no-audit", "--no-fund", file];
    if run(&rind, &folder, "npm", &args).is_none() {
        return;
    }
    let place = folder.join("node_modules/hello");
    rind.run(&[
        "plugin",
        "install",
        place.join("hello.wasm").to_str().unwrap(),
    ])
    .exits(0);
    // A package that npm packs again from the installed files can still be installed as a plugin.
    let args = ["pack", "--offline", place.to_str().unwrap()];
    run(&rind, &folder, "npm", &args).unwrap();
    rind.run(&["plugin", "remove", "hello"]).exits(0);
    let again = folder.join("hello-0.1.0.tgz");
    rind.run(&["plugin", "install", again.to_str().unwrap()])
        .exits(0);
}

#[test]
fn pip_installs_a_wheel_of_a_plugin() {
    let rind = Rind::default();
    let file = package_file(&rind, Kind::Pypi, "0.1.0", "");
    let target = rind.workspace().join("target");
    let (file, to) = (file.to_str().unwrap(), target.to_str().unwrap());
    let args = [
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--target",
        to,
        file,
    ];
    if run(&rind, &rind.workspace(), "python3", &args).is_none() {
        return;
    }
    let installed = target.join("share/rind-packages/hello.wasm");
    rind.run(&["plugin", "install", installed.to_str().unwrap()])
        .exits(0);
}

#[test]
fn cargo_packages_and_builds_the_crate_of_a_plugin() {
    let rind = Rind::default();
    let file = package_file(&rind, Kind::Crate, "0.1.0", "");
    let folder = rind.workspace();
    run(&rind, &folder, "tar", &["-xzf", file.to_str().unwrap()]).unwrap();
    let place = folder.join("hello-0.1.0");
    let target = folder.join("target");
    let target = target.to_str().unwrap();
    // Cargo packs the unpacked crate again and builds it.
    let args = [
        "package",
        "--offline",
        "--allow-dirty",
        "--target-dir",
        target,
    ];
    run(&rind, &place, "cargo", &args).unwrap();
    let again = Path::new(target).join("package/hello-0.1.0.crate");
    rind.run(&["plugin", "install", again.to_str().unwrap()])
        .exits(0);
}

/// Starts a proxy that refuses its only connection with status 403. Returns the proxy's address and
/// a thread that yields the head of the request.
fn refusing_proxy() -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let taken = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut head = String::new();
        while let Some(Ok(line)) = lines.next() {
            if line.is_empty() {
                break;
            }
            head += &format!("{line}\n");
        }
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        head
    });
    (address, taken)
}

#[test]
fn the_proxy_in_the_settings_of_a_client_is_used_and_its_password_is_not_shown() {
    for (reference, file, settings) in [
        (
            "npm:hello",
            ".npmrc",
            "registry=https://registry.example/\nproxy=http://me:s3cret@PROXY/\n",
        ),
        (
            "pypi:hello",
            ".config/pip/pip.conf",
            "[global]\nindex-url = https://registry.example/simple\nproxy = http://me:s3cret@PROXY\n",
        ),
        (
            "crates:hello",
            ".cargo/config.toml",
            "[source.crates-io]\nreplace-with = \"ours\"\n[source.ours]\nregistry = \"sparse+https://registry.example/\"\n\
             [http]\nproxy = \"http://me:s3cret@PROXY\"\n",
        ),
    ] {
        let rind = Rind::default();
        let (address, taken) = refusing_proxy();
        let path = rind.user_home().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, settings.replace("PROXY", &address)).unwrap();
        let mut command = rind.command(&["plugin", "install", reference]);
        command
            .env_remove("CARGO_HOME")
            .env("HTTPS_PROXY", "http://127.0.0.1:9");
        let ran = rind.finish(&mut command);
        assert_eq!(ran.code, Some(1), "{reference}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("through the proxy that is set in `"),
            "{reference}: {}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
        let head = taken.join().unwrap();
        assert!(
            head.starts_with("CONNECT registry.example:443 "),
            "{reference}: {head}"
        );
        assert!(
            head.to_ascii_lowercase()
                .contains("proxy-authorization: basic bwu6cznjcmv0"),
            "{reference}: {head}"
        );
    }
}
