//! `search`: finds lines in files of the workspace that match a regular expression.
//!
//! Pattern size, memory and time are bounded, because patterns come from the model and files from
//! anywhere. The search leaves out files that git ignores, and stops in each file at the first NUL
//! byte, which marks binary data.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::fs::File;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::super::subject::Subject;
use super::super::walk::{
    MAX_WALK_DEPTH, WalkEndReason, WalkEntryKind, WorkspaceFileGlob, walk_workspace,
};
use super::super::workspace::{Workspace, WorkspaceError};
use super::super::{SharedTool, ToolOutput};
use super::{FileToolCall, build_file_tool, format_count_with_noun, omit_changed_file_description};
use crate::beneath::open_regular_file;
use crate::message::EffectClass;
use crate::text::escape_and_truncate_line;

/// Maximum size of one answer, in bytes. Large on purpose: hooks and the agent decide how much of
/// it the model is shown.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// Default for the maximum number of matching lines that a search returns.
const DEFAULT_MAX_MATCHING_LINES: usize = 10_000;

/// Maximum length of a line that is shown completely, in bytes.
const MAX_DISPLAYED_LINE_BYTES: usize = 2_000;

/// Maximum memory for one line of a file, in bytes; a file with a longer line is skipped.
const MAX_LINE_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of the compiled pattern, in bytes. If the regex engine cannot use its lazy DFA,
/// each byte of a file takes time linear in this size: a pattern with nested repetitions, such as
/// `((a{1,50}){1,50}){1,50}`, would take minutes for a file.
const MAX_COMPILED_PATTERN_BYTES: usize = 256 * 1024;

/// Prefix of the regex crate's error for an oversized pattern.
const OVERSIZED_REGEX_ERROR_PREFIX: &str = "compiled regex exceeds size limit";

/// Maximum length of a pattern, or of the regex crate's error, in an error message, in bytes.
const MAX_QUOTED_PATTERN_BYTES: usize = 200;

/// Maximum memory of the regex engine's caches (its lazy DFA), in bytes.
const MAX_REGEX_DFA_CACHE_BYTES: usize = 8 * 1024 * 1024;

/// Time limit of one search. A search that reaches it returns the matches found so far.
const SEARCH_TIME_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Regular expression (Rust syntax) that a line must match; `(?i)` in front ignores case.
    pattern: String,
    /// File or folder to search, relative to the workspace. Default: the whole workspace.
    #[serde(default)]
    path: Option<String>,
    /// Search only files that match, such as `*.rs` or `src/**/*.toml`. Without a slash it matches the name in any folder.
    #[serde(default)]
    glob: Option<String>,
    /// Number of lines to show before and after each match. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 50))]
    context: Option<u32>,
    /// Stop after this many matching lines. Default: 10000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_matches: Option<u32>,
}

pub(super) fn search_tool(workspace: &Arc<Workspace>) -> SharedTool {
    Arc::new(build_file_tool(
        "search",
        "Searches the text files of the workspace for lines that match a regular expression. Answers with \
                 `path:line:text`, context lines with `path-line-text`. What .gitignore leaves out is not searched.",
        EffectClass::Read,
        Subject::Tree,
        workspace,
        search_files,
        omit_changed_file_description,
    ))
}

fn search_files(
    workspace: &Workspace,
    call: &FileToolCall,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let cancel = &call.cancel;
    let matcher = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_COMPILED_PATTERN_BYTES)
        .dfa_size_limit(MAX_REGEX_DFA_CACHE_BYTES)
        .build(&asked.pattern);
    let (matcher, glob) = match (
        matcher,
        asked
            .glob
            .as_deref()
            .map(WorkspaceFileGlob::new)
            .transpose(),
    ) {
        (Ok(matcher), Ok(glob)) => (matcher, glob),
        (Err(why), _) => {
            // The regex crate's error quotes the pattern; its last line holds the cause.
            let why = why.to_string();
            let why = why.lines().last().unwrap_or_default();
            let why = why.strip_prefix("error: ").unwrap_or(why);
            let advice = if why.starts_with(OVERSIZED_REGEX_ERROR_PREFIX) {
                "; use fewer or smaller repetitions, such as `+` for `{1,100}`"
            } else {
                ""
            };
            return Ok(ToolOutput::from_error_content(format!(
                "`{}` is not a pattern that can be searched for: {}{advice}",
                escape_and_truncate_line(&asked.pattern, MAX_QUOTED_PATTERN_BYTES),
                escape_and_truncate_line(why, MAX_QUOTED_PATTERN_BYTES)
            )));
        }
        (_, Err(why)) => return Ok(ToolOutput::from_error_content(why)),
    };
    let context = asked.context.unwrap_or(0) as usize;
    let mut search = FileContentSearch {
        stop: SearchStopCondition {
            cancel,
            at: Instant::now() + SEARCH_TIME_LIMIT,
        },
        matcher,
        searcher: SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(MAX_LINE_BUFFER_BYTES))
            .binary_detection(BinaryDetection::quit(0))
            .build(),
        found: FileSearchResults {
            max_matches: asked
                .max_matches
                .map_or(DEFAULT_MAX_MATCHING_LINES, |max| max as usize),
            ..FileSearchResults::default()
        },
    };
    let path = asked.path.as_deref().unwrap_or(".");
    let end = match workspace.resolve_existing_folder(path) {
        Ok(start) => walk_workspace(
            workspace,
            &start,
            MAX_WALK_DEPTH,
            cancel,
            &mut |dir, path, kind| {
                let is_asked = glob.as_ref().is_none_or(|glob| glob.is_match(path, &start));
                if kind == WalkEntryKind::File
                    && is_asked
                    && let Some(name) = path.file_name()
                    && let Ok(Some((file, _))) = open_regular_file(dir, name.as_ref())
                {
                    search.search_file(&path.to_string_lossy(), file);
                }
                if search.found.is_cut || search.found.is_late {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        )?,
        Err(WorkspaceError::NotAFolder(_)) => {
            let (file, _) = workspace.open_file(path)?;
            let names = Path::new(workspace.path_relative_to_root(path)?).components();
            let name: PathBuf = names.filter(|name| *name != Component::CurDir).collect();
            search.search_file(&name.to_string_lossy(), file);
            WalkEndReason::Complete
        }
        Err(error) => return Err(error),
    };
    if cancel.is_cancelled() {
        return Err(WorkspaceError::Cancelled);
    }
    Ok(ToolOutput::ok(search.found.into_answer_text(end)))
}

/// Condition that ends a search early: cancellation, or the time `at`.
#[derive(Clone, Copy)]
struct SearchStopCondition<'a> {
    cancel: &'a CancellationToken,
    at: Instant,
}

