//! Compares generated tables and other parts of documents with the code; `RIND_BLESS=1` writes
//! them.

use super::tree;

/// A generated table of a document, between `<!-- NAME -->` and `<!-- /NAME -->`.
pub(super) struct Table {
    /// Path of the document, for messages.
    pub(super) file: &'static str,
    pub(super) name: &'static str,
    /// Source from which the table is generated, for messages.
    pub(super) source: &'static str,
    /// Generated lines.
    pub(super) lines: Vec<String>,
}

impl Table {
    /// Returns the marks and the lines between them.
    pub(super) fn text(&self) -> String {
        let Self { name, lines, .. } = self;
        format!("<!-- {name} -->\n{}\n<!-- /{name} -->", lines.join("\n"))
    }

    /// Compares the table with its file. With `RIND_BLESS` it writes the table if they differ, and
    /// else it fails.
    pub(super) fn settle(&self) {
        let part = Part {
            start: format!("<!-- {} -->\n", self.name),
            end: format!("<!-- /{} -->", self.name),
            text: self.lines.join("\n") + "\n",
        };
        let found = self.check(&tree::read(self.file));
        part.write_unless(self.file, found);
    }

    /// Compares the table in `text` with the lines. The error contains the generated table.
    pub(super) fn check(&self, text: &str) -> Result<(), String> {
        let (start, end) = (
            format!("<!-- {} -->", self.name),
            format!("<!-- /{} -->", self.name),
        );
        let table = text
            .split_once(&start)
            .and_then(|(_, rest)| Some(rest.split_once(&end)?.0))
            .ok_or_else(|| format!("{} has no table between `{start}` and `{end}`", self.file))?;
        let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
        let found: Vec<Vec<&str>> = lines.filter(|line| !is_rule(line)).map(cells).collect();
        let wanted: Vec<Vec<&str>> = self
            .lines
            .iter()
            .filter(|line| !is_rule(line))
            .map(|line| cells(line))
            .collect();
        if found == wanted {
            return Ok(());
        }
        let wrong = (0..found.len().max(wanted.len())).find(|at| found.get(*at) != wanted.get(*at));
        let wrong = wrong
            .and_then(|at| found.get(at))
            .map(|cells| cells.join(" | "));
        Err(format!(
            "{}: the table of {} is not the {}'s, at `{}`; it must be\n{}",
            self.file,
            self.name,
            self.source,
            wrong.unwrap_or_default(),
            self.text()
        ))
    }
}

/// A part of a file between two texts, generated from the code.
pub(super) struct Part {
    pub(super) start: String,
    pub(super) end: String,
    pub(super) text: String,
}

impl Part {
    /// Compares the part with a file. With `RIND_BLESS` it writes the part if they differ, and else
    /// it fails.
    pub(super) fn settle(&self, path: &str) {
        let found = match self.split(&tree::read(path)) {
            Some([_, text, _]) if text == self.text => Ok(()),
            _ => Err(format!(
                "after `{}` must stand\n{}",
                self.start.trim(),
                self.text
            )),
        };
        self.write_unless(path, found);
    }

    /// Splits a text into the text before the part, the part, and the text after it.
    fn split(&self, text: &str) -> Option<[String; 3]> {
        let (before, rest) = text.split_once(&self.start)?;
        let at = rest.find(&self.end)?;
        let (part, after) = rest.split_at(at);
        Some([
            format!("{before}{}", self.start),
            part.to_owned(),
            after.to_owned(),
        ])
    }

    fn write_unless(&self, path: &str, found: Result<(), String>) {
        let Err(message) = found else {
            return;
        };
        assert!(
            std::env::var_os("RIND_BLESS").is_some(),
            "{path}: {message}\n`RIND_BLESS=1 cargo test -p rind-tests tidy` writes it"
        );
        let text = tree::read(path);
        let [before, _, after] = self.split(&text).expect(&message);
        std::fs::write(
            tree::root().join(path),
            [before, self.text.clone(), after].concat(),
        )
        .unwrap();
    }
}

/// Returns the trimmed cells of a row, so that a table may be aligned with spaces.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(str::trim).collect()
}

fn is_rule(row: &str) -> bool {
    cells(row)
        .iter()
        .all(|cell| cell.trim_matches(':').chars().all(|c| c == '-') && !cell.is_empty())
}
