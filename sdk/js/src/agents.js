// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { run, presets, start, resume, wait, stop } from "rind:plugin/agents@0.1.1";
