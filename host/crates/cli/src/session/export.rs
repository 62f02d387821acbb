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
use super::args::{ExportFormat, SessionExportArgs};
use rind_lib::message::Blob;
use rind_lib::paths::Paths;
use rind_lib::session::{BundleForm, Error, SessionStore, SessionView, export_session, save};

/// Maximum number of subagents and holders whose sessions are exported with a session.
const MAX_AGENTS: usize = 200;

pub(super) fn export(paths: &Paths, args: &SessionExportArgs) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_in(&args.session, &paths.workspace)?;
    let to = args.output.as_deref();
    match args.format {
        ExportFormat::Jsonl => {
            let bundle = export_session(&store, &id)?;
            bundle
                .left_out()
                .iter()
                .for_each(|text| render::print_warning(text));
            let is_archive = bundle.form() == BundleForm::Archive;
            if to.is_none() && render::is_live() {
                // Session data may contain control sequences that steer a terminal.
                let extension = if is_archive { "tar" } else { "jsonl" };
                bail_usage!(
                    "a session export is binary and cannot be written to a terminal; pass -o {id}.{extension}"
                );
            }
            put(to, &mut |out| bundle.write(out))?;
            if let Some(path) = to {
                let what = if is_archive {
                    "a tar archive"
                } else {
                    "its lines"
                };
                said(path, &format!("session {id} as {what}"));
            }
        }
        ExportFormat::Markdown | ExportFormat::Html | ExportFormat::Atif => {
            let views = views(&store, &id)?;
            let text = match args.format {
                ExportFormat::Atif => {
                    let whole = atif::trajectory(&views);
                    let whole =
                        whole.with_context(|| Usage(format!("the session {id} is empty")))?;
                    format!("{}\n", serde_json::to_string_pretty(&whole)?)
                }
                of_people => {
                    let blocks: Vec<_> = views.iter().flat_map(blocks::of).collect();
                    let title = blocks::title(&views);
                    match of_people {
                        ExportFormat::Html => {
                            let read = |blob: &Blob| store.read_bytes(&id, &blob.id).ok();
                            html::page(&title, &blocks, &mut html::PageImages::new(&read))
                        }
                        _ => markdown::page(&title, &blocks),
                    }
                }
            };
            write_text(to, &id, &text)?;
        }
    }
    Ok(ExitStatus::Done)
}

/// Writes an export for people, `text`, in which secrets are already masked; prints where it went.
pub(super) fn write_text(to: Option<&Path>, id: &str, text: &str) -> anyhow::Result<()> {
    put(to, &mut |out| {
        out.write_all(text.as_bytes())
            .map_err(|error| Error::Bundle {
                what: format!("the session {id}"),
                why: error.to_string(),
            })
    })?;
    if let Some(path) = to.filter(|path| *path != Path::new("-")) {
        said(
            path,
            &format!("session {id}, with known formats of secrets masked in texts"),
        );
    }
    Ok(())
}

fn said(path: &Path, what: &str) {
    render::print_note(&format!("wrote {}: {what}", path.display()));
}

/// Returns the view of a session and, below it, the views of its subagents and holders, up to
/// [`MAX_AGENTS`].
fn views(store: &SessionStore, id: &str) -> anyhow::Result<Vec<SessionView>> {
    let mut views = vec![SessionView::new(id, &store.read_lines(id)?)];
    let mut ahead = store.agents_of(id)?;
    ahead.reverse();
    while let Some(agent) = ahead.pop() {
        if views.len() > MAX_AGENTS {
            let n_left = ahead.len() as u64 + 1;
            let text = render::format_count(n_left, "subagent");
            render::print_warning(&format!("{text} and its subagents are not exported"));
            break;
        }
        match store.read_lines(&agent) {
            Ok(reading) => views.push(SessionView::new(&agent, &reading)),
            Err(error) => render::print_warning(&format!("{agent} is not exported: {error}")),
        }
        let mut below = store.agents_of(&agent).unwrap_or_default();
        below.reverse();
        ahead.extend(below);
    }
    Ok(views)
}

/// Writes to standard output, or to a file that appears only once it is complete.
fn put(
    to: Option<&Path>,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<(), Error>,
) -> anyhow::Result<()> {
    match to {
        Some(path) if path != Path::new("-") => save(path, write)?,
        _ => {
            let mut out = std::io::stdout().lock();
            write(&mut out)?;
            out.flush()?;
        }
    }
    Ok(())
}
