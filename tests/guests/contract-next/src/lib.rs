//! Stores what it is shown, and uses all that the next version of the contract adds. No SDK has that version, so the bindings
//! are used as they are generated.
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    reason = "generated bindings, without the SDK's macros around them"
)]

wit_bindgen::generate!({
    path: "../../evolution/next.wit",
    world: "rind:plugin/next",
});

use exports::rind::plugin::{pre_output, turn_done, turn_end};
use rind::plugin::outcomes::{Observed, OutputOutcome};
use rind::plugin::payloads::TurnSummary;
use rind::plugin::state;
use rind::plugin::types::{Effect, Error, Stored};

struct Next;

fn observed(key: &str, value: String) -> Observed {
    let stored = Stored {
        key: key.to_owned(),
        value,
    };
    Observed {
        effects: vec![Effect::Store(stored)],
    }
}

impl pre_output::Guest for Next {
    fn run(output: String) -> Result<OutputOutcome, Error> {
        state::set("one", "1")?;
        state::set("other", "2")?;
        Ok(OutputOutcome {
            text: None,
            block: None,
            effects: observed("pre-output", output).effects,
            notice: Some("the new has read it".to_owned()),
        })
    }
}

impl turn_done::Guest for Next {
    fn run(output: String) -> Result<Observed, Error> {
        let what = format!("{output} and {} keys", state::count("o"));
        Ok(observed("turn-done", what))
    }
}

impl turn_end::Guest for Next {
    fn run(turn: TurnSummary) -> Result<Observed, Error> {
        let what = format!("{:?} with {} calls a step", turn.stop, turn.calls_per_step);
        Ok(observed("turn-end", what))
    }
}

export!(Next);
