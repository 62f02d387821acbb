//! Parts of the turn that lines were shown for: agents and tool calls.
//!
//! Lines are only appended, and parallel parts interleave. If a line belongs to a part other than
//! the last one shown, the name of its part is printed first.

use std::collections::HashMap;

use super::super::DIM;
use super::super::row::Row;
use rind_lib::event::Part;

#[derive(Default)]
struct Known {
    parent: Option<Part>,
    level: usize,
    /// Name that is shown when the part is resumed.
    name: String,
}

pub(super) struct Scopes {
    known: HashMap<Part, Known>,
    /// Parts of the last line, outermost first.
    path: Vec<Part>,
}

impl Default for Scopes {
    fn default() -> Self {
        let main = Part::Agent("main".into());
        Self {
            known: HashMap::from([(main.clone(), Known::default())]),
            path: vec![main],
        }
    }
}

impl Scopes {
    /// The level of a part's own line; `None` when it was not shown.
    pub(super) fn level(&self, part: &Part) -> Option<usize> {
        self.known.get(part).map(|known| known.level)
    }

    pub(super) fn is_open(&self, part: &Part) -> bool {
        self.path.contains(part)
    }

    /// Opens a part whose line was shown at `level` below `parent`.
    pub(super) fn open(&mut self, part: Part, parent: Part, level: usize, name: String) {
        let known = Known {
            parent: self.known.contains_key(&parent).then_some(parent),
            level,
            name,
        };
        self.path.push(part.clone());
        self.known.insert(part, known);
    }

    /// Moves to the part of the next line. Returns the headers that must be printed before the
    /// line.
    pub(super) fn go_to(&mut self, part: &Part) -> Vec<String> {
        if let Some(at) = self.path.iter().position(|open| open == part) {
            self.path.truncate(at + 1);
            return Vec::new();
        }
        let Some(known) = self.known.get(part) else {
            return Vec::new();
        };
        let line = Row::at(known.level).add(DIM, "…").then(DIM, &known.name);
        let mut lines = match known.parent.clone() {
            Some(parent) => self.go_to(&parent),
            None => Vec::new(),
        };
        self.path.push(part.clone());
        lines.push(line.line());
        lines
    }
}
