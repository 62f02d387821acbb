//! `rind session list`: lists sessions with their titles, the most recently used first.

use std::path::Path;

use super::super::exit_code::ExitStatus;
use super::super::render::{
    self, BOLD_STYLE, DIM_STYLE, WARNING_STYLE, format_count_with_noun, print_stdout_line,
    style_text, truncate_to_one_line,
};
use super::args::SessionListArgs;
use rind_lib::paths::RindPaths;
use rind_lib::session::{SessionState, SessionStore, SessionSummary};

/// Maximum length of a session title in the list, in characters.
const MAX_SESSION_TITLE_CHARS: usize = 80;

pub(super) fn list_sessions(
    paths: &RindPaths,
    args: &SessionListArgs,
) -> anyhow::Result<ExitStatus> {
    let heads = SessionStore::new(paths.sessions()).list_session_summaries()?;
    heads
        .notices
        .iter()
        .for_each(|notice| render::print_warning(notice));
    let mut rows = heads.rows;
    let n_all = rows.len();
    let is_here = |head: &SessionSummary| Path::new(&head.workspace) == paths.workspace;
    rows.retain(|head| args.all || is_here(head));
    let n_here = rows.len();
    let wanted = args.title.as_deref().map(str::to_lowercase);
    rows.retain(|head| {
        let since = args.since.unwrap_or(i64::MIN);
        head.updated >= since
            && wanted
                .as_deref()
                .is_none_or(|text| has_title_or_first_input_containing(head, text))
    });
    let n_found = rows.len();
    rows.truncate(args.limit.unwrap_or(usize::MAX));
    if args.json {
        render::print_json(&rows)?;
        return Ok(ExitStatus::Done);
    }
    let now = rind_lib::clock::now_ms();
    for head in &rows {
        print_session_row(head, now, args.all);
    }
    match (n_all, n_here, n_found) {
        (0, ..) => render::print_note("there are no sessions yet; `rind run` creates one"),
        (_, 0, _) => render::print_note(&format!(
            "there are no sessions of this folder; `--all` lists the {} of other folders",
            format_count_with_noun(n_all as u64, "session")
        )),
        (_, _, 0) => render::print_note("no session fits"),
        _ if n_found > rows.len() => {
            let n_left = (n_found - rows.len()) as u64;
            render::print_note(&format!(
                "{} not shown; raise --limit to see more",
                format_count_with_noun(n_left, "session")
            ));
        }
        _ => {}
    }
    Ok(ExitStatus::Done)
}

fn has_title_or_first_input_containing(head: &SessionSummary, text: &str) -> bool {
    let first = head.first_input.as_deref().unwrap_or_default();
    [&head.title, first]
        .iter()
        .any(|own| own.to_lowercase().contains(text))
}

fn print_session_row(head: &SessionSummary, now: i64, with_folder: bool) {
    let mut about = Vec::new();
    if let Some(usd) = render::format_dollars(head.cost_usd) {
        let least = if head.unpriced_tokens > 0 {
            "at least "
        } else {
            ""
        };
        about.push(format!("{least}{usd}"));
    }
    let state = match head.state {
        SessionState::Empty | SessionState::Finished => "",
        SessionState::Open => "open turn",
        SessionState::Waiting => "waiting for an answer",
    };
    about.extend((!state.is_empty()).then(|| style_text(WARNING_STYLE, state)));
    if head.damaged > 0 {
        let text = format_count_with_noun(head.damaged, "damaged line");
        about.push(style_text(WARNING_STYLE, text));
    }
    if with_folder {
        about.push(truncate_to_one_line(
            &head.workspace,
            MAX_SESSION_TITLE_CHARS,
        ));
    }
    let about: Vec<String> = about.iter().map(|text| format!(" · {text}")).collect();
    print_stdout_line(format_args!(
        "{} {}{:<9} {}{}",
        style_text(BOLD_STYLE, truncate_to_one_line(&head.id, 96)),
        style_text(
            DIM_STYLE,
            format_args!("{:<12}", render::session::format_ago(now, head.updated))
        ),
        format_count_with_noun(head.turns, "turn"),
        truncate_to_one_line(&head.title, MAX_SESSION_TITLE_CHARS),
        style_text(DIM_STYLE, about.concat()),
    ));
}
