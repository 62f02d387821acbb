// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { read, write, append, list, createFolder, remove } from "rind:plugin/files@0.1.1";
