//! Benches of Rind, one in each of the other files of this folder.
