//! Answers an image in parts, and does with the blobs of a message what its text says.
#[rind_sdk::plugin]
mod picture {
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::json;

    /// An image of one dot.
    const DOT: &[u8] = include_bytes!("../../../recorded/dot.png");

    /// Picture to answer with.
    #[args]
    struct Draw {
        /// `dot`, `failed`, `text`, `secret`, `broken` or `many`.
        what: String,
    }

    /// Draws.
    #[tool(effect = "read")]
    fn draw(args: Draw) -> Result<Answer, Error> {
        let dot = || {
            // What is said of an image does not count.
            let value = Answer::json(&json!({"dots": 1}))?;
            Ok(Answer::text("a dot")
                .and(value)
                .and(Answer::bytes("text/plain", DOT.to_vec())))
        };
        let of = |part| Answer {
            parts: vec![part],
            is_error: false,
        };
        match args.what.as_str() {
            "dot" => dot(),
            "failed" => dot().map(Answer::failed),
            "text" => Ok(Answer::bytes("image/png", b"no image".to_vec())),
            "broken" => Ok(of(AnswerPart::Json("{".to_owned()))),
            "many" => Ok((1..=101).fold(Answer::text("0"), |answer, n| {
                answer.and(Answer::text(n.to_string()))
            })),
            secret => Ok(Answer::bytes("text/plain", secret.as_bytes().to_vec())
                .and(Answer::json(&json!({ "token": secret }))?)),
        }
    }

    /// Looks at the blobs, reads them when the text is `read`, and else reads the blob with the id that is the text.
    #[hook]
    fn message_end(message: Message) {
        for blob in message.blobs() {
            log::info(format_args!("{} of {} bytes", blob.media_type, blob.size));
        }
        match message.text().as_str() {
            "" => {}
            "read" => {
                for blob in message.blobs() {
                    let all = blobs::read_all(blob).map(|bytes| bytes == DOT);
                    let part = blobs::read(&blob.id, 1, 3);
                    let behind = blobs::read(&blob.id, u64::MAX, u64::MAX);
                    log::info(format_args!("{all:?} {part:?} {behind:?}"));
                }
            }
            id => log::info(format_args!("{:?}", blobs::read(id, 0, u64::MAX))),
        }
    }
}
