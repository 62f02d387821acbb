// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { all, get } from "rind:plugin/config@0.1.1";
