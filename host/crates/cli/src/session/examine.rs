//! `rind session doctor`: finds faults in sessions and repairs them.

use super::super::exit_code::ExitStatus;
use super::super::render::{
    self, BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, format_bytes,
    format_count_with_noun, print_stdout_line, style_text, truncate_to_one_line,
};
use super::args::SessionDoctorArgs;
use rind_lib::paths::RindPaths;
use rind_lib::session::{SessionExamination, SessionStore, examine_session, repair_session};

/// Maximum length of the description of a session's fault, in characters.
const MAX_FAULT_TEXT_CHARS: usize = 1_000;

/// Maximum number of kinds of entries that are listed, the largest kinds first.
const MAX_LISTED_ENTRY_KINDS: usize = 6;

pub(super) fn run_session_doctor(
    paths: &RindPaths,
    args: &SessionDoctorArgs,
) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let all = store.session_ids()?;
    let ids = match &args.session {
        // Accept full ids first: a damaged session may be missing from the list that
        // `resolve_session_id_in_workspace` searches.
        Some(id) if all.contains(id) => vec![id.clone()],
        Some(wanted) => vec![store.resolve_session_id_in_workspace(wanted, &paths.workspace)?],
        None => all,
    };
    let (mut is_sound, mut found) = (true, Vec::new());
    for id in &ids {
        if args.repair {
            match repair_session(&store, id) {
                Ok(done) => done
                    .iter()
                    .for_each(|text| render::print_note(&format!("{id}: {text}"))),
                Err(error) => {
                    is_sound = false;
                    let error = anyhow::Error::new(error);
                    render::print_error(&error.context(format!("cannot repair session {id}")));
                }
            }
        }
        match examine_session(&store, id) {
            Ok(examined) => {
                is_sound &= examined.faults.iter().all(|fault| fault.is_harmless);
                match args.json {
                    true => found.push(examined),
                    false => print_session_examination(&examined, args.session.is_some()),
                }
            }
            Err(error) => {
                is_sound = false;
                let error = anyhow::Error::new(error);
                render::print_error(&error.context(format!("session {id} cannot be examined")));
            }
        }
    }
    if args.json {
        render::print_json(&found)?;
    } else if ids.is_empty() {
        render::print_note("there are no sessions yet; `rind run` creates one");
    }
    Ok(ExitStatus::from_success_flag(is_sound))
}

fn print_session_examination(examined: &SessionExamination, is_whole: bool) {
    let id = style_text(BOLD_STYLE, truncate_to_one_line(&examined.id, 96));
    if let Some(version) = examined.newer {
        let text = format!(
            "has version {version} of the format, which this rind does not know; update rind"
        );
        print_stdout_line(format_args!(
            "{} {id} {text}",
            style_text(WARNING_STYLE, "▲")
        ));
        return;
    }
    let is_sound = examined.faults.iter().all(|fault| fault.is_harmless);
    let mark = match (is_sound, examined.faults.is_empty()) {
        (false, _) => style_text(ERROR_STYLE, "✗"),
        (true, false) => style_text(WARNING_STYLE, "▲"),
        (true, true) => style_text(SUCCESS_STYLE, "✓"),
    };
    let size = examined.growth.values().map(|own| own.bytes).sum();
    let about = match examined.faults.len() {
        0 => format_bytes(size),
        n => format!(
            "{}, {}",
            format_bytes(size),
            format_count_with_noun(n as u64, "fault")
        ),
    };
    print_stdout_line(format_args!("{mark} {id} {}", style_text(DIM_STYLE, about)));
    for fault in &examined.faults {
        let repair = match &fault.repair {
            Some(repair) => format!("--repair: {repair}"),
            None => "it cannot be repaired".to_owned(),
        };
        print_stdout_line(format_args!(
            "  {} {}",
            truncate_to_one_line(&fault.what, MAX_FAULT_TEXT_CHARS),
            style_text(
                DIM_STYLE,
                format_args!("({})", truncate_to_one_line(&repair, MAX_FAULT_TEXT_CHARS))
            )
        ));
    }
    if !is_whole {
        return;
    }
    for note in &examined.notes {
        print_stdout_line(format_args!(
            "  {}",
            truncate_to_one_line(note, MAX_FAULT_TEXT_CHARS)
        ));
    }
    let mut kinds: Vec<_> = examined.growth.iter().collect();
    kinds.sort_by_key(|(_, own)| std::cmp::Reverse(own.bytes));
    for (kind, own) in kinds.into_iter().take(MAX_LISTED_ENTRY_KINDS) {
        let text = format!(
            "  {:>9}  {:>6}  {}",
            format_bytes(own.bytes),
            own.count,
            truncate_to_one_line(kind, 60)
        );
        print_stdout_line(style_text(DIM_STYLE, text));
    }
}
