//! Scopes of lines in the trace: an agent, or one of its tool calls.
//!
//! Lines are only ever appended, and what runs side by side speaks in turns. So a line that belongs to something which is not
//! the last that was shown is preceded by the name of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::{DIM, styled};
use super::row::Row;

/// Scope of lines: the call or agent that they are shown below.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// An agent, by its name.
    Agent(Arc<str>),
    /// A tool call, by its agent and its id.
    Call(Arc<str>, String),
}

struct Known {
    parent: Option<Scope>,
    level: usize,
    /// Name that is shown when the scope is resumed.
    name: String,
}

/// Scopes that were shown so far.
pub(super) struct Scopes {
    known: HashMap<Scope, Known>,
    /// Scopes of the last line, outermost first.
    path: Vec<Scope>,
}

impl Scopes {
    /// Creates the scopes with the main agent alone.
    pub(super) fn new(main: &str) -> Self {
        let main = Scope::Agent(main.into());
        let root = Known {
            parent: None,
            level: 0,
            name: String::new(),
        };
        Self {
            known: HashMap::from([(main.clone(), root)]),
            path: vec![main],
        }
    }

    /// The level of something's own line; `None` when it was not shown.
    pub(super) fn level(&self, scope: &Scope) -> Option<usize> {
        self.known.get(scope).map(|known| known.level)
    }

    /// Whether the last line is in the scope.
    pub(super) fn is_open(&self, scope: &Scope) -> bool {
        self.path.contains(scope)
    }

    /// Opens a scope, whose line is about to be shown at `level` below `parent`.
    pub(super) fn open(&mut self, scope: Scope, parent: Scope, level: usize, name: String) {
        let parent = self.known.contains_key(&parent).then_some(parent);
        self.path.push(scope.clone());
        self.known.insert(
            scope,
            Known {
                parent,
                level,
                name,
            },
        );
    }

    /// Moves to the scope of the next line. Comes back with what has to be shown first for that to be seen.
    pub(super) fn go_to(&mut self, scope: &Scope) -> Vec<String> {
        if let Some(at) = self.path.iter().position(|open| open == scope) {
            self.path.truncate(at + 1);
            return Vec::new();
        }
        let Some(known) = self.known.get(scope) else {
            return Vec::new();
        };
        let (level, name) = (known.level, known.name.clone());
        let mut lines = match known.parent.clone() {
            Some(parent) => self.go_to(&parent),
            None => Vec::new(),
        };
        self.path.push(scope.clone());
        lines.push(Row::at(level).add(DIM, "…").line() + " " + &styled(DIM, name));
        lines
    }
}
