//! Checks the parameters of a turn that a loop requests, before a session is opened.

use std::path::Path;

use crate::host::Host;
use crate::point::handle::HostFunctionError;
use crate::point::loop_handle::LoopTurnRequest;
use crate::session::is_session_id;
use crate::text::escape_and_truncate_line;

/// Maximum length of an input, in bytes: more than the context window of a model.
const MAX_TURN_INPUT_BYTES: usize = 1 << 20;

/// Maximum length of the name of a model, in bytes.
const MAX_MODEL_NAME_BYTES: usize = 128;

/// Maximum length of the id of an input, in bytes.
const MAX_INPUT_ID_BYTES: usize = 256;

/// Maximum length of a quoted text in an error, in bytes.
const MAX_ERROR_QUOTE_BYTES: usize = 96;

/// Checks the parameters of a turn that a loop requests.
///
/// # Errors
/// The input is empty or too long, or another parameter is not valid.
pub(super) fn check_turn_request(
    host: &Host,
    order: &LoopTurnRequest,
) -> Result<(), HostFunctionError> {
    let invalid = |why: String| Err(HostFunctionError::InvalidInput(why));
    if order.input.trim().is_empty() {
        return invalid("the input is empty".to_owned());
    }
    if order.input.len() > MAX_TURN_INPUT_BYTES {
        return Err(HostFunctionError::Limit(format!(
            "the input has {} bytes, at most {MAX_TURN_INPUT_BYTES} are accepted",
            order.input.len()
        )));
    }
    if let Some(model) = &order.model
        && (model.is_empty()
            || model.len() > MAX_MODEL_NAME_BYTES
            || model.contains(char::is_control))
    {
        return invalid(format!(
            "the name of a model must have 1 to {MAX_MODEL_NAME_BYTES} bytes and no control characters"
        ));
    }
    if let Some(id) = &order.input_id
        && !(1..=MAX_INPUT_ID_BYTES).contains(&id.len())
    {
        return invalid(format!(
            "the id of an input must have 1 to {MAX_INPUT_ID_BYTES} bytes"
        ));
    }
    if let Some(usd) = order.max_cost_usd
        && !(usd.is_finite() && usd >= 0.0)
    {
        return invalid("the maximum cost is a number from 0".to_owned());
    }
    if let Some(preset) = &order.preset {
        host.check_preset(preset)
            .map_err(HostFunctionError::InvalidInput)?;
    }
    Ok(())
}

/// Checks that a turn of a loop may run in an existing session. The session must belong to this
/// workspace and, unless it is a session of the loop itself, be a conversation of a user. Blocks.
///
/// # Errors
/// There is no such session, it belongs to another workspace, or it is not a conversation.
pub(super) fn check_loop_may_use_session(
    host: &Host,
    id: &str,
    is_own: bool,
) -> Result<(), HostFunctionError> {
    let shown = escape_and_truncate_line(id, MAX_ERROR_QUOTE_BYTES);
    if !is_session_id(id) {
        return Err(HostFunctionError::InvalidInput(format!(
            "`{shown}` is not a session id"
        )));
    }
    let missing = || HostFunctionError::NotFound(format!("there is no session `{shown}`"));
    let row = host.store().find_session_row(id).ok_or_else(missing)?;
    if Path::new(&row.workspace) != host.workspace() {
        return Err(HostFunctionError::Denied(format!(
            "the session `{shown}` belongs to another workspace"
        )));
    }
    if !is_own && row.aside.is_some() {
        return Err(HostFunctionError::Denied(format!(
            "the session `{shown}` was opened by Rind for its own use, not by a person"
        )));
    }
    Ok(())
}
