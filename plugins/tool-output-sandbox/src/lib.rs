//! Stores large tool results outside of the conversation: the model gets an excerpt and a handle,
//! and reads the rest with the tool `read_output`.

mod keep;
mod read;
mod rows;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod tool_output_sandbox {
    use crate::keep;
    use crate::read::{self, OutputRowsRequest};
    use crate::rows::{self, SandboxSettings};
    use rind_sdk::prelude::*;

    #[args]
    struct ReadOutput {
        /// Handle of the output, such as `out-1`. Leave it out to search all outputs.
        handle: Option<String>,
        /// First row to read, from 1. Default 1.
        offset: Option<usize>,
        /// Maximum number of rows to read, or to find. Default 200.
        limit: Option<usize>,
        /// Show only rows from `offset` on that contain this text, with their numbers. Upper and lower case are the same.
        search: Option<String>,
    }

    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        let settings = config::shared::<SandboxSettings>()?;
        if finished.size() <= settings.threshold as u64 {
            return Ok(ResultOutcome::default());
        }
        let name = finished.call().name;
        if name == "read_output" {
            return Ok(ResultOutcome::default());
        }
        let content = finished.text();
        let kept = keep::store_text(&content);
        let notice = format!(
            "{} bytes of the result of {name} stored; the model gets a preview",
            content.len()
        );
        let mut parts = vec![Part::Text(rows::preview_output(&content, &kept, &settings))];
        // Images cannot be stored as text; the model still gets them.
        parts.extend(finished.parts().filter(|part| part.as_blob().is_some()));
        Ok(ResultOutcome::replace_parts(parts).log(Level::Info, notice))
    }

    /// Reads a tool result that was too large for the conversation and was kept aside under a handle.
    ///
    /// Give `offset` and `limit` to read on, or `search` to find rows; `search` without a handle looks through all outputs. A row is a
    /// line, or a part of a very long line.
    #[tool(effect = "read")]
    fn read_output(args: ReadOutput) -> Result<String, Error> {
        let settings: SandboxSettings = config::all()?;
        let request = OutputRowsRequest {
            offset: args.offset.unwrap_or(1),
            limit: args.limit.unwrap_or(200),
            search: args.search.as_deref().filter(|search| !search.is_empty()),
        };
        let Some(handle) = args.handle else {
            return read::search_all_outputs(
                keep::list_stored_output_handles(),
                &request,
                settings.threshold,
            );
        };
        let text = keep::get_output(&handle)?;
        Ok(read::format_output_rows(
            &text,
            &handle,
            &request,
            settings.threshold,
        ))
    }
}
