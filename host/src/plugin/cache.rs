//! Cache of native code of compiled components, kept in a private directory.
//!
//! Entries are machine code, so an attacker who can write an entry can run any code. The directory
//! is readable by its owner only, and an entry is used only if it carries a keyed hash; the key is
//! kept in another directory. Entries are named by the component's digest and the engine's
//! settings, so a lookup never hits a stale entry. The digest omits sections of the component that
//! do not affect its native code. For plugin authors, the single functions of a component are
//! cached too, in entries of the same kind that are named by the component's path
//! (`function_store`).

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wasmtime::Engine;
use wasmtime::component::Component;

use super::code_digest::component_code_digest;
use super::compile::{COMPILE_FOLDER_PREFIX, Compiler};
use super::function_store::MAX_COMPILED_FUNCTION_STORE_BYTES;
use super::{Error, files, foreign};
use crate::disk::{TemporaryFolder, create_private_folder, replace_private_file};
use crate::grant::held::InMemoryFolder;

/// Maximum size of a component. CPython with its standard library has about 20 MiB.
pub(crate) const MAX_COMPONENT_BYTES: u64 = 64 << 20;

/// Time after which a cache entry that was not used is removed.
const MAX_UNUSED_ENTRY_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Interval between removals of unused entries, and the precision of the time of an entry's last
/// use.
const UNUSED_ENTRY_SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Extension of the marker file next to the cache directory. The file's modification time is the
/// time when unused entries were last removed.
const SWEEP_TIME_MARKER_FILE_EXTENSION: &str = "swept";

/// Suffix of the file names of cache entries.
const CACHE_ENTRY_FILE_SUFFIX: &str = ".cwasm";

/// Length of the keyed hash at the beginning of a cache entry, in bytes.
const CACHE_ENTRY_MAC_BYTES: usize = 32;

/// Name prefix of the folder of a cache that lasts only as long as the process.
const TEMPORARY_CACHE_FOLDER_PREFIX: &str = ".rind-cache-";

#[derive(Clone, Debug)]
pub(crate) struct CompileCache {
    folder: PathBuf,
    key: [u8; 32],
    /// Owner of the folder, if the cache is removed with this value.
    _temporary: Option<Arc<TemporaryFolder>>,
}

/// Component that was read from a file, with its path and digest.
#[derive(Clone, Debug)]
pub struct ComponentBytes {
    /// Path of the file from which the component was read.
    pub path: PathBuf,
    /// Bytes of the complete component file.
    pub bytes: Vec<u8>,
    /// Digest of the component's bytes: `sha256:` and 64 hex digits.
    pub digest: String,
}

impl ComponentBytes {
    /// Reads a component of at most [`MAX_COMPONENT_BYTES`], from memory if `held` covers the path.
    /// The file is read only once: the digest that the operator is asked about and the code that
    /// runs come from the same bytes.
    pub fn read_component(path: &Path, held: Option<&InMemoryFolder>) -> Result<Self, Error> {
        let bytes = files::read_plugin_file(path, held, MAX_COMPONENT_BYTES)
            .map_err(Error::io("read", path))?;
        if bytes.len() as u64 > MAX_COMPONENT_BYTES {
            return Err(Error::TooLarge {
                path: path.to_owned(),
                limit: MAX_COMPONENT_BYTES,
            });
        }
        let digest = compute_sha256(&<sha2::Sha256 as sha2::Digest>::digest(&bytes));
        Ok(Self {
            path: path.to_owned(),
            bytes,
            digest: format!("sha256:{digest}"),
        })
    }

    /// Returns the error for a component that needs a host other than Rind.
    pub fn incompatible_host_error(&self, message: String) -> Error {
        Error::Foreign {
            path: self.path.clone(),
            message,
        }
    }

    /// Returns the error for a file whose bytes are not a valid component.
    pub(super) fn invalid_component_error(&self, message: String) -> Error {
        Error::Compile {
            path: self.path.clone(),
            message,
        }
    }
}

