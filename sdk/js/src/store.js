// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { get, set, remove, keys } from "rind:plugin/store@0.1.1";
