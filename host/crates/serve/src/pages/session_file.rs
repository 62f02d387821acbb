//! Renders a session as one HTML file that needs no server. It contains the turns as on the
//! session's page, without scripts, forms, links or external resources.
//!
//! The content security policy of the file allows only the file's own style sheet, by its hash.
//! Every text is also escaped, so the policy is only a second line of defense.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, PreEscaped, html};
use rind_lib::session::SessionView;
use sha2::{Digest, Sha256};

use super::waterfall::{render_session_summary_line, render_turns, session_title};

const PAGE_STYLESHEET: &str = include_str!("style.css");

/// Returns the page of a session as the content of an HTML file.
#[must_use]
pub fn render_session_page_file(view: &SessionView) -> String {
    let hash = STANDARD.encode(Sha256::digest(PAGE_STYLESHEET));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    let title = session_title(view);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Rind" }
                style { (PreEscaped(PAGE_STYLESHEET)) }
            }
            body {
                main {
                    h1 { (title) }
                    (render_session_summary_line(view))
                    (render_turns(view, usize::MAX, None))
                }
            }
        }
    };
    page.into_string()
}
