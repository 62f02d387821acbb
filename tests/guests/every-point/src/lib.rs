//! A hook on every point, each doing all that its outcome allows, so that every conversion is crossed both ways.

mod answers;

include!("../../../../wit/points.in");
include!("../../hooks.in");
for_each_point!(hooks);
