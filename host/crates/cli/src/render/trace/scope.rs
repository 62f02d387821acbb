//! Tracks the parts of the turn, agents and tool calls, for which lines were printed.
//!
//! Lines are only appended, and parallel parts interleave. If a line belongs to a part other than
//! the last one printed, a header with the part's name is printed first.

use std::collections::HashMap;

use super::super::DIM_STYLE;
use super::super::row::OutputRowBuilder;
use rind_lib::event::TurnPartId;

#[derive(Default)]
struct TurnPartNode {
    parent: Option<TurnPartId>,
    level: usize,
    /// Name of the part in the header that is printed when lines about the part follow lines about
    /// another part.
    name: String,
}

pub(super) struct TurnPartTree {
    known: HashMap<TurnPartId, TurnPartNode>,
    /// Part of the turn to which the last printed line belongs, preceded by the parts that contain
    /// it, outermost first.
    path: Vec<TurnPartId>,
}

impl Default for TurnPartTree {
    fn default() -> Self {
        let main = TurnPartId::Agent("main".into());
        Self {
            known: HashMap::from([(main.clone(), TurnPartNode::default())]),
            path: vec![main],
        }
    }
}

impl TurnPartTree {
    /// Returns the indentation level of the first line of a part of the turn, an agent or a tool
    /// call; `None` if no line of the part was printed.
    pub(super) fn part_indent_level(&self, part: &TurnPartId) -> Option<usize> {
        self.known.get(part).map(|known| known.level)
    }

    pub(super) fn is_part_open(&self, part: &TurnPartId) -> bool {
        self.path.contains(part)
    }

    /// Opens a part whose first line was printed at `level` below `parent`.
    pub(super) fn add_and_enter_part(
        &mut self,
        part: TurnPartId,
        parent: TurnPartId,
        level: usize,
        name: String,
    ) {
        let known = TurnPartNode {
            parent: self.known.contains_key(&parent).then_some(parent),
            level,
            name,
        };
        self.path.push(part.clone());
        self.known.insert(part, known);
    }

    /// Records that the next line belongs to the part `part` of the turn. Returns the headers to
    /// print before that line.
    pub(super) fn enter_part_and_format_headers(&mut self, part: &TurnPartId) -> Vec<String> {
        if let Some(at) = self.path.iter().position(|open| open == part) {
            self.path.truncate(at + 1);
            return Vec::new();
        }
        let Some(known) = self.known.get(part) else {
            return Vec::new();
        };
        let line = OutputRowBuilder::with_indent_level(known.level)
            .with_styled_text(DIM_STYLE, "…")
            .with_space_and_styled_text(DIM_STYLE, &known.name);
        let mut lines = match known.parent.clone() {
            Some(parent) => self.enter_part_and_format_headers(&parent),
            None => Vec::new(),
        };
        self.path.push(part.clone());
        lines.push(line.into_line());
        lines
    }
}