fn compute_sha256(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl CompileCache {
    /// Opens the cache in `folder` with the key in `key_file`, creating both if they are missing.
    pub(crate) fn open_cache(folder: &Path, key_file: &Path) -> Result<Self, Error> {
        for folder in [Some(folder), key_file.parent()].into_iter().flatten() {
            create_private_folder(folder).map_err(Error::io("make private", folder))?;
        }
        let key = match read_mac_key_file(key_file)? {
            Some(key) => key,
            None => {
                create_mac_key_file(key_file)?;
                // Two processes may create the key at the same time: only one key is stored, and
                // both processes use it.
                read_mac_key_file(key_file)?.unwrap_or_default()
            }
        };
        let cache = Self {
            folder: folder.to_owned(),
            key,
            _temporary: None,
        };
        if read_file_age(&folder.with_extension(SWEEP_TIME_MARKER_FILE_EXTENSION))
            .is_none_or(|age| age > UNUSED_ENTRY_SWEEP_INTERVAL)
        {
            cache.remove_old_cache_entries();
        }
        Ok(cache)
    }

    /// Opens the cache like [`Self::open_cache`]. If its folders cannot be written, for example in a
    /// read-only container, opens an empty cache in a temporary folder, which is removed with this
    /// value.
    pub(crate) fn open_or_create_temporary_cache(
        folder: &Path,
        key_file: &Path,
    ) -> Result<Self, Error> {
        let opened = Self::open_cache(folder, key_file);
        let Err(Error::Io { source, .. }) = &opened else {
            return opened;
        };
        if !matches!(
            source.kind(),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
        ) {
            return opened;
        }
        tracing::warn!(%source, folder = %folder.display(), "no cache of native code: plugins that are not part of the program are compiled at every start");
        let temporary = TemporaryFolder::new(TEMPORARY_CACHE_FOLDER_PREFIX)
            .map_err(Error::io("create a temporary folder in place of", folder))?;
        let path = temporary.path();
        let cache = Self::open_cache(&path.join("code"), &path.join("key"))?;
        Ok(Self {
            _temporary: Some(Arc::new(temporary)),
            ..cache
        })
    }

    /// Removes entries that were not used for a long time, and directories of compilations whose
    /// host process died. Errors are ignored, because the next call tries again; files that the
    /// cache did not create are not touched.
    fn remove_old_cache_entries(&self) {
        let _ = fs::write(
            self.folder.with_extension(SWEEP_TIME_MARKER_FILE_EXTENSION),
            "",
        );
        for found in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let Some(name) = found.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let (path, is_folder) = (found.path(), found.file_type().is_ok_and(|t| t.is_dir()));
            let is_older = |than| read_file_age(&path).is_some_and(|age| age > than);
            if !is_folder && is_cache_entry_name(&name) && is_older(MAX_UNUSED_ENTRY_AGE) {
                let _ = fs::remove_file(&path);
            } else if is_folder
                && name.starts_with(COMPILE_FOLDER_PREFIX)
                && is_older(UNUSED_ENTRY_SWEEP_INTERVAL)
            {
                let _ = fs::remove_dir_all(&path);
            }
        }
    }

    /// Returns the component's native code from the cache, from the precompiled code embedded in
    /// the program, or by compiling it; in the latter two cases the code is then cached. The second
    /// value is `false` only if this call compiled the component. Calls `on_compile` before
    /// compiling.
    pub(crate) async fn load_component(
        &self,
        engine: &Engine,
        component: &ComponentBytes,
        compiler: &Compiler,
        on_compile: impl FnOnce(),
    ) -> Result<(Component, bool), Error> {
        let digest =
            component_code_digest(&component.bytes).unwrap_or_else(|| component.digest.clone());
        let entry = self.cache_entry_path(engine, &digest);
        if let Some(found) = self.read_cached_component(engine, &entry) {
            mark_cache_entry_used(&entry);
            return Ok((found, true));
        }
        if let Some(code) = compiler
            .precompiled
            .unpack_component_code(&component.digest)
        {
            match deserialize_native_code(engine, &code) {
                Ok(found) => {
                    self.write_cache_entry(&entry, &code);
                    return Ok((found, true));
                }
                // The embedded code was compiled for CPU features that this processor lacks.
                Err(error) => tracing::debug!(%error, "embedded native code cannot be used"),
            }
        }
        foreign::check_component_header(&component.path, &component.bytes)?;
        super::nesting::check_component_nesting(&component.bytes)
            .map_err(|why| component.invalid_component_error(why))?;
        on_compile();
        let functions = compiler
            .should_cache_compiled_functions(component)
            .then(|| self.function_cache_entry_path(engine, &component.path))
            .flatten();
        let kept = functions.as_ref().map(|entry| {
            let kept = self.read_verified_entry_bytes(entry);
            kept.map(|bytes| bytes.split_at(CACHE_ENTRY_MAC_BYTES).1.to_vec())
                .unwrap_or_default()
        });
        let compiled = compiler
            .compile_component(engine, component, &self.folder, kept.as_deref())
            .await?;
        let code = compiled.code;
        let new_functions = compiled.functions;
        let compiled = deserialize_native_code(engine, &code).map_err(|e| {
            component.invalid_component_error(format!(
                "the compiler process has a different version than this program: {e:#}"
            ))
        })?;
        self.write_cache_entry(&entry, &code);
        // Store the functions only now, because the engine has accepted the native code of the same
        // compilation.
        if let (Some(entry), Some(bytes)) = (functions, new_functions)
            && bytes.len() <= MAX_COMPILED_FUNCTION_STORE_BYTES
        {
            self.write_cache_entry(&entry, &bytes);
        }
        Ok((compiled, false))
    }

    /// Stores an entry. If the cache is not writable, the component is compiled again next time.
    fn write_cache_entry(&self, entry: &Path, code: &[u8]) {
        let mut bytes = self
            .compute_cache_entry_hash(entry, code)
            .as_bytes()
            .to_vec();
        bytes.extend_from_slice(code);
        if let Err(error) = replace_private_file(entry, &bytes) {
            tracing::warn!(%error, "compiled component was not cached");
        }
    }

    /// Computes the keyed hash of an entry. The hash covers the entry's file name, so that code
    /// signed for one component cannot be copied into the entry of another.
    fn compute_cache_entry_hash(&self, entry: &Path, code: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(entry.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update(code);
        hasher.finalize()
    }

    fn cache_entry_path(&self, engine: &Engine, digest: &str) -> PathBuf {
        let mut settings = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut settings);
        let name = blake3::hash(format!("{digest} {:016x}", settings.finish()).as_bytes());
        self.folder
            .join(format!("{}{CACHE_ENTRY_FILE_SUFFIX}", name.to_hex()))
    }

    /// Returns the path of the entry with the functions of the component at this path; `None` if
    /// the file is gone. Functions of one plugin are never used for another. If a hostile component
    /// took over its compilation, its functions would stay in the entry for later builds at this
    /// path until the cache is removed; only plugin authors, who build components that they trust,
    /// have such entries.
    fn function_cache_entry_path(&self, engine: &Engine, component: &Path) -> Option<PathBuf> {
        let path = component.canonicalize().ok()?;
        let path = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        Some(self.cache_entry_path(engine, &format!("functions of {path}")))
    }

    /// Reads an entry if it exists, is complete and has a valid keyed hash; otherwise the lookup is
    /// a cache miss.
    fn read_cached_component(&self, engine: &Engine, entry: &Path) -> Option<Component> {
        let bytes = self.read_verified_entry_bytes(entry)?;
        deserialize_native_code(engine, bytes.get(CACHE_ENTRY_MAC_BYTES..)?).ok()
    }

    /// Reads the bytes of an entry, including the keyed hash at the beginning; `None` if the hash
    /// is not valid.
    fn read_verified_entry_bytes(&self, entry: &Path) -> Option<Vec<u8>> {
        let bytes = fs::read(entry).ok()?;
        let (mac, code) = bytes.split_at_checked(CACHE_ENTRY_MAC_BYTES)?;
        let mac = blake3::Hash::from_slice(mac).ok()?;
        // Two values of `blake3::Hash` are compared in constant time.
        if self.compute_cache_entry_hash(entry, code) != mac {
            tracing::warn!(entry = %entry.display(), "compiled component lacks this host's signature; it is compiled again");
            return None;
        }
        Some(bytes)
    }
}

