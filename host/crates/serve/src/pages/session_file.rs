//! Renders a session as one HTML file that needs no server: the turns of the session's page,
//! without scripts, forms, links or external resources.
//!
//! The content security policy of the file allows only the file's own style sheet, by its hash.
//! Every text is escaped, so that the policy is a second line of defense.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, PreEscaped, html};
use rind_lib::session::SessionView;
use sha2::{Digest, Sha256};

use super::waterfall::{about_part, title_of, turns_part};

const STYLE: &str = include_str!("style.css");

/// Returns the page of a session as the content of a file.
#[must_use]
pub fn session_file(view: &SessionView) -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    let title = title_of(view);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Rind" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (about_part(view))
                    (turns_part(view, usize::MAX, None))
                }
            }
        }
    };
    page.into_string()
}
