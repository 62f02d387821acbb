//! A machine of an author who has built a Rust plugin before: the SDK is already compiled, in a
//! folder that is kept between test runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Once;

use super::Rind;

impl Rind {
    /// Creates a machine on which a plugin was built before, so that building another one compiles
    /// only that plugin.
    #[must_use]
    pub fn author() -> Self {
        static BUILT: Once = Once::new();
        BUILT.call_once(|| {
            let rind = Self::with_shared_builds();
            let folder = rind.home().join("cache/author");
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            let folder = folder.canonicalize().unwrap();
            for args in [&["plugin", "new", "first"], &["plugin", "build", "first"]] {
                let mut command = rind.command(args);
                rind.finish(command.current_dir(&folder)).exits(0);
            }
        });
        Self::with_shared_builds()
    }

    /// Makes another `RIND_HOME` use the compiled SDK of this author.
    pub fn share_builds_with(&self, home: &Path) {
        fs::create_dir_all(home.join("cache")).unwrap();
        for folder in ["cache/builds", "rind-sdk"] {
            let shared = self.home().join(folder).canonicalize().unwrap();
            symlink(shared, home.join(folder)).unwrap();
        }
    }

    fn with_shared_builds() -> Self {
        let rind = Self {
            shares_builds: true,
            ..Self::default()
        };
        // Cargo compiles the SDK again if its path changes, so all machines share one path.
        let sdks = rind.home().join("cache/sdks");
        fs::create_dir_all(&sdks).unwrap();
        symlink(sdks.canonicalize().unwrap(), rind.home().join("rind-sdk")).unwrap();
        rind
    }
}
