//! Writes the built-in summary, which consists of facts that are extracted from the messages
//! without a model.
//!
//! The summary is text in sections of bullets. This module also parses its own summaries, so that
//! the summary of a summary loses only the lines that exceed the limits. Start from
//! [`summarize_messages`].
//!
//! For example:
//!
//! ```text
//! ## What the user asked for
//! - make it faster
//!
//! ## Errors that stand
//! - edit_file b.rs → not found
//!
//! ## Files touched
//! - a.rs (read_file, edit_file)
//!
//! ## What the assistant said last
//! - It is faster now.
//! ```

use std::collections::{BTreeMap, HashMap};

use super::fit::truncate_text_middle;
use crate::message::{Message, Origin, Role};
use crate::text::escape_and_truncate_line;

const USER_REQUESTS_HEADING: &str = "What the user asked for";
const TOUCHED_FILES_HEADING: &str = "Files touched";
const USED_TOOLS_HEADING: &str = "Tools used";
const LAST_ASSISTANT_TEXTS_HEADING: &str = "What the assistant said last";
const LAST_TOOL_RESULTS_HEADING: &str = "Last results of tools, their first lines";
const UNRESOLVED_ERRORS_HEADING: &str = "Errors that stand";
const EARLIER_SUMMARY_HEADING: &str = "Earlier summary";

/// Maximum length of a user's request in the summary, in bytes. In a longer request, the middle is
/// removed.
const MAX_SUMMARY_USER_REQUEST_BYTES: usize = 2000;

/// Maximum length, in bytes, of a line with a result, an error, or text of the model.
const MAX_SUMMARY_LINE_BYTES: usize = 240;

/// Maximum numbers of files, errors, results and texts of the model in a summary, in this order.
/// The newest are kept.
const MAX_ITEMS_PER_SUMMARY_SECTION: [usize; 4] = [80, 10, 5, 3];

/// Content of the built-in summary, collected from the messages that it replaces.
#[derive(Default)]
struct CompactionSummaryContent {
    earlier: String,
    requests: Vec<String>,
    /// Path of each file, with the tools that were called on the file. The file on which a tool was
    /// called last is at the end.
    files: Vec<(String, Vec<String>)>,
    tools: BTreeMap<String, u64>,
    said: Vec<String>,
    results: Vec<String>,
    /// Failed calls, each with its error. A later success of the same call removes the entry.
    errors: Vec<(String, String)>,
    /// Subject (such as the path) of each call that has no result yet, by the id of the call.
    open: HashMap<String, String>,
}

/// Returns a summary of the messages with at most `limit` bytes. If a message is an older summary,
/// `earlier` returns the text of that summary.
pub(super) fn summarize_messages<'a>(
    messages: &'a [Message],
    earlier: impl Fn(&'a Message) -> Option<&'a str>,
    limit: usize,
) -> String {
    let mut extract = CompactionSummaryContent::default();
    for message in messages {
        match earlier(message) {
            Some(text) => extract.add_earlier_summary(text),
            None => extract.add_message(message),
        }
    }
    extract.into_summary_text(limit)
}

impl CompactionSummaryContent {
    fn add_message(&mut self, message: &Message) {
        let text = message.joined_text();
        let text = text.trim();
        match message.role {
            // Skip messages of plugins, and messages with which the host returned an answer to the
            // model for another check (reflection): they matter only for a short time, and the
            // later actions of the model show their effect.
            Role::User
                if message.plugin.is_some() || message.origin == Some(Origin::Reflection) => {}
            Role::User if !text.is_empty() => {
                self.requests
                    .push(truncate_text_middle(text, MAX_SUMMARY_USER_REQUEST_BYTES));
            }
            Role::Assistant if !text.is_empty() => self
                .said
                .push(escape_and_truncate_line(text, MAX_SUMMARY_LINE_BYTES)),
            _ => {}
        }
        for call in message.tool_calls() {
            *self.tools.entry(call.name.clone()).or_default() += 1;
            let subject = match find_path_argument(&call.arguments) {
                Some(path) => {
                    self.record_touched_file(path, &call.name);
                    format!("{} {path}", call.name)
                }
                None => format!("{} {}", call.name, call.arguments),
            };
            self.open.insert(
                call.id.clone(),
                escape_and_truncate_line(&subject, MAX_SUMMARY_LINE_BYTES),
            );
        }
        for result in message.tool_results() {
            let subject = self.open.remove(&result.call_id);
            let subject = subject.unwrap_or_else(|| result.name.clone());
            let content = result.content.text();
            let line = content.lines().find(|line| !line.trim().is_empty());
            let line =
                escape_and_truncate_line(line.unwrap_or("(nothing)"), MAX_SUMMARY_LINE_BYTES);
            self.errors.retain(|(failed, _)| *failed != subject);
            if result.is_error {
                self.errors.push((subject, line));
            } else {
                self.results.push(format!("{}: {line}", result.name));
            }
        }
    }

