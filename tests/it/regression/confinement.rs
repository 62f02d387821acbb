//! Commands of `bash` and the kernel that confines them.
