//! `rind session search`: finds a text in all sessions, subagents and archived turns.

use std::ops::ControlFlow;

use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::render::{
    self, BOLD_STYLE, DIM_STYLE, WARNING_STYLE, print_stdout_line, style_text, truncate_to_one_line,
};
use super::args::SessionSearchArgs;
use rind_lib::paths::RindPaths;
use rind_lib::session::{
    SearchMatch, SessionSearchHitOrNotice, SessionSearchPattern, SessionStore, search_sessions,
};

pub(super) fn run_session_search(
    paths: &RindPaths,
    args: &SessionSearchArgs,
) -> anyhow::Result<ExitStatus> {
    let Some(wanted) = SessionSearchPattern::new(&args.text) else {
        bail_usage!("cannot search: the text is empty or too long");
    };
    let mut hits: Vec<SearchMatch> = Vec::new();
    let (mut n_hits, mut is_partial) = (0_usize, false);
    let mut last = String::new();
    search_sessions(
        &SessionStore::new(paths.sessions()),
        &wanted,
        &mut |found| {
            match found {
                SessionSearchHitOrNotice::Notice(text) => {
                    is_partial = true;
                    render::print_warning(&text);
                }
                SessionSearchHitOrNotice::Hit(_) if n_hits == args.limit => {
                    n_hits += 1;
                    return ControlFlow::Break(());
                }
                SessionSearchHitOrNotice::Hit(hit) => {
                    n_hits += 1;
                    match args.json {
                        true => hits.push(hit),
                        false => print_search_match(&hit, &mut last),
                    }
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    if args.json {
        render::print_json(&serde_json::json!({"hits": hits, "is_cut": n_hits > args.limit}))?;
    } else if n_hits > args.limit {
        render::print_note("there are more matches; raise --limit");
    } else if n_hits == 0 {
        render::print_note("no session has this text");
    }
    if is_partial {
        render::print_note("some sessions could not be searched; `rind session doctor` shows why");
    }
    Ok(ExitStatus::Done)
}

/// Prints one match, below the session's id. `last` is the session of the previous match: its id is
/// not printed again.
fn print_search_match(hit: &SearchMatch, last: &mut String) {
    if *last != hit.session {
        print_stdout_line(style_text(
            BOLD_STYLE,
            truncate_to_one_line(&hit.session, 240),
        ));
        last.clone_from(&hit.session);
    }
    let at = format!("{:>6}  turn {}", hit.line, hit.turn);
    let [before, found, after] =
        [&hit.before, &hit.found, &hit.after].map(|text| escape_match_text_to_one_line(text));
    print_stdout_line(format_args!(
        "{} {}: {before}{}{after}",
        style_text(DIM_STYLE, at),
        truncate_to_one_line(&hit.role, 60),
        style_text(WARNING_STYLE, found),
    ));
}

/// Puts a piece of text on one line and escapes control characters. Keeps blanks at both ends,
/// because pieces are printed next to each other.
fn escape_match_text_to_one_line(text: &str) -> String {
    render::printable_text(&text.replace(['\n', '\t'], " "))
}
