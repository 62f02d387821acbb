//! Counts repetitions, and gives advice about them.

use rind_sdk::data;

/// The operator's settings.
#[data]
pub(crate) struct LoopSettings {
    /// Warn from this edit of the same file on.
    pub(crate) edits: u32,
    /// Warn from this identical call in a row on.
    pub(crate) repeats: u32,
    /// Refuse a call that was made this often already.
    #[serde(default)]
    pub(crate) block_after: Option<u32>,
    /// `session` or `turn`.
    pub(crate) scope: String,
    /// Tools that edit a file.
    pub(crate) tools: Vec<String>,
}

impl LoopSettings {
    /// Whether edits are counted anew in each turn.
    pub(crate) fn each_turn(&self) -> bool {
        self.scope == "turn"
    }
}

/// A call or edit, and the number of times in a row.
#[data]
#[derive(Default)]
pub(crate) struct RepeatedCall {
    /// Hash of the observed content.
    what: u64,
    /// The turn it was seen in, if turns are counted separately.
    turn: Option<u32>,
    /// Number of times.
    pub(crate) times: u32,
}

impl RepeatedCall {
    /// Counts on if it is the same, and starts anew if it is not.
    pub(crate) fn seen_again(self, what: u64, turn: Option<u32>) -> Self {
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

/// Advice for the model and the person.
pub(crate) struct LoopAdvice {
    /// Text for the model.
    pub(crate) text: String,
    /// Notice for the person.
    pub(crate) notice: String,
    /// Whether the call is refused.
    pub(crate) refuse: bool,
}

/// Returns the advice after `times` times, counting this one.
pub(crate) fn loop_advice(
    what: &str,
    done: &str,
    times: u32,
    warn_from: u32,
    settings: &LoopSettings,
) -> Option<LoopAdvice> {
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
    Some(LoopAdvice {
        text,
        notice,
        refuse,
    })
}
