// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
/// <reference path="./contract.d.ts" />
export * from "rind:plugin/websocket@0.1.1";
