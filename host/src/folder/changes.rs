//! Computes a number from the state of a file or directory; the number changes with the state.
//!
//! Only directories are opened. Of anything else, such as a pipe or a device, only the metadata is
//! read. Start from [`GrantedFolders::path_change_marker`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use cap_std::fs::{Dir, Metadata, MetadataExt};

use super::{FolderError, FolderOpenOptions, GrantedFolders, MAX_LISTED_FOLDER_ENTRIES};

/// State number of a path that does not exist. The numbers of all other states are odd.
const ABSENT_PATH_STATE: u64 = 0;

impl GrantedFolders {
    /// Returns a number that changes when the file, or an entry of the directory, changes. Entries
    /// of subdirectories are ignored. A path that does not exist has a state too. Blocks.
    ///
    /// # Errors
    /// The path was not granted or leads out of the granted directory, or the directory has too
    /// many entries.
    pub fn path_change_marker(&self, path: &str) -> Result<u64, FolderError> {
        match self.compute_change_marker(path) {
            Err(FolderError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                Ok(ABSENT_PATH_STATE)
            }
            looked => looked,
        }
    }

    fn compute_change_marker(&self, path: &str) -> Result<u64, FolderError> {
        let place = self.resolve_path(path, true)?;
        let metadata = place.metadata()?;
        let mut state = hash_entry_metadata("", &metadata);
        if metadata.is_dir() {
            let how = FolderOpenOptions {
                read: true,
                folder: true,
                ..FolderOpenOptions::default()
            };
            let folder = Dir::from_std_file(place.open_file_or_folder(how)?.file);
            for (at, entry) in folder.entries()?.enumerate() {
                if at == MAX_LISTED_FOLDER_ENTRIES {
                    return Err(FolderError::TooMuch(format!(
                        "the folder has more than {MAX_LISTED_FOLDER_ENTRIES} entries"
                    )));
                }
                let entry = entry?;
                // The entry may have been removed meanwhile.
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                // The hashes are added up, because entries come in no fixed order.
                let name = entry.file_name();
                state = state.wrapping_add(hash_entry_metadata(&name.to_string_lossy(), &metadata));
            }
        }
        Ok(state | 1)
    }
}

/// Hashes the metadata that shows whether an entry changed. The time and size of a directory are
/// left out, because they change with its entries.
fn hash_entry_metadata(name: &str, metadata: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, metadata.ino(), metadata.is_dir()).hash(&mut hasher);
    if !metadata.is_dir() {
        let times = (metadata.mtime(), metadata.mtime_nsec());
        (metadata.len(), times, metadata.is_file()).hash(&mut hasher);
    }
    hasher.finish()
}
