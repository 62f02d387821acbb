//! Reads the files of a WIT package.

use std::path::Path;

use super::{MAX_FILES_PER_PACKAGE, PackageSourceFolder, PackageSourceReadError, README_FILE_NAME};
use crate::BundleSourceHasher;
use crate::wit::WitFiles;
use rind_lib::paths::file_name;

/// Files of a WIT package, its README and a hash of both.
pub struct WitPackageSource {
    pub files: WitFiles,
    pub readme: Option<String>,
    pub hash: BundleSourceHasher,
}

/// Whether a directory is a WIT package: it contains WIT files, not only in subdirectories.
pub fn contains_wit_files(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .take(MAX_FILES_PER_PACKAGE)
        .any(|entry| entry.path().extension().is_some_and(|end| end == "wit"))
}

/// Reads a WIT package: the files of a directory and of its `deps`, or a single file.
///
/// # Errors
/// A file cannot be read or is outside the directory, or the package is too large.
pub fn read_wit_package(path: &Path) -> Result<WitPackageSource, PackageSourceReadError> {
    let mut files = WitFiles::default();
    let mut readme = None;
    if path.is_file() {
        let name = file_name(path);
        let mut folder = PackageSourceFolder::open_folder(
            path.parent()
                .filter(|above| !above.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        )?;
        files.main.push((name.clone(), folder.read_text(&name)?));
    } else {
        let mut folder = PackageSourceFolder::open_folder(path)?;
        files = folder.read_wit_files_with_dependencies("")?;
        readme = folder.read_text_if_present(README_FILE_NAME);
    }
    let mut hash = BundleSourceHasher::new("wit");
    files
        .all_files()
        .for_each(|(path, text)| hash.add_source(path, text.as_bytes()));
    hash.add_source(
        README_FILE_NAME,
        readme.as_deref().unwrap_or_default().as_bytes(),
    );
    Ok(WitPackageSource {
        files,
        readme,
        hash,
    })
}

impl PackageSourceFolder {
    /// Reads the files of a directory and of its `deps`.
    pub(super) fn read_wit_files_with_dependencies(
        &mut self,
        folder: &str,
    ) -> Result<WitFiles, PackageSourceReadError> {
        let mut files = WitFiles {
            main: self.read_wit_files_in_folder(folder)?,
            dependencies: Vec::new(),
        };
        let deps = match folder {
            "" => "deps".to_owned(),
            folder => format!("{folder}/deps"),
        };
        if !self.is_folder(&deps) {
            return Ok(files);
        }
        for (name, is_folder) in self.list_entries(&deps)? {
            let own = format!("{deps}/{name}");
            let texts = match is_folder {
                true => self.read_wit_files_in_folder(&own)?,
                false if name.ends_with(".wit") => vec![(own.clone(), self.read_text(&own)?)],
                false => Vec::new(),
            };
            files
                .dependencies
                .extend(Some(texts).filter(|texts| !texts.is_empty()));
        }
        Ok(files)
    }

    fn read_wit_files_in_folder(
        &mut self,
        folder: &str,
    ) -> Result<Vec<(String, String)>, PackageSourceReadError> {
        let mut files = Vec::new();
        for (name, is_folder) in self.list_entries(folder)? {
            if !is_folder && name.ends_with(".wit") {
                let path = if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                let text = self.read_text(&path)?;
                files.push((path, text));
            }
        }
        Ok(files)
    }
}