impl SearchStopCondition<'_> {
    fn is_past_deadline(self) -> bool {
        Instant::now() >= self.at
    }
}

/// Reader of a file whose reads fail after the search was cancelled or its time limit was reached.
/// The searcher itself does not check for either between two matches.
struct StoppableReader<'a, R>(R, SearchStopCondition<'a>);

impl<R: Read> Read for StoppableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.cancel.is_cancelled() || self.1.is_past_deadline() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.0.read(buffer)
    }
}

struct FileContentSearch<'a> {
    stop: SearchStopCondition<'a>,
    matcher: RegexMatcher,
    searcher: Searcher,
    found: FileSearchResults,
}

impl FileContentSearch<'_> {
    fn search_file(&mut self, name: &str, file: File) {
        let before = self.found.n_matches;
        let sink = FileMatchSink {
            path: name,
            found: &mut self.found,
            has_break: false,
        };
        // Pass a reader, not the file: the searcher would map a file into memory, and a file that
        // shrinks meanwhile would crash the process.
        let file = StoppableReader(file, self.stop);
        let _ = self.searcher.search_reader(&self.matcher, file, sink);
        self.found.is_late |= self.stop.is_past_deadline();
        if self.found.n_matches > before {
            self.found.n_files += 1;
        }
    }
}

#[derive(Default)]
struct FileSearchResults {
    text: String,
    n_matches: usize,
    n_files: usize,
    max_matches: usize,
    is_cut: bool,
    /// Whether the search ended at its time limit.
    is_late: bool,
}

impl FileSearchResults {
    /// Adds one found line of a file to the answer. Returns whether another line would fit.
    fn push(&mut self, path: &str, sign: char, number: Option<u64>, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let shown = &line[..line.len().min(MAX_DISPLAYED_LINE_BYTES)];
        let number = number.unwrap_or(0);
        let mut text = format!(
            "{path}{sign}{number}{sign}{}",
            String::from_utf8_lossy(shown)
        );
        if shown.len() < line.len() {
            text.push_str(&format!(" [… {} bytes more]", line.len() - shown.len()));
        }
        if self.text.len() + text.len() >= MAX_ANSWER_BYTES {
            self.is_cut = true;
            return false;
        }
        self.text.push_str(&text);
        self.text.push('\n');
        true
    }

    fn into_answer_text(mut self, end: WalkEndReason) -> String {
        if self.n_matches == 0 {
            self.text.push_str("[no match]");
        }
        if self.is_cut {
            self.text.push_str(&format!(
                "[cut after {} in {}; there may be more: narrow the search by path, glob or pattern]",
                format_count_with_noun(self.n_matches, "match"),
                format_count_with_noun(self.n_files, "file"),
            ));
        }
        if self.is_late {
            self.text.push_str(&format!(
                "[stopped after {} s, before everything was searched: narrow the search by path, glob or pattern]",
                SEARCH_TIME_LIMIT.as_secs()
            ));
        }
        if end == WalkEndReason::TooMany {
            self.text.push_str(
                "[the workspace has more files than are looked at; search a folder within it]",
            );
        }
        self.text
    }
}

struct FileMatchSink<'a> {
    path: &'a str,
    found: &'a mut FileSearchResults,
    has_break: bool,
}

impl Sink for FileMatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.found.n_matches >= self.found.max_matches {
            self.found.is_cut = true;
            return Ok(false);
        }
        self.add_context_separator();
        self.found.n_matches += 1;
        let number = found.line_number();
        Ok(self.found.push(self.path, ':', number, found.bytes()))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        // No further match is shown, so do not show the context lines before it either.
        let is_full = self.found.n_matches >= self.found.max_matches;
        if is_full && *context.kind() == SinkContextKind::Before {
            self.found.is_cut = true;
            return Ok(false);
        }
        self.add_context_separator();
        Ok(self
            .found
            .push(self.path, '-', context.line_number(), context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.has_break = true;
        Ok(true)
    }
}

impl FileMatchSink<'_> {
    fn add_context_separator(&mut self) {
        if std::mem::take(&mut self.has_break) && !self.found.text.is_empty() {
            self.found.text.push_str("--\n");
        }
    }
}
