//! Merges outcomes of hooks on streamed text of an answer. A hook decides which part of the text is
//! displayed, and which part is held back until more text arrives.

use super::{MergeEnv, MergeIntoPayload, MergedOutcome};
use crate::point::outcome as o;
use crate::point::payload as p;

impl MergeIntoPayload<p::TextDelta> for o::DeltaOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "block"];

    fn merge(
        self,
        payload: &mut p::TextDelta,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        if payload.is_last && self.keep > 0 {
            return Err(format!(
                "the `keep` of the hook holds back {} bytes of the last piece of text, after which no more text follows",
                self.keep
            ));
        }
        merged.add_effects(self.effects)?;
        merged.set_block_objection(self.stop);
        let mut kept_from = payload.text.len().saturating_sub(payload.keep);
        if let Some(text) = &self.text {
            kept_from = adjust_offset_after_edit(kept_from, &payload.text, text);
        }
        merged.set_text("the new text", &mut payload.text, self.text)?;
        let own = payload.text.len().saturating_sub(self.keep as usize);
        let from = payload.text.floor_char_boundary(kept_from.min(own));
        payload.keep = payload.text.len() - from;
        Ok(())
    }
}

/// Converts `from`, the offset at which the held-back part begins in `old`, to an offset in `new`.
/// If the position is ambiguous, the held-back part begins at the first difference: holding back
/// too much text is safe, holding back too little is not.
fn adjust_offset_after_edit(from: usize, old: &str, new: &str) -> usize {
    let same = |(a, b): &(u8, u8)| a == b;
    let n_before = old.bytes().zip(new.bytes()).take_while(same).count();
    let backwards = old.bytes().rev().zip(new.bytes().rev());
    let n_behind = backwards.take_while(same).count();
    let keep = old.len() - from;
    if n_before >= from {
        from
    } else if n_behind >= keep {
        new.len() - keep
    } else {
        n_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENV: MergeEnv<'static> = MergeEnv {
        plugin: "p",
        may_change: true,
    };

    fn after(payload: &p::TextDelta, text: Option<&str>, keep: u32) -> p::TextDelta {
        let mut payload = payload.clone();
        let outcome = o::DeltaOutcome {
            text: text.map(str::to_owned),
            keep,
            ..Default::default()
        };
        outcome
            .merge(&mut payload, &mut MergedOutcome::default(), &ENV)
            .unwrap();
        payload
    }

    #[test]
    fn what_one_hook_keeps_back_stays_kept_whatever_the_next_one_writes() {
        let text = |text: &str, keep| p::TextDelta {
            text: text.to_owned(),
            keep,
            ..Default::default()
        };
        let table = [
            // Nothing changed: the longer held part wins.
            ("one 4111", 4, None, 0, 4),
            ("one 4111", 4, None, 6, 6),
            ("one 4111", 4, None, 99, 8),
            // Changed before the held part, inside it, and in both.
            ("bad 4111", 4, Some("[masked] 4111"), 0, 4),
            ("one 4111", 4, Some("one [1]"), 0, 3),
            ("bad 4111", 4, Some("[x] [1]"), 0, 7),
            // All offsets fall on character boundaries.
            ("ab é", 0, None, 1, 2),
        ];
        for (old, kept, new, keep, expected) in table {
            let after = after(&text(old, kept), new, keep);
            assert_eq!(after.keep, expected, "{old} {new:?}");
        }
    }

    #[test]
    fn nothing_can_be_kept_back_at_the_end() {
        let mut payload = p::TextDelta {
            text: "all".to_owned(),
            is_last: true,
            ..Default::default()
        };
        let outcome = o::DeltaOutcome {
            keep: 1,
            ..Default::default()
        };
        assert!(
            outcome
                .merge(&mut payload, &mut MergedOutcome::default(), &ENV)
                .is_err()
        );
        assert_eq!((payload.text.as_str(), payload.keep), ("all", 0));
    }
}
