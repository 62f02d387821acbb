//! Bundles on the disk: reads the one that is there, and puts another in its place in one step.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::derive::Bundle;
use crate::disk::exchange;
use crate::grant::held::HeldFolder;

/// Reads the bundle in a folder; `None` when nothing is there. A link, or a file that is no text, makes it none of ours.
pub(super) fn read(folder: &Path) -> anyhow::Result<Option<Bundle>> {
    let found = match folder.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("look at {}", folder.display())),
    };
    if !found.is_dir() {
        bail!(
            "{} is a link or a file: move it away, or choose another folder",
            folder.display()
        );
    }
    let held = HeldFolder::read(folder).with_context(|| format!("read {}", folder.display()))?;
    let files = held.into_files().into_iter();
    let files = files.map(|(names, bytes)| {
        (
            names.join("/"),
            String::from_utf8_lossy(&bytes).into_owned(),
        )
    });
    Ok(Some(Bundle(files.collect())))
}

/// Writes a bundle whole or not at all: in a place where nothing is, or in that of the bundle that was read before.
pub(super) fn write(
    bundle: &Bundle,
    folder: &Path,
    earlier: Option<&Bundle>,
) -> anyhow::Result<()> {
    let above = folder.parent().unwrap_or(Path::new("."));
    let doing = || format!("write {}", folder.display());
    fs::create_dir_all(above).with_context(doing)?;
    let private = tempfile::Builder::new()
        .prefix(".derive-")
        .tempdir_in(above)
        .with_context(doing)?;
    let fresh = private.path().join("fresh");
    for (path, text) in &bundle.0 {
        let file = fresh.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&fresh))
            .and_then(|()| fs::write(&file, text))
            .with_context(doing)?;
    }
    let Some(earlier) = earlier else {
        return fs::rename(&fresh, folder).with_context(doing);
    };
    exchange(&fresh, folder).with_context(doing)?;
    // What was there is in the private folder now. Somebody may have edited it since it was read.
    if read(&fresh).ok().flatten().as_ref() != Some(earlier) {
        exchange(&fresh, folder).with_context(doing)?;
        bail!(
            "{} was changed meanwhile, and is left as it is; run the command again",
            folder.display()
        );
    }
    Ok(())
}
