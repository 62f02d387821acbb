// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { messages, messagesAfter, append } from "rind:plugin/session@0.1.1";
