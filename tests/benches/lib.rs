//! Benches of Rind; each is a file beside this one.
