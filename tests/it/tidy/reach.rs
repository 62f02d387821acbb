//! Points and imports of the contract, read from `wit/`, for tests that reach every one of them.

use super::sdks::Contract;
pub(crate) use super::sdks::{camel_case, pascal_case};

/// Names of points and imports in the contract.
pub(crate) struct Reach {
    pub(crate) points: Vec<String>,
    /// Outcome of each point in `points`, as the Python SDK names it.
    pub(crate) outcomes: Vec<String>,
    /// Points whose hooks get a borrowed handle.
    pub(crate) lent: Vec<String>,
    /// Imports with functions.
    pub(crate) imports: Vec<String>,
}

/// Reads the contract.
pub(crate) fn reach() -> Reach {
    let contract = Contract::read();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let points = owned(contract.points());
    let lends = |point: &&String| super::read(&format!("wit/{point}.wit")).contains("borrow<");
    Reach {
        outcomes: points
            .iter()
            .map(|point| contract.outcome_of(point))
            .collect(),
        lent: points.iter().filter(lends).cloned().collect(),
        imports: owned(contract.imports()),
        points,
    }
}
