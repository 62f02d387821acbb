//! Tests of building packages: the bytes are reproducible, and names and descriptions cannot break
//! a format.

use std::path::Path;

use super::*;
use crate::carried::{find_plugin_in_package, unpack_package_files};
use crate::contents::FileContentsByPath;

fn plugin_contents(description: &str, version: &str) -> PluginContents {
    let manifest = format!(
        "name = \"hello\"\nversion = \"{version}\"\ndescription = {}\n",
        toml::Value::String(description.to_owned())
    );
    let mut files = FileContentsByPath::new();
    files.insert(vec!["plugin.toml".to_owned()], manifest.into_bytes());
    files.insert(vec![README_FILE_NAME.to_owned()], b"# Hello\n".to_vec());
    PluginContents::from_source_files(files, Path::new("hello")).unwrap()
}

fn make_test_bundle(
    contents: &PluginContents,
    kind: PackageKind,
    name: Option<&str>,
    license: Option<&str>,
) -> anyhow::Result<BundledPackageFile> {
    let source = PluginToBundle {
        contents,
        packed: crate::pack::pack_plugin(contents).unwrap(),
        signature: Some("signature".to_owned()),
    };
    let options = PackageBuildOptions {
        kind,
        name: name.map(str::to_owned),
        license: license.map(str::to_owned),
    };
    make_bundle(source, &options)
}

#[test]
fn each_package_is_the_same_each_time_and_carries_the_plugin_with_its_signature() {
    let contents = plugin_contents("Greets\npeople.\u{85}Name: x", "0.1.0-rc.1");
    for (kind, name, file_name) in [
        (PackageKind::Npm, None, "hello-0.1.0-rc.1.tgz"),
        (
            PackageKind::Npm,
            Some("@team/hello"),
            "team-hello-0.1.0-rc.1.tgz",
        ),
        (PackageKind::Pypi, None, "hello-0.1.0rc1-py3-none-any.whl"),
        (
            PackageKind::Pypi,
            Some("Rind.Hello"),
            "rind_hello-0.1.0rc1-py3-none-any.whl",
        ),
        (PackageKind::Crates, None, "hello-0.1.0-rc.1.crate"),
    ] {
        let made = || make_test_bundle(&contents, kind, name, Some("MIT")).unwrap();
        let one = made();
        assert_eq!(one.file_name, file_name);
        assert_eq!(one.bytes, made().bytes, "{file_name}");
        let origin = Path::new(file_name);
        let files = unpack_package_files(&one.bytes, origin).unwrap();
        let texts = files.values().map(|bytes| String::from_utf8_lossy(bytes));
        for text in texts {
            assert!(
                !text.lines().any(|line| line.starts_with("Name: x")),
                "{text}"
            );
        }
        let carried = find_plugin_in_package(files, origin).unwrap();
        assert!(carried.path.ends_with("hello.wasm"), "{}", carried.path);
        assert_eq!(carried.signature.as_deref(), Some("signature"));
        let packed = crate::pack::pack_plugin(&contents).unwrap();
        assert_eq!(carried.bytes, packed);
    }
}

#[test]
fn names_licenses_and_versions_that_a_registry_cannot_have_are_refused() {
    let good = plugin_contents("Greets people.", "0.1.0");
    for (kind, name, license, what) in [
        (
            PackageKind::Npm,
            Some("../x"),
            None,
            "is not the name of a package",
        ),
        (
            PackageKind::Pypi,
            Some("a\nb"),
            None,
            "is not the name of a package",
        ),
        (
            PackageKind::Crates,
            Some("1a"),
            None,
            "is not the name of a package",
        ),
        (
            PackageKind::Npm,
            None,
            Some("MIT\nX: y"),
            "is not the SPDX expression",
        ),
        (
            PackageKind::Npm,
            None,
            Some(" "),
            "is not the SPDX expression",
        ),
    ] {
        let error = format!(
            "{:#}",
            make_test_bundle(&good, kind, name, license).unwrap_err()
        );
        assert!(error.contains(what), "{what}: {error}");
    }
    let odd = plugin_contents("Greets people.", "0.1.0+linux");
    let error = make_test_bundle(&odd, PackageKind::Pypi, None, None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("cannot have the version 0.1.0+linux")
    );
    make_test_bundle(&odd, PackageKind::Npm, None, None).unwrap();
}

#[test]
fn a_package_without_a_plugin_or_with_two_is_refused_and_the_error_names_the_expected_files() {
    let contents = plugin_contents("Greets people.", "0.1.0");
    let packed = crate::pack::pack_plugin(&contents).unwrap();
    let file = |path: &str, bytes: &[u8]| {
        let names = path.split('/').map(str::to_owned).collect::<Vec<_>>();
        (names, bytes.to_vec())
    };
    let bare = b"\0asm\x0d\0\x01\0";
    let message = |files: Vec<(Vec<String>, Vec<u8>)>| {
        let files = files.into_iter().collect::<FileContentsByPath>();
        find_plugin_in_package(files, Path::new("x.tgz"))
            .unwrap_err()
            .to_string()
    };
    let expected = "it must contain exactly one `.wasm` file that `rind plugin pack` made";
    let none = message(vec![file("package/index.js", b"")]);
    assert_eq!(
        none,
        format!("x.tgz contains no plugin: {expected}, and none of its 1 files is a `.wasm`")
    );
    let other = message(vec![
        file("package/a.wasm", bare),
        file("package/b.wasm", b"x"),
    ]);
    assert_eq!(
        other,
        format!(
            "x.tgz contains no plugin: {expected}, and its `.wasm` files have no manifest: `package/a.wasm`, `package/b.wasm`"
        )
    );
    let two = message(vec![file("a.wasm", &packed), file("b.wasm", &packed)]);
    assert_eq!(
        two,
        "x.tgz contains 2 packed plugins, `a.wasm`, `b.wasm`; it must contain exactly one"
    );
    // A component without a packed manifest does not count as a second plugin.
    let files = [file("a.wasm", bare), file("b/c.wasm", &packed)];
    let found = find_plugin_in_package(files.into_iter().collect(), Path::new("x.tgz")).unwrap();
    assert_eq!(found.path, "b/c.wasm");
    let long = vec![b'x'; 9000];
    let files = [file("a.wasm", &packed), file("a.wasm.minisig", &long)];
    let error =
        find_plugin_in_package(files.into_iter().collect(), Path::new("x.tgz")).unwrap_err();
    assert!(format!("{error:#}").contains("9000 bytes"), "{error:#}");
}
