//! Writes a reproducible `.tar.gz`: the same files give the same bytes.

use anyhow::Context;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::PackageArchiveFiles;

/// Modification time of all entries, in seconds since the Unix epoch: 26 October 1985, as npm sets
/// it. Some programs do not accept 0.
const ENTRY_MTIME_UNIX_SECONDS: u64 = 499_162_500;

/// File mode of all entries: readable by all users.
const ENTRY_FILE_MODE: u32 = 0o644;

/// Writes files into a compressed archive, with `folder` in front of each path.
pub(super) fn write_tarball(folder: &str, files: &PackageArchiveFiles) -> anyhow::Result<Vec<u8>> {
    // `GzBuilder` writes no time and no file name into the gzip header.
    let encoder = GzBuilder::new().write(Vec::new(), Compression::default());
    let mut archive = Builder::new(encoder);
    for (path, content) in files {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_size(u64::try_from(content.len())?);
        header.set_mode(ENTRY_FILE_MODE);
        header.set_mtime(ENTRY_MTIME_UNIX_SECONDS);
        header.set_uid(0);
        header.set_gid(0);
        let path = format!("{folder}/{path}");
        let added = archive.append_data(&mut header, &path, content.as_slice());
        added.with_context(|| format!("cannot pack `{path}`"))?;
    }
    Ok(archive.into_inner()?.finish()?)
}
