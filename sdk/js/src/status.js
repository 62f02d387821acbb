// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { set } from "rind:plugin/status@0.1.1";
