//! Packages of plugins in the hands of the ordinary clients, where these are installed: npm, pip and cargo, without a registry.

use std::fs;
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
    // Packed by npm once more, it is a package of the plugin as well.
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
    // Cargo unpacks its package and builds it.
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
