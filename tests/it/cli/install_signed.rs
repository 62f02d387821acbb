//! Signatures of plugins, made with minisign.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rind_tests::cli::Rind;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::install::{hello, installed, packed, plugin};

/// A minisign key: an Ed25519 key pair and the 8-byte key id.
pub(super) struct Key(Ed25519KeyPair, [u8; 8]);

impl Key {
    pub(super) fn public(&self) -> String {
        STANDARD.encode([b"Ed", &self.1[..], self.0.public_key().as_ref()].concat())
    }
}

/// Makes a key.
pub(super) fn key() -> Key {
    let secret = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let key = Ed25519KeyPair::from_pkcs8(secret.as_ref()).unwrap();
    let number = key.public_key().as_ref()[..8].try_into().unwrap();
    Key(key, number)
}

/// Writes a signature as `minisign -S` does: one signature of the file's BLAKE2b digest, and a
/// global one that also covers the trusted comment.
pub(super) fn sign(key: &Key, file: &Path) -> PathBuf {
    let digest = blake2b_simd::blake2b(&fs::read(file).unwrap());
    let signature = key.0.sign(digest.as_bytes());
    let line = STANDARD.encode([b"ED", &key.1[..], signature.as_ref()].concat());
    let all = key.0.sign(&[signature.as_ref(), b"test"].concat());
    let all = STANDARD.encode(all.as_ref());
    let path = PathBuf::from(format!("{}.minisig", file.display()));
    let text = format!("untrusted comment: test\n{line}\ntrusted comment: test\n{all}\n");
    fs::write(&path, text).unwrap();
    path
}

/// Replaces the settings by ones that trust exactly these keys, under these names.
pub(super) fn trust(rind: &Rind, keys: &[(&str, &Key)]) {
    let keys = keys
        .iter()
        .map(|(name, key)| format!("{name} = \"{}\"\n", key.public()));
    rind.config(&format!("[install.keys]\n{}", keys.collect::<String>()));
}

#[test]
fn with_keys_only_what_one_of_them_signed_is_installed() {
    let rind = Rind::default();
    let (ours, theirs) = (key(), key());
    trust(&rind, &[("ours", &ours)]);
    let folder = hello(&rind, "src", "0.1.0", "");
    let file = packed(&rind, &folder, "hello.wasm");
    let refused = |source: &Path, what: &str| {
        let ran = plugin(&rind, "install", source).exits(1);
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
        assert!(installed(&rind).is_empty());
    };
    refused(&folder, "is a folder and cannot be signed");
    refused(&file, "has no signature at");
    sign(&theirs, &file);
    refused(&file, "does not match");
    let signature = sign(&ours, &file);
    let whole = fs::read(&file).unwrap();
    let mut tampered = whole.clone();
    // The last byte is a line break of the manifest, so the changed file still has a valid
    // manifest.
    *tampered.last_mut().unwrap() = b' ';
    fs::write(&file, tampered).unwrap();
    refused(&file, "was changed after it was signed");
    fs::write(&file, whole).unwrap();
    let text = fs::read(&signature).unwrap();
    fs::write(&signature, &text[..text.len() / 2]).unwrap();
    refused(&file, "is not a signature of minisign");
    fs::write(&signature, text).unwrap();
    let ran = plugin(&rind, "install", &file).exits(0);
    let signed = format!(", signed with {}", ours.public());
    assert!(ran.stdout.contains(&signed), "{}", ran.stdout);
}

#[test]
fn a_name_stays_with_the_key_that_first_signed_it_also_after_it_was_removed() {
    let rind = Rind::default();
    let (first, second) = (key(), key());
    trust(&rind, &[("first", &first), ("second", &second)]);
    let folder = hello(&rind, "src", "0.1.0", "");
    let file = packed(&rind, &folder, "hello.wasm");
    sign(&first, &file);
    plugin(&rind, "install", &file).exits(0);

    let refused = |what: &str| {
        let ran = plugin(&rind, "install", &file).exits(1);
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    };
    sign(&second, &file);
    refused("was first signed with the key");
    rind.run(&["plugin", "remove", "hello"]).exits(0);
    refused("was first signed with the key");
    // The pinned key of the name is kept even after the settings no longer list any key.
    rind.config("");
    refused("was first signed with the key");
    trust(&rind, &[("second", &second)]);
    refused("which is not in [install] keys");
    sign(&first, &file);
    refused("which is not in [install] keys");
    trust(&rind, &[("first", &first)]);
    plugin(&rind, "install", &file).exits(0);
}

#[test]
fn a_key_that_is_none_is_an_error_that_names_it() {
    let rind = Rind::default();
    rind.config("[install.keys]\nours = \"RWxyz\"\n");
    let file = packed(&rind, &hello(&rind, "src", "0.1.0", ""), "hello.wasm");
    let ran = plugin(&rind, "install", &file).exits(1);
    let what = "[install] keys.ours is not a public key of minisign";
    assert!(ran.stderr.contains(what), "{}", ran.stderr);
    rind.config("[install]\nkey = 1\n");
    plugin(&rind, "install", &file).exits(2);
}

#[test]
fn a_pipe_in_the_place_of_a_signature_is_refused() {
    let rind = Rind::default();
    trust(&rind, &[("ours", &key())]);
    let file = packed(&rind, &hello(&rind, "src", "0.1.0", ""), "hello.wasm");
    let pipe = format!("{}.minisig", file.display());
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let ran = plugin(&rind, "install", &file).exits(1);
    assert!(
        ran.stderr.contains("is not a regular file"),
        "{}",
        ran.stderr
    );
    fs::remove_file(&file).unwrap();
    fs::rename(&pipe, &file).unwrap();
    let ran = plugin(&rind, "install", &file).exits(1);
    assert!(
        ran.stderr.contains("neither a file nor a folder"),
        "{}",
        ran.stderr
    );
}
