//! Stores time, memory and host calls of a plugin's test cases in the cache, to show them next to
//! those of the next run.
//!
//! Times differ between machines and runs, so a difference never fails a case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::run::CaseCost;

/// Time, memory and host calls of test cases. The key is `FILE NAME`: the file and the name of the
/// case.
pub type CaseCostsByName = BTreeMap<String, CaseCost>;

/// Costs of the test cases of one plugin in their previous run.
#[derive(Debug)]
pub struct PreviousCaseCosts {
    file: PathBuf,
    costs: CaseCostsByName,
}

impl PreviousCaseCosts {
    /// Reads the costs of the previous run of the plugin in `folder`. A missing or corrupt file is
    /// treated as a run without cases.
    #[must_use]
    pub fn read_costs(cache: &Path, folder: &Path) -> Self {
        let place = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let hash = blake3::hash(place.as_os_str().as_encoded_bytes()).to_hex();
        let file = cache.join("cases").join(format!("{}.json", &hash[..16]));
        let text = std::fs::read(&file).unwrap_or_default();
        Self {
            costs: serde_json::from_slice(&text).unwrap_or_default(),
            file,
        }
    }

    /// Returns the cost of a case in the previous run.
    #[must_use]
    pub fn case_cost(&self, case: &str) -> Option<&CaseCost> {
        self.costs.get(case)
    }

    /// Stores the costs of this run. Cases that were not run keep their previous costs, unless
    /// `is_whole` is set, which means that all cases were run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store_costs(mut self, costs: CaseCostsByName, is_whole: bool) -> std::io::Result<()> {
        if is_whole {
            self.costs.clear();
        }
        self.costs.extend(costs);
        let text = serde_json::to_vec(&self.costs)?;
        if let Some(folder) = self.file.parent() {
            rind_lib::disk::create_private_folder(folder)?;
        }
        rind_lib::disk::replace_private_file(&self.file, &text)
    }
}