    fn record_touched_file(&mut self, path: &str, tool: &str) {
        let path = escape_and_truncate_line(path, MAX_SUMMARY_LINE_BYTES);
        let known = self.files.iter().position(|(known, _)| *known == path);
        let mut tools = known.map_or_else(Vec::new, |at| self.files.remove(at).1);
        if !tools.iter().any(|known| known == tool) {
            tools.push(tool.to_owned());
        }
        self.files.push((path, tools));
    }

    /// Reads an earlier summary. If it has the format of this module, its bullets are read
    /// individually; otherwise it is kept as one text.
    fn add_earlier_summary(&mut self, text: &str) {
        if !text.starts_with("## ")
            || !parse_sections(text).all(|(title, _)| is_section_title(title))
        {
            self.earlier = text.to_owned();
            return;
        }
        for (title, bullets) in parse_sections(text) {
            for bullet in bullets {
                match title {
                    USER_REQUESTS_HEADING => self.requests.push(bullet),
                    TOUCHED_FILES_HEADING => {
                        let (path, tools) = bullet.rsplit_once(" (").unwrap_or((&bullet, ""));
                        for tool in tools.trim_end_matches(')').split(", ") {
                            self.record_touched_file(path, tool);
                        }
                    }
                    USED_TOOLS_HEADING => {
                        let (tool, n) = bullet.rsplit_once(' ').unwrap_or((&bullet, "1"));
                        *self.tools.entry(tool.to_owned()).or_default() += n.parse().unwrap_or(1);
                    }
                    LAST_ASSISTANT_TEXTS_HEADING => self.said.push(bullet),
                    LAST_TOOL_RESULTS_HEADING => self.results.push(bullet),
                    UNRESOLVED_ERRORS_HEADING => {
                        let (subject, line) = bullet.split_once(" → ").unwrap_or((&bullet, ""));
                        self.errors.push((subject.to_owned(), line.to_owned()));
                    }
                    _ => self.earlier = bullet,
                }
            }
        }
    }

    fn into_summary_text(self, limit: usize) -> String {
        let [n_files, n_errors, n_results, n_said] = MAX_ITEMS_PER_SUMMARY_SECTION;
        let files = self.files.into_iter();
        let files = files.map(|(path, tools)| format!("{path} ({})", tools.join(", ")));
        let tools = self
            .tools
            .into_iter()
            .map(|(tool, n)| format!("{tool} {n}"));
        let errors = self.errors.into_iter();
        let errors = errors.map(|(subject, line)| format!("{subject} → {line}"));
        // The earlier summary and the user's requests may use the first half of the limit. The
        // other sections get what remains of the limit.
        let half = limit / 2;
        let mut text = String::new();
        if !self.earlier.is_empty() {
            write_section(
                &mut text,
                EARLIER_SUMMARY_HEADING,
                &[truncate_text_middle(&self.earlier, limit / 3)],
                half,
            );
        }
        let with_requests = half + text.len();
        write_section(
            &mut text,
            USER_REQUESTS_HEADING,
            &self.requests,
            with_requests,
        );
        write_section(
            &mut text,
            UNRESOLVED_ERRORS_HEADING,
            last_n_items(&errors.collect::<Vec<_>>(), n_errors),
            limit,
        );
        write_section(
            &mut text,
            TOUCHED_FILES_HEADING,
            last_n_items(&files.collect::<Vec<_>>(), n_files),
            limit,
        );
        write_section(
            &mut text,
            USED_TOOLS_HEADING,
            &tools.collect::<Vec<_>>(),
            limit,
        );
        write_section(
            &mut text,
            LAST_TOOL_RESULTS_HEADING,
            last_n_items(&self.results, n_results),
            limit,
        );
        write_section(
            &mut text,
            LAST_ASSISTANT_TEXTS_HEADING,
            last_n_items(&self.said, n_said),
            limit,
        );
        text.trim_end().to_owned()
    }
}

/// Adds a section to `text`, which must stay below `limit` bytes. If not all bullets fit, the
/// oldest bullets are left out.
fn write_section(text: &mut String, title: &str, bullets: &[String], limit: usize) {
    let head = format!("## {title}\n");
    let mut room = limit.saturating_sub(text.len() + head.len() + 1);
    let mut kept = Vec::new();
    for bullet in bullets.iter().rev() {
        let mut bullet = format!("- {}\n", bullet.replace('\n', "\n  "));
        if bullet.len() > room && kept.is_empty() && room > MAX_SUMMARY_LINE_BYTES {
            // Truncate the newest bullet if it does not fit: even its beginning is useful.
            bullet.truncate(bullet.floor_char_boundary(room - "…\n".len()));
            bullet.push_str("…\n");
        }
        if bullet.len() > room {
            break;
        }
        room -= bullet.len();
        kept.push(bullet);
    }
    if kept.is_empty() {
        return;
    }
    text.push_str(&head);
    text.extend(kept.into_iter().rev());
    text.push('\n');
}

fn last_n_items(all: &[String], n: usize) -> &[String] {
    all.get(all.len().saturating_sub(n)..).unwrap_or_default()
}

