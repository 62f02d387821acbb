//! Looks at the images of a conversation without their bytes, and edits results in parts.
#[rind_sdk::plugin]
mod viewer {
    use rind_sdk::prelude::*;

    /// Counts the blobs and asks for none of them, unless the last message says so.
    #[hook]
    fn context(messages: &Conversation) -> Result<ContextOutcome, Error> {
        let mut seen = Vec::new();
        for message in messages.iter() {
            for blob in message.blobs() {
                let mut line = format!("{} of {} bytes", blob.media_type, blob.size);
                if messages.last().is_some_and(|last| last.text() == "read") {
                    line.push_str(&format!(", {} read", blobs::read_all(blob)?.len()));
                }
                seen.push(line);
            }
        }
        state::set("seen", &seen.join("; "))?;
        Ok(ContextOutcome::default())
    }

    /// Puts the parts in another order; of a call `forge` a blob that it made up, of a call `torn` broken JSON.
    #[hook]
    fn post_tool(finished: &FinishedCall) -> ResultOutcome {
        let mut parts: Vec<Part> = finished.parts().collect();
        parts.reverse();
        match finished.call().name.as_str() {
            "forge" => parts.push(Part::Blob(Blob {
                id: "0".repeat(64),
                media_type: "image/png".to_owned(),
                size: 1,
            })),
            "torn" => parts.push(Part::Json("{".to_owned())),
            _ => {}
        }
        ResultOutcome::replace_parts(parts)
    }
}
