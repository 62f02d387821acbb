//! Forms in which a user writes an input: text, and images as files. Browsers send both as
//! `multipart/form-data` (RFC 7578), with and without scripts.

use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use http::StatusCode;
use maud::{Markup, html};

use super::HtmlPageError;
use crate::error::ApiError;
use crate::routes::turns::{NewTurn, validate_new_turn_input};
use crate::session_task::SessionTurnRequest;

/// Input for a turn that a browser sent with a form.
#[derive(Default)]
pub(super) struct TurnInputForm {
    text: String,
    /// Contents of the image files that the user attached to the input.
    images: Vec<Vec<u8>>,
    /// Folder in which a new session works.
    pub(super) workspace: Option<String>,
    /// Whether the text is added only when the running turn is about to end.
    pub(super) is_follow_up: bool,
}

impl TurnInputForm {
    /// Converts the form into a request for a turn, after the same checks as in the API.
    pub(super) fn into_turn_request(self) -> Result<SessionTurnRequest, HtmlPageError> {
        let new = NewTurn {
            text: self.text,
            images: Vec::new(),
            input_id: None,
            output_schema: None,
            max_cost_usd: None,
            queue: true,
            wait: false,
        };
        Ok(validate_new_turn_input(
            new,
            self.images.into_iter().map(Ok).collect(),
        )?)
    }

    async fn read_form_fields(mut fields: Multipart) -> Result<Self, MultipartError> {
        let mut form = Self::default();
        while let Some(field) = fields.next_field().await? {
            match field.name() {
                Some("text") => form.text = field.text().await?,
                Some("workspace") => form.workspace = Some(field.text().await?),
                Some("follow_up") => form.is_follow_up = field.text().await? == "true",
                Some("images") => {
                    let bytes = field.bytes().await?;
                    // A browser sends an empty file if no file is chosen.
                    if !bytes.is_empty() {
                        form.images.push(bytes.into());
                    }
                }
                _ => (),
            }
        }
        // Browsers send line breaks as CRLF (HTML Living Standard, section 4.10.21.7).
        form.text = form.text.replace("\r\n", "\n");
        Ok(form)
    }
}

impl<S: Send + Sync> FromRequest<S> for TurnInputForm {
    type Rejection = HtmlPageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, HtmlPageError> {
        let fields = Multipart::from_request(request, state).await;
        let fields = fields.map_err(|error| ApiError::invalid_request(error.body_text()))?;
        let form = Self::read_form_fields(fields).await.map_err(|error| {
            match error.status() == StatusCode::PAYLOAD_TOO_LARGE {
                true => ApiError::request_body_too_large(),
                false => ApiError::invalid_request(error.body_text()),
            }
        })?;
        Ok(form)
    }
}

/// Renders the form field with which the user attaches images to an input.
pub(super) fn render_image_upload_field() -> Markup {
    html! {
        label {
            "Images " small { "(chosen here, or pasted into the text)" }
            input type="file" name="images" multiple accept="image/png,image/jpeg,image/gif,image/webp";
        }
    }
}
