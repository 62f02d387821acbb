//! Answers at every point what its settings say, and nothing where they say nothing.
//!
//! `answers.POINT` is a table with the fields of the point's outcome. `turn`, `step`, `depth` and `when` (a part of what the hook
//! is shown) say for which calls it is meant, all of them without; `fail` is an error in place of an outcome.

mod answers;

include!("../../../../wit/points.in");
include!("../../hooks.in");
for_each_point!(hooks);
