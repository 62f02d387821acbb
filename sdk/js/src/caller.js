// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
export { session, turn, step, agent, depth, workspace, model, skill, usage, tokensUsed, costUsd, unpricedTokens, toolCalls } from "rind:plugin/caller@0.1.1";
