//! Arguments of `rind session`, and parsers for the times and sizes in them.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::super::completion;

/// Milliseconds of a minute.
const MILLISECONDS_PER_MINUTE: i64 = 60_000;

#[derive(Debug, Default, ClapArgs)]
pub(in super::super) struct SessionListArgs {
    /// List the sessions of every folder, and not only those of the current one
    #[arg(long)]
    pub(super) all: bool,
    /// List only sessions whose title or first input has this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,
    /// List only sessions that were used since: `3h`, `7d`, `2w`, or a day such as 2026-01-31
    #[arg(long, value_name = "TIME", value_parser = parse_past_time_ms)]
    pub(super) since: Option<i64>,
    /// List at most this many
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionShowArgs {
    /// Id of the session, the beginning of it, or `last`; `ID/agents/AGENT` is a subagent or holder
    #[arg(default_value = "last", value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Show only this turn; 0 is what happened before the first one
    #[arg(long, value_name = "N", conflicts_with = "entry")]
    pub(super) turn: Option<u32>,
    /// Show only this step of the turn: a request to the model, and its outcome
    #[arg(long, value_name = "S", requires = "turn", conflicts_with = "call")]
    pub(super) step: Option<u32>,
    /// Show only the tool call with this id, with what hooks decided about it
    #[arg(long, value_name = "ID", conflicts_with = "entry")]
    pub(super) call: Option<String>,
    /// Show the whole entry on this line of the file; the numbers stand at the left
    #[arg(long, value_name = "N")]
    pub(super) entry: Option<u64>,
    /// Cut no text, however long it is
    #[arg(long)]
    pub(super) full: bool,
    /// Print JSON, with whole texts
    #[arg(long)]
    pub(super) json: bool,
    /// Write the page that `rind serve` has of the session to a file that needs no server; `-` is
    /// standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "entry", "full"])]
    pub(super) html: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionEntriesArgs {
    /// Id of the session, the beginning of it, or `last`; `ID/agents/AGENT` is a subagent or holder
    #[arg(default_value = "last", value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Print only the entries after the one with this number, to go on where a program left off
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) after: u64,
    /// Go on with the entries that follow while another process writes them, until Ctrl-C
    #[arg(long)]
    pub(super) follow: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionDiffArgs {
    /// Id of the session, the beginning of it, or `last`
    #[arg(default_value = "last", value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Turn to show, instead of the last one that changed files
    #[arg(long, value_name = "N")]
    pub(super) turn: Option<u32>,
    /// Cut no diff, however long it is
    #[arg(long)]
    pub(super) full: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionSearchArgs {
    /// Text to find, in upper or lower case
    #[arg(value_name = "TEXT")]
    pub(super) text: String,
    /// Show at most this many places
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) limit: usize,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SessionCopyFormat {
    /// Text for people, with secrets masked
    Markdown,
    /// Page for people, without scripts and with secrets masked
    Html,
    /// Trajectory for tools of evaluation (ATIF, one JSON document), with secrets masked
    Atif,
    /// Session byte for byte, for `rind session import`; a tar archive if the session has blobs or subagents
    Jsonl,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionExportArgs {
    /// Id of the session, the beginning of it, or `last`
    #[arg(default_value = "last", value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Form of the file
    #[arg(long, value_enum, default_value_t = SessionCopyFormat::Markdown)]
    pub(super) format: SessionCopyFormat,
    /// Write to this file, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionImportArgs {
    /// File that `rind session export --format jsonl` wrote
    pub(super) file: PathBuf,
    /// Id that the session gets, instead of its own
    #[arg(long)]
    pub(super) id: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionForkArgs {
    /// Id of the session, the beginning of it, or `last`
    #[arg(default_value = "last", value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Copy only up to this entry: its id, or its number in `rind session show`
    #[arg(long, value_name = "ENTRY")]
    pub(super) at: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionRenameArgs {
    /// Id of the session, the beginning of it, or `last`
    #[arg(value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: String,
    /// Title, one line
    pub(super) title: String,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionRmArgs {
    /// Ids of sessions, or the beginnings of them
    #[arg(required = true, value_name = "ID", add = completion::session_id_candidates())]
    pub(super) sessions: Vec<String>,
    /// Remove without asking
    #[arg(long, short)]
    pub(super) yes: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionGcArgs {
    /// Remove sessions that were not used for this long: `90m`, `12h`, `30d`, `8w`
    #[arg(long, value_name = "AGE", value_parser = parse_age_ms, required_unless_present = "max_size")]
    pub(super) older_than: Option<i64>,
    /// Remove those used the longest ago until the rest has at most this size: `500M`, `1G`
    #[arg(long, value_name = "SIZE", value_parser = parse_size_bytes)]
    pub(super) max_size: Option<u64>,
    /// Remove also audit logs that are as old and whose session is gone from this machine
    #[arg(long, requires = "older_than")]
    pub(super) audit_logs: bool,
    /// Remove them; without it, they are only listed
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct SessionDoctorArgs {
    /// Id of the session, the beginning of it, or `last`; all sessions without it
    #[arg(value_name = "ID", add = completion::session_id_candidates())]
    pub(super) session: Option<String>,
    /// Repair what can be repaired; what is taken out is kept in the folder of the session
    #[arg(long)]
    pub(super) repair: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Parses a size such as `1G` into bytes.
fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "give a size such as 200K, 500M or 1G".to_owned();
    let (number, shift) = match text.chars().next_back() {
        Some('K' | 'k') => (text.len() - 1, 10),
        Some('M' | 'm') => (text.len() - 1, 20),
        Some('G' | 'g') => (text.len() - 1, 30),
        _ => (text.len(), 0),
    };
    let number = text.get(..number).unwrap_or_default();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Parses a time in the past into milliseconds since 1970: an age such as `7d`, a day, or a
/// timestamp.
fn parse_past_time_ms(text: &str) -> Result<i64, String> {
    if let Ok(span) = parse_age_ms(text) {
        return Ok(rind_lib::clock::now_ms().saturating_sub(span));
    }
    let day = text.parse::<jiff::civil::Date>();
    let day = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::system()));
    let time = day
        .map(|day| day.timestamp())
        .or_else(|_| text.parse::<jiff::Timestamp>());
    time.map(jiff::Timestamp::as_millisecond).map_err(|_| {
        "give a time such as 3h, 7d, 2w, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned()
    })
}

/// Parses an age such as `30d` into milliseconds.
pub(super) fn parse_age_ms(text: &str) -> Result<i64, String> {
    let wrong = || "give an age such as 90m, 12h, 30d or 8w".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let minutes = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 24 * 60,
        'w' => 7 * 24 * 60,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: i64 = number.parse().map_err(|_| wrong())?;
    number
        .checked_mul(minutes * MILLISECONDS_PER_MINUTE)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_times_are_numbers_with_a_unit_or_days() {
        assert_eq!(parse_age_ms("90m"), Ok(90 * MILLISECONDS_PER_MINUTE));
        assert_eq!(
            parse_age_ms("2w"),
            Ok(14 * 24 * 60 * MILLISECONDS_PER_MINUTE)
        );
        for wrong in [
            "",
            "d",
            "-1d",
            "1.5h",
            "7",
            "7dd",
            "9999999999999999d",
            "1ä",
        ] {
            assert!(parse_age_ms(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_size_bytes("2K"), Ok(2048));
        assert_eq!(parse_size_bytes("7"), Ok(7));
        for wrong in ["", "K", "-1", "1T", "1.5G", "99999999999999G"] {
            assert!(parse_size_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            parse_past_time_ms("1970-01-02T00:00:00Z"),
            Ok(24 * 60 * MILLISECONDS_PER_MINUTE)
        );
        assert!(
            parse_past_time_ms("2026-01-31").is_ok() && parse_past_time_ms("yesterday").is_err()
        );
    }
}
