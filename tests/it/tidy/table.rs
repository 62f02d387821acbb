//! Tables of documents between two marks, compared with the code.

/// Names a table: it stands between `<!-- NAME -->` and `<!-- /NAME -->`.
pub(super) struct Table {
    /// Path of the document, for messages.
    pub(super) file: &'static str,
    pub(super) name: &'static str,
    /// Source that the table is compared with, for messages.
    pub(super) source: &'static str,
    /// The lines as they must be.
    pub(super) lines: Vec<String>,
}

impl Table {
    /// The marks and the lines between them.
    pub(super) fn text(&self) -> String {
        let Self { name, lines, .. } = self;
        format!("<!-- {name} -->\n{}\n<!-- /{name} -->", lines.join("\n"))
    }

    /// Compares the table in `text` with the lines; the error shows the table as it must be.
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

/// The cells of a row without spaces around them, so that a table may be aligned.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(str::trim).collect()
}

fn is_rule(row: &str) -> bool {
    cells(row)
        .iter()
        .all(|cell| cell.trim_matches(':').chars().all(|c| c == '-') && !cell.is_empty())
}