/// Whether a file name has exactly the form of the names that [`CompileCache::cache_entry_path`]
/// returns.
fn is_cache_entry_name(name: &str) -> bool {
    let digest = name
        .strip_suffix(CACHE_ENTRY_FILE_SUFFIX)
        .unwrap_or_default();
    digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the time since the file was last written or touched; `None` if the file does not exist.
fn read_file_age(path: &Path) -> Option<Duration> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    // If the modification time is in the future, the age is 0.
    Some(modified.elapsed().unwrap_or_default())
}

/// Records that an entry was used by setting its modification time: access times are often not kept
/// (`noatime`).
fn mark_cache_entry_used(entry: &Path) {
    if read_file_age(entry).is_some_and(|age| age > UNUSED_ENTRY_SWEEP_INTERVAL) {
        let file = fs::File::open(entry);
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
    }
}

#[expect(
    unsafe_code,
    reason = "the bytes are exactly those that this host wrote, that the compiler it started just gave it, or a part of the program"
)]
fn deserialize_native_code(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `code` was produced by `serialize` or `precompile_component` of this very program. A
    // cache entry was just checked against its keyed hash, in this same buffer. Fresh code comes
    // from a child process of this program through a directory that only its user can write.
    // Embedded code is as much a part of this program as any of its functions. The engine refuses
    // code of another version or with other settings.
    unsafe { Component::deserialize(engine, code) }
}