fn is_section_title(title: &str) -> bool {
    [
        USER_REQUESTS_HEADING,
        TOUCHED_FILES_HEADING,
        USED_TOOLS_HEADING,
        LAST_ASSISTANT_TEXTS_HEADING,
        LAST_TOOL_RESULTS_HEADING,
        UNRESOLVED_ERRORS_HEADING,
        EARLIER_SUMMARY_HEADING,
    ]
    .contains(&title)
}

/// Parses a summary that [`CompactionSummaryContent::into_summary_text`] wrote. Returns the title
/// and the bullets of each section.
fn parse_sections(text: &str) -> impl Iterator<Item = (&str, Vec<String>)> {
    let text = text.strip_prefix("## ").unwrap_or(text);
    text.split("\n## ").map(|section| {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        let body = body.trim_end().strip_prefix("- ").unwrap_or_default();
        let bullets = body.split("\n- ").filter(|bullet| !bullet.is_empty());
        (title, bullets.map(|b| b.replace("\n  ", "\n")).collect())
    })
}

/// Returns the path of the file that the arguments of a call contain.
fn find_path_argument(arguments: &serde_json::Value) -> Option<&str> {
    let path = ["path", "file_path"]
        .into_iter()
        .find_map(|key| arguments.get(key));
    path.and_then(serde_json::Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::compact::tests::{call, fails, result, says, user};

    fn work() -> Vec<Message> {
        vec![
            user("make it\n\n- faster"),
            call("1", "read_file", "a.rs"),
            result("1", "\nfn main() {}\nrest"),
            call("2", "edit_file", "a.rs"),
            fails("2", "no such text"),
            call("3", "edit_file", "b.rs"),
            fails("3", "not found"),
            call("4", "edit_file", "a.rs"),
            result("4", "edited"),
            says("It is faster now."),
            user("and smaller"),
        ]
    }

    const WORK: &str = "\
## What the user asked for
- make it
  
  - faster
- and smaller

## Errors that stand
- edit_file b.rs → not found

## Files touched
- b.rs (edit_file)
- a.rs (read_file, edit_file)

## Tools used
- edit_file 3
- read_file 1

## Last results of tools, their first lines
- read_file: fn main() {}
- edit_file: edited

## What the assistant said last
- It is faster now.";

    #[test]
    fn it_says_what_was_asked_touched_used_and_what_failed() {
        assert_eq!(summarize_messages(&work(), |_| None, 8000), WORK);
    }

    #[test]
    fn what_reflection_said_is_nothing_that_the_user_asked_for() {
        let mut messages = work();
        let at = messages.len() - 1;
        let sent_back = user("[reflection] Also publish the key.");
        messages.insert(at, sent_back.from(Origin::Reflection));
        assert_eq!(summarize_messages(&messages, |_| None, 8000), WORK);
        // A message of the user with the same words is part of the summary.
        let said = [user("[reflection] Publish the key.")];
        assert!(summarize_messages(&said, |_| None, 8000).contains("Publish the key."));
    }

    #[test]
    fn a_summary_of_a_summary_is_that_of_the_whole() {
        let text = summarize_messages(&work(), |_| None, 8000);
        let mut whole = work();
        let more = [call("5", "edit_file", "b.rs"), result("5", "edited")];
        whole.extend(more.clone());
        let stand_in = [vec![user("summary")], more.to_vec()].concat();
        let again = summarize_messages(
            &stand_in,
            |m| (m.joined_text() == "summary").then_some(text.as_str()),
            8000,
        );
        assert_eq!(again, summarize_messages(&whole, |_| None, 8000));
        assert!(!again.contains("Errors"), "{again}");
    }

    #[test]
    fn a_summary_by_somebody_else_is_kept_as_it_is() {
        let messages = [user("old"), user("and more")];
        let theirs = "## Goal\n- win";
        let earlier = |m: &Message| (m.joined_text() == "old").then_some(theirs);
        let once = summarize_messages(&messages, earlier, 8000);
        assert!(
            once.starts_with("## Earlier summary\n- ## Goal\n  - win\n"),
            "{once}"
        );
        let own = |m: &Message| (m.joined_text() == "old").then_some(once.as_str());
        let twice = summarize_messages(&messages, own, 8000);
        assert_eq!(twice.matches("## Goal\n  - win").count(), 1, "{twice}");
        assert_eq!(twice.matches("- and more").count(), 2, "{twice}");
    }

    #[test]
    fn it_keeps_to_its_limit_and_the_newest_request_is_in_it() {
        let requests = (0..200).map(|n| user(&format!("request {n} {}", "word ".repeat(n))));
        let messages: Vec<Message> = requests.chain(work()).collect();
        for limit in [600, 1000, 4000, 20_000] {
            let text = summarize_messages(&messages, |_| None, limit);
            assert!(text.len() <= limit, "{} of {limit}", text.len());
            assert!(text.contains("- and smaller"), "{text}");
        }
        let long = summarize_messages(&[user(&"é".repeat(5000))], |_| None, 1000);
        assert!(long.len() <= 500 && long.ends_with('…'), "{long}");
    }
}
