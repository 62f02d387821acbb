//! Tests which paths a rewind restores without an explicit request.

use super::super::record::{ChangeSource, FileChange};
use super::*;

fn file(text: &str) -> FileState {
    FileState::File {
        digest: text.to_owned(),
        bytes: 1,
        mode: 0o644,
    }
}

fn record(
    turn: u32,
    end: Option<ChangeRecordOutcome>,
    source: ChangeSource,
    [before, after]: [&str; 2],
) -> ChangeRecord {
    let state = |text: &str| match text {
        "" => FileState::Absent,
        text => file(text),
    };
    ChangeRecord {
        id: 0,
        turn,
        time: 0,
        call: None,
        tool: "t".to_owned(),
        source,
        changes: vec![FileChange {
            path: "p".to_owned(),
            before: state(before),
            after: state(after),
        }],
        end,
        left_out: Vec::new(),
        unknown: None,
    }
}

/// Returns the judgments for the current states `a` to `d` after some records, one letter for each:
/// `=` same, `s` safe; changed `n` now, `b` between calls, `i` by an interrupted call.
fn judge(records: &[ChangeRecord], from: u32) -> String {
    let histories = build_path_histories(records, |record| record.turn >= from);
    let Some(history) = histories.get("p") else {
        return String::new();
    };
    let judged = ["a", "b", "c", "d"].map(|text| match history.check_restorability(&file(text)) {
        PathRestorability::Same => '=',
        PathRestorability::Safe => 's',
        PathRestorability::Changed(UncertainRestoreReason::Now) => 'n',
        PathRestorability::Changed(UncertainRestoreReason::Between) => 'b',
        PathRestorability::Changed(UncertainRestoreReason::Interrupted) => 'i',
    });
    judged.into_iter().collect()
}

#[test]
fn a_path_is_restored_only_if_calls_left_its_current_state() {
    use ChangeSource::{Rewind, Snapshot, Write};
    let done = |turn, states| record(turn, Some(ChangeRecordOutcome::Done), Write, states);
    let ended = |turn, end, states| record(turn, end, Snapshot, states);
    for (name, records, from, expected) in [
        ("one change", vec![done(1, ["a", "b"])], 1, "=snn"),
        (
            "an earlier turn does not count",
            vec![done(1, ["a", "b"])],
            2,
            "",
        ),
        (
            "two turns",
            vec![done(1, ["a", "b"]), done(2, ["b", "c"])],
            1,
            "=nsn",
        ),
        (
            "the later one of two turns",
            vec![done(1, ["a", "b"]), done(2, ["b", "c"])],
            2,
            "n=sn",
        ),
        (
            "an edit between two calls",
            vec![done(1, ["a", "b"]), done(2, ["c", "d"])],
            1,
            "=nnb",
        ),
        (
            "a write that did nothing",
            vec![
                record(1, Some(ChangeRecordOutcome::Void), Write, ["a", "b"]),
                done(1, ["a", "c"]),
            ],
            1,
            "=nsn",
        ),
        (
            "a write that was killed",
            vec![done(1, ["a", "b"]), record(2, None, Write, ["b", "c"])],
            1,
            "=ssn",
        ),
        (
            "a rewind that was killed, and the same one again",
            vec![
                done(1, ["a", "b"]),
                done(2, ["b", "c"]),
                record(2, None, Rewind, ["c", "b"]),
            ],
            1,
            "=ssn",
        ),
        (
            "an interrupted command",
            vec![ended(1, Some(ChangeRecordOutcome::Interrupted), ["a", "b"])],
            1,
            "=inn",
        ),
        (
            "a turn after a rewind",
            vec![
                done(1, ["a", "b"]),
                record(1, Some(ChangeRecordOutcome::Done), Rewind, ["b", "a"]),
                done(2, ["a", "c"]),
            ],
            1,
            "=nsn",
        ),
    ] {
        assert_eq!(judge(&records, from), expected, "{name}");
    }
}

#[test]
fn the_mode_of_a_write_that_was_killed_is_uncertain() {
    let records = [record(1, None, ChangeSource::Write, ["", "a"])];
    let histories = build_path_histories(&records, |_| true);
    let private = FileState::File {
        digest: "a".to_owned(),
        bytes: 1,
        mode: 0o600,
    };
    assert_eq!(
        histories["p"].check_restorability(&private),
        PathRestorability::Safe
    );
}
