//! Converts the content of a prompt into the input of a turn.
//!
//! Links and embedded resources appear in the text as links, at the positions where the client put
//! them; the content of the resources is appended to the end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rind_lib::message::PromptImageAttachment;
use rind_lib::text::escape_to_one_line;

use crate::calls::code_fence;
use crate::wire::{ContentBlock, EmbeddedResourceResource, WireError};

/// Maximum number of images that a client can send in one prompt.
const MAX_PROMPT_IMAGES: usize = 16;

/// Input of a turn, converted from a prompt of the client.
#[derive(Debug, Default)]
pub(crate) struct ConvertedPromptInput {
    /// Text of the prompt, with links for its resources.
    pub(crate) text: String,
    /// Content of the embedded text resources; empty if there are none.
    pub(crate) resources: String,
    /// Images of the prompt, including images that were embedded as resources.
    pub(crate) images: Vec<PromptImageAttachment>,
}

impl ConvertedPromptInput {
    /// Converts the content of a prompt.
    ///
    /// # Errors
    /// A part has an unsupported type or an invalid image, or the prompt has no text.
    pub(crate) fn from_blocks(blocks: Vec<ContentBlock>) -> Result<Self, WireError> {
        let mut input = Self::default();
        for (at, block) in blocks.into_iter().enumerate() {
            let added = input.add_block(block);
            added.map_err(|why| {
                WireError::new(-32602, format!("part {} of the prompt: {why}", at + 1))
            })?;
        }
        if input.text.trim().is_empty() && input.resources.is_empty() {
            let why = match input.images.is_empty() {
                true => "the prompt is empty",
                false => "the prompt has images and no text; say what to do with them",
            };
            return Err(WireError::new(-32602, why));
        }
        Ok(input)
    }

    fn add_block(&mut self, block: ContentBlock) -> Result<(), String> {
        match block {
            ContentBlock::Text(part) => self.text.push_str(&part.text),
            ContentBlock::ResourceLink(link) => self.add_link(&link.name, &link.uri),
            ContentBlock::Resource(embedded) => return self.add_resource(embedded.resource),
            ContentBlock::Image(image) => return self.add_image(&image.data),
            ContentBlock::Audio(_) => return Err("audio is not supported".to_owned()),
            _ => return Err("version 1 of the protocol has no parts of this type".to_owned()),
        }
        Ok(())
    }

    fn add_link(&mut self, name: &str, uri: &str) {
        // Separate the link with a space, because some editors, such as marimo, put attachments
        // right after the text.
        let is_apart = self.text.ends_with(['(', '[', '"', '\''])
            || self
                .text
                .chars()
                .next_back()
                .is_none_or(char::is_whitespace);
        if !is_apart {
            self.text.push(' ');
        }
        let link = format!(
            "[@{}]({})",
            escape_to_one_line(name),
            escape_to_one_line(uri)
        );
        self.text.push_str(&link);
    }

    fn add_resource(&mut self, resource: EmbeddedResourceResource) -> Result<(), String> {
        match resource {
            EmbeddedResourceResource::TextResourceContents(own) => {
                let name = own.uri.rsplit('/').next().unwrap_or_default().to_owned();
                self.add_link(&name, &own.uri);
                let fence = code_fence(&own.text);
                let (uri, text) = (escape_to_one_line(&own.uri), own.text.trim_end());
                self.resources
                    .push_str(&format!("\n\nContent of {uri}:\n{fence}\n{text}\n{fence}"));
                Ok(())
            }
            EmbeddedResourceResource::BlobResourceContents(own) => {
                let media = own.mime_type.unwrap_or_default();
                match media.starts_with("image/") {
                    true => self.add_image(&own.blob),
                    false => Err(format!(
                        "the resource `{}` is neither text nor an image",
                        escape_to_one_line(&own.uri)
                    )),
                }
            }
            _ => Err("the resource is neither text nor bytes".to_owned()),
        }
    }

    fn add_image(&mut self, data: &str) -> Result<(), String> {
        if self.images.len() >= MAX_PROMPT_IMAGES {
            return Err(format!(
                "a prompt may have at most {MAX_PROMPT_IMAGES} images"
            ));
        }
        let bytes = STANDARD.decode(data).map_err(|error| error.to_string())?;
        self.images.push(PromptImageAttachment::image(bytes)?);
        Ok(())
    }

    /// Returns the text if it may be a slash command: if it starts with `/` and is one line.
    pub(crate) fn slash_command_line(&self) -> Option<&str> {
        let line = self.text.trim_end();
        (line.starts_with('/') && !line.contains('\n')).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(blocks: serde_json::Value) -> Result<ConvertedPromptInput, String> {
        let blocks: Vec<ContentBlock> = serde_json::from_value(blocks).unwrap();
        ConvertedPromptInput::from_blocks(blocks).map_err(|error| error.message)
    }

    #[test]
    fn links_and_resources_stand_where_they_were_put() {
        let resource = json!({"uri": "file:///w/a.rs", "text": "x\n````\ny"});
        let input = read(json!([
            {"type": "text", "text": "/fix "},
            {"type": "resource_link", "name": "b.rs", "uri": "file:///w/b.rs"},
            {"type": "text", "text": " as in "},
            {"type": "resource", "resource": resource},
        ]));
        let input = input.unwrap();
        let text = "/fix [@b.rs](file:///w/b.rs) as in [@a.rs](file:///w/a.rs)";
        assert_eq!(input.slash_command_line(), Some(text));
        assert!(
            input.resources.contains("\n`````\nx\n````\ny\n`````"),
            "{}",
            input.resources
        );
    }

    #[test]
    fn a_link_right_after_a_word_stands_apart_from_it() {
        let link = |name: &str| json!({"type": "resource_link", "name": name, "uri": name});
        let text = |text: &str| json!({"type": "text", "text": text});
        let input = read(json!([
            text("Fix it"),
            link("a"),
            link("b"),
            text(" ("),
            link("c"),
            text(")")
        ]));
        assert_eq!(input.unwrap().text, "Fix it [@a](a) [@b](b) ([@c](c))");
    }

    #[test]
    fn parts_that_are_not_taken_are_named() {
        let table = [
            (json!([]), "the prompt is empty"),
            (
                json!([{"type": "text", "text": " \n"}]),
                "the prompt is empty",
            ),
            (
                json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]),
                "part 1",
            ),
            (
                json!([{"type": "text", "text": "x"}, {"type": "image", "data": "!", "mimeType": "image/png"}]),
                "part 2",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "u", "blob": "AAAA"}}]),
                "`u` is neither text",
            ),
        ];
        for (blocks, expected) in table {
            let why = read(blocks.clone()).unwrap_err();
            assert!(why.contains(expected), "{blocks}: {why}");
        }
    }
}
