//! Deadlines, cancellation and bounds.
