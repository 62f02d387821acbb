//! Computes where the files of submodules are.

/// Directories to which the file paths of a module's submodules are relative.
#[derive(Clone)]
pub(super) struct SubmoduleSearchDirectories {
    /// Directory of the module's own file, to which paths in `#[path]` are relative.
    pub(super) of_file: String,
    /// Directory to which the paths of submodule files without `#[path]` are relative.
    pub(super) of_modules: String,
}

impl SubmoduleSearchDirectories {
    pub(super) fn for_crate_root(path: &str) -> Self {
        let folder = parent_folder_path(path);
        Self {
            of_file: folder.clone(),
            of_modules: folder,
        }
    }

    pub(super) fn for_source_file(path: &str) -> Self {
        let folder = parent_folder_path(path);
        let stem = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs");
        let of_modules = if stem == "mod" {
            folder.clone()
        } else {
            join_path(&folder, stem)
        };
        Self {
            of_file: folder,
            of_modules,
        }
    }

    pub(super) fn submodule_directories(&self, name: &str) -> Self {
        let of_modules = join_path(&self.of_modules, name);
        Self {
            of_file: of_modules.clone(),
            of_modules,
        }
    }
}

fn parent_folder_path(path: &str) -> String {
    path.rsplit_once('/')
        .map_or_else(String::new, |(folder, _)| folder.to_owned())
}

pub(super) fn join_path(folder: &str, name: &str) -> String {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in name.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}
