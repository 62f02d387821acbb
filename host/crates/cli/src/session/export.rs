//! `rind session export`: writes a session as Markdown, as an HTML page, as an ATIF trajectory, or
//! byte for byte.

mod atif;
mod blocks;
mod html;
mod markdown;

use std::io::Write;
use std::path::Path;

use anyhow::Context;

use super::super::exit_code::{ExitStatus, Usage, bail_usage};
use super::super::render;
use super::args::{SessionCopyFormat, SessionExportArgs};
use rind_lib::message::Blob;
use rind_lib::paths::RindPaths;
use rind_lib::session::{
    Error, SessionExportFormat, SessionStore, SessionView, prepare_session_export,
    write_private_file_atomically,
};

/// Maximum number of subagents and holders whose sessions are exported with a session.
const MAX_EXPORTED_SUBAGENTS: usize = 200;

pub(super) fn write_session_export(
    paths: &RindPaths,
    args: &SessionExportArgs,
) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_session_id_in_workspace(&args.session, &paths.workspace)?;
    let to = args.output.as_deref();
    match args.format {
        SessionCopyFormat::Jsonl => {
            let bundle = prepare_session_export(&store, &id)?;
            bundle
                .messages_about_omitted_files()
                .iter()
                .for_each(|text| render::print_warning(text));
            let is_archive = bundle.export_format() == SessionExportFormat::Archive;
            if to.is_none() && render::is_stdout_terminal() {
                // Session data may contain control sequences that steer a terminal.
                let extension = if is_archive { "tar" } else { "jsonl" };
                bail_usage!(
                    "a session export is binary and cannot be written to a terminal; pass -o {id}.{extension}"
                );
            }
            write_export_to_stdout_or_file(to, &mut |out| bundle.write(out))?;
            if let Some(path) = to {
                let what = if is_archive {
                    "a tar archive"
                } else {
                    "its lines"
                };
                print_export_path(path, &format!("session {id} as {what}"));
            }
        }
        SessionCopyFormat::Markdown | SessionCopyFormat::Html | SessionCopyFormat::Atif => {
            let views = read_session_and_subagent_views(&store, &id)?;
            let text = match args.format {
                SessionCopyFormat::Atif => {
                    let whole = atif::build_trajectory(&views);
                    let whole =
                        whole.with_context(|| Usage(format!("the session {id} is empty")))?;
                    format!("{}\n", serde_json::to_string_pretty(&whole)?)
                }
                of_people => {
                    let blocks: Vec<_> = views
                        .iter()
                        .flat_map(blocks::build_session_page_blocks)
                        .collect();
                    let title = blocks::page_title(&views);
                    match of_people {
                        SessionCopyFormat::Html => {
                            let read = |blob: &Blob| store.read_binary_blob(&id, &blob.id).ok();
                            html::render_html_page(
                                &title,
                                &blocks,
                                &mut html::PageImageEmbedder::new(&read),
                            )
                        }
                        _ => markdown::render_markdown_page(&title, &blocks),
                    }
                }
            };
            write_masked_text_export(to, &id, &text)?;
        }
    }
    Ok(ExitStatus::Done)
}

/// Writes an export for people, `text`, in which secrets are already masked. Prints its path.
pub(super) fn write_masked_text_export(
    to: Option<&Path>,
    id: &str,
    text: &str,
) -> anyhow::Result<()> {
    write_export_to_stdout_or_file(to, &mut |out| {
        out.write_all(text.as_bytes())
            .map_err(|error| Error::Bundle {
                what: format!("the session {id}"),
                why: error.to_string(),
            })
    })?;
    if let Some(path) = to.filter(|path| *path != Path::new("-")) {
        print_export_path(
            path,
            &format!("session {id}, with known formats of secrets masked in texts"),
        );
    }
    Ok(())
}

fn print_export_path(path: &Path, what: &str) {
    render::print_note(&format!("wrote {}: {what}", path.display()));
}

/// Returns the view of a session and, below it, the views of its subagents and holders, up to
/// [`MAX_EXPORTED_SUBAGENTS`].
fn read_session_and_subagent_views(
    store: &SessionStore,
    id: &str,
) -> anyhow::Result<Vec<SessionView>> {
    let mut views = vec![SessionView::new(
        id,
        &store.read_entries_with_line_numbers(id)?,
    )];
    let mut ahead = store.session_agent_ids(id)?;
    ahead.reverse();
    while let Some(agent) = ahead.pop() {
        if views.len() > MAX_EXPORTED_SUBAGENTS {
            let n_left = ahead.len() as u64 + 1;
            let text = render::format_count_with_noun(n_left, "subagent");
            render::print_warning(&format!(
                "{text}, with the subagents below, left out: an export has at most {MAX_EXPORTED_SUBAGENTS} subagents"
            ));
            break;
        }
        match store.read_entries_with_line_numbers(&agent) {
            Ok(reading) => views.push(SessionView::new(&agent, &reading)),
            Err(error) => render::print_warning(&format!(
                "the conversation of {agent} is not exported: {error}"
            )),
        }
        let mut below = store.session_agent_ids(&agent).unwrap_or_default();
        below.reverse();
        ahead.extend(below);
    }
    Ok(views)
}

/// Writes to standard output, or to a file that appears only once it is complete.
fn write_export_to_stdout_or_file(
    to: Option<&Path>,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<(), Error>,
) -> anyhow::Result<()> {
    match to {
        Some(path) if path != Path::new("-") => write_private_file_atomically(path, write)?,
        _ => {
            let mut out = std::io::stdout().lock();
            write(&mut out)?;
            out.flush()?;
        }
    }
    Ok(())
}
