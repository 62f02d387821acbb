//! Tracks the parts of the turn, agents and tool calls, for which lines were printed.
//!
//! Lines are only appended, and parallel parts interleave. If a line belongs to a part other than
//! the last one printed, a header with the part's name is printed first.

use std::collections::HashMap;

use super::super::DIM;
use super::super::row::TableRow;
use rind_lib::event::TurnPart;

#[derive(Default)]
struct PrintedScope {
    parent: Option<TurnPart>,
    level: usize,
    /// Name of the part in the header that is printed when lines about the part follow lines about
    /// another part.
    name: String,
}

pub(super) struct TraceScopes {
    known: HashMap<TurnPart, PrintedScope>,
    /// Part of the turn to which the last printed line belongs, preceded by the parts that contain
    /// it, outermost first.
    path: Vec<TurnPart>,
}

impl Default for TraceScopes {
    fn default() -> Self {
        let main = TurnPart::Agent("main".into());
        Self {
            known: HashMap::from([(main.clone(), PrintedScope::default())]),
            path: vec![main],
        }
    }
}

impl TraceScopes {
    /// Returns the indentation level of the first line of a part of the turn, an agent or a tool
    /// call; `None` if no line of the part was printed.
    pub(super) fn scope_level(&self, part: &TurnPart) -> Option<usize> {
        self.known.get(part).map(|known| known.level)
    }

    pub(super) fn is_open(&self, part: &TurnPart) -> bool {
        self.path.contains(part)
    }

    /// Opens a part whose first line was printed at `level` below `parent`.
    pub(super) fn open_scope(
        &mut self,
        part: TurnPart,
        parent: TurnPart,
        level: usize,
        name: String,
    ) {
        let known = PrintedScope {
            parent: self.known.contains_key(&parent).then_some(parent),
            level,
            name,
        };
        self.path.push(part.clone());
        self.known.insert(part, known);
    }

    /// Records that the next line belongs to the part `part` of the turn. Returns the headers to
    /// print before that line.
    pub(super) fn move_to_part(&mut self, part: &TurnPart) -> Vec<String> {
        if let Some(at) = self.path.iter().position(|open| open == part) {
            self.path.truncate(at + 1);
            return Vec::new();
        }
        let Some(known) = self.known.get(part) else {
            return Vec::new();
        };
        let line = TableRow::at_level(known.level)
            .add_text(DIM, "…")
            .append_styled_text(DIM, &known.name);
        let mut lines = match known.parent.clone() {
            Some(parent) => self.move_to_part(&parent),
            None => Vec::new(),
        };
        self.path.push(part.clone());
        lines.push(line.into_line());
        lines
    }
}
