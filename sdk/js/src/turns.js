// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { run, start, finish, steer, stop, running } from "rind:plugin/turns@0.1.1";