/// Reads the key; `None` if the file is missing or has the wrong length.
fn read_mac_key_file(path: &Path) -> Result<Option<[u8; 32]>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(<[u8; 32]>::try_from(bytes).ok()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", path)(e)),
    }
}

/// Creates the key file, unless another process has just created it.
fn create_mac_key_file(path: &Path) -> Result<(), Error> {
    let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(uuid::Uuid::into_bytes);
    let key = *blake3::hash(&random.concat()).as_bytes();
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(Error::io("write", path))?;
    file.write_all(&key).map_err(Error::io("write", path))?;
    match file.persist_noclobber(path) {
        // A key file of the wrong length contains no usable key and is replaced.
        Err(e) if fs::metadata(path).is_ok_and(|found| found.len() != 32) => e
            .file
            .persist(path)
            .map(drop)
            .map_err(|e| Error::io("write", path)(e.error)),
        Err(e) if e.error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::io("write", path)(e.error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::create_engine;
    use super::super::precompiled::PrecompiledComponents;
    use super::*;

    /// Smallest valid component, without content.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn a_cache_that_cannot_be_written_is_one_in_a_temporary_folder() {
        let folder = tempfile::tempdir().unwrap();
        let is_temporary = |folder: &Path| {
            let opened =
                CompileCache::open_or_create_temporary_cache(&folder.join("c"), &folder.join("k"));
            opened.map(|cache| (cache._temporary.is_some(), cache.folder))
        };
        let (temporary, _) = is_temporary(folder.path()).unwrap();
        assert!(!temporary);
        // Folder in which even root cannot create folders.
        let (temporary, folder) = is_temporary(Path::new("/sys/rind")).unwrap();
        assert!(temporary);
        assert!(!folder.exists(), "the folder is removed with the cache");
        let error = is_temporary(Path::new("/dev/null")).unwrap_err();
        assert!(error.to_string().contains("make private"), "{error}");
    }

    #[tokio::test]
    async fn carried_code_that_cannot_be_loaded_is_compiled_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.wasm");
        fs::write(&path, EMPTY).unwrap();
        let component = ComponentBytes::read_component(&path, None).unwrap();
        let engine = create_engine().unwrap();
        let cache =
            CompileCache::open_cache(&folder.path().join("cache"), &folder.path().join("key"))
                .unwrap();
        let code = engine.precompile_component(EMPTY).unwrap();
        for (code, is_found) in [(b"another".to_vec(), false), (code, true)] {
            let packed = rind_embed::compress_with_dictionary(
                &[],
                &code,
                rind_embed::FAST_COMPRESSION_LEVEL,
            )
            .unwrap();
            let packed = [(&*component.digest.clone().leak(), &*packed.leak())];
            #[expect(unsafe_code, reason = "the engine refuses what it did not compile")]
            // SAFETY: the code is that of the component, or none at all.
            let precompiled = unsafe { PrecompiledComponents::new(Box::leak(Box::new(packed))) };
            let compiler = Compiler {
                precompiled,
                ..Compiler::default()
            };
            let mut is_compiled = false;
            let loaded =
                cache.load_component(&engine, &component, &compiler, || is_compiled = true);
            let (_, was_found) = loaded.await.unwrap();
            assert_eq!((was_found, is_compiled), (is_found, !is_found));
            let entry = cache.cache_entry_path(&engine, &component_code_digest(EMPTY).unwrap());
            fs::remove_file(entry).unwrap();
        }
    }
}
