//! Counts how often calls and edits are repeated, and writes the advice about it for the model.

use rind_sdk::data;

/// Settings of the plugin: when repetitions lead to a warning or a refusal.
#[data]
pub(crate) struct LoopSettings {
    /// Number of edits of the same file from which the model is warned.
    pub(crate) edits: u32,
    /// Number of identical calls in a row from which the model is warned.
    pub(crate) repeats: u32,
    /// Number of repetitions after which further ones are refused; `None` refuses none.
    #[serde(default)]
    pub(crate) block_after: Option<u32>,
    /// `turn` if the count of edits restarts in each turn, else `session`.
    pub(crate) scope: String,
    /// Names of the tools that edit a file.
    pub(crate) tools: Vec<String>,
}

impl LoopSettings {
    /// Whether the count of a file's edits restarts in each turn.
    pub(crate) fn is_edit_count_reset_per_turn(&self) -> bool {
        self.scope == "turn"
    }
}

/// A call, or an edit of a file, and how often it was repeated.
#[data]
#[derive(Default)]
pub(crate) struct RepeatedCall {
    /// Hash of the call or of the edited path.
    what: u64,
    /// Turn of the last repetition; `None` if repetitions are counted across turns.
    turn: Option<u32>,
    /// Number of times that the call or edit was made, the first time included.
    pub(crate) times: u32,
}

impl RepeatedCall {
    /// Adds one if the call or edit is the same and in the same turn; otherwise restarts at 1.
    pub(crate) fn count_repeated_call(self, what: u64, turn: Option<u32>) -> Self {
        let same = self.times > 0 && self.what == what && self.turn == turn;
        Self {
            what,
            turn,
            times: if same {
                self.times.saturating_add(1)
            } else {
                1
            },
        }
    }
}

/// Advice on repeated calls, for the model and the user.
pub(crate) struct LoopDetectionAdvice {
    /// Text of the advice for the model.
    pub(crate) text: String,
    /// Text of the notice for the user.
    pub(crate) notice: String,
    /// Whether the repeated call is refused.
    pub(crate) refuse: bool,
}

/// Returns the advice for a call or edit that was made `times` times; `None` if this number is too
/// small for a warning.
pub(crate) fn advice_for_repetitions(
    what: &str,
    done: &str,
    times: u32,
    warn_from: u32,
    settings: &LoopSettings,
) -> Option<LoopDetectionAdvice> {
    let refuse = settings.block_after.is_some_and(|most| times > most);
    if times < warn_from && !refuse {
        return None;
    }
    let notice = format!(
        "{what} {done} {times} times{}",
        if refuse { ": refused" } else { "" }
    );
    let text = if refuse {
        let before = times - 1;
        format!(
            "{what} was {done} {before} times already. Stop: find out why it did not help, and ask if you are stuck."
        )
    } else {
        format!(
            "{what} was {done} {times} times now. If that does not bring you nearer, step back: read the whole of it \
             once, say what you expect to happen, and try another way."
        )
    };
    Some(LoopDetectionAdvice {
        text,
        notice,
        refuse,
    })
}
