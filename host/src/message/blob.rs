//! References to content that is not text: a [`Blob`] names the bytes, and the session stores them.
//!
//! Owns the id of the bytes (their hash), the recognition of images, and the limits of images for
//! models. Images are recognized by their first bytes, never by a file name or by the type that a
//! tool declares, since both may be wrong and a provider refuses the whole request for a broken
//! image.
//!
//! The module must not know where the bytes are stored. Start from [`Blob::from_bytes`].

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Media type that bytes get if their type is unknown.
const UNKNOWN_MEDIA_TYPE: &str = "application/octet-stream";

/// Maximum length of a media type, in bytes.
const MAX_MEDIA_TYPE_BYTES: usize = 127;

/// Maximum size of an image that is sent to a model, in bytes. Provider APIs accept 5 MiB of base64
/// text, which is a third longer than the image's bytes.
pub const MAX_IMAGE_BYTES: u64 = (5 << 20) / 4 * 3;

/// Maximum width and height of an image that is sent to a model, in pixels. APIs reject the whole
/// request if an image is larger.
const MAX_IMAGE_SIDE_PIXELS: u32 = 8_000;

/// Reference to bytes that the session stores outside its message history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blob {
    /// Hex digits of the BLAKE3 hash of the bytes.
    pub id: String,
    /// Media type of the bytes, such as `image/png`.
    pub media_type: String,
    /// Number of bytes.
    pub size: u64,
    /// Width and height in pixels; absent if the bytes are not an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pixels: Option<(u32, u32)>,
}

impl Blob {
    /// Creates the reference to `bytes`. Images are recognized by their first bytes; for any other
    /// content, the media type is `declared`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], declared: &str) -> Self {
        let image = detect_image(bytes);
        let media_type = match image {
            Some(image) => image.media_type,
            // Ignore a declared image type that the bytes contradict: they must not be sent to a
            // model as an image.
            None if is_media_type(declared) && !is_image_type(declared) => declared,
            None => UNKNOWN_MEDIA_TYPE,
        };
        Self {
            id: blake3::hash(bytes).to_hex().to_string(),
            media_type: media_type.to_owned(),
            size: bytes.len() as u64,
            pixels: image.and_then(|image| image.pixels),
        }
    }

    /// Whether the blob is of an image type that models accept.
    #[must_use]
    pub fn is_image(&self) -> bool {
        is_image_type(&self.media_type)
    }

    /// Returns the reason why no model accepts the blob; `None` if models accept it.
    #[must_use]
    pub fn model_rejection_reason(&self) -> Option<String> {
        if !self.is_image() {
            return Some("models take PNG, JPEG, GIF and WebP images only".to_owned());
        }
        let Some((width, height)) = self.pixels else {
            return Some("the header of the image is damaged".to_owned());
        };
        if self.size > MAX_IMAGE_BYTES {
            return Some(format!("images have at most {MAX_IMAGE_BYTES} bytes"));
        }
        let is_side = |side| (1..=MAX_IMAGE_SIDE_PIXELS).contains(&side);
        (!is_side(width) || !is_side(height))
            .then(|| format!("{width}×{height} pixels; a side has 1 to {MAX_IMAGE_SIDE_PIXELS}"))
    }

    /// Returns a placeholder for the blob, with the reason why its content is not shown.
    #[must_use]
    pub fn unshown_blob_placeholder(&self, why: &str) -> String {
        format!("[{}; not shown: {why}]", self.describe_blob())
    }

    fn describe_blob(&self) -> String {
        let size = match self.size {
            n @ 0..1_000 => format!("{n} B"),
            n @ 1_000..1_000_000 => format!("{} KB", n / 1_000),
            n => format!("{}.{} MB", n / 1_000_000, n / 100_000 % 10),
        };
        // Check the media type again: the file that contained the reference may have been changed.
        let media_type = if is_media_type(&self.media_type) {
            &self.media_type
        } else {
            UNKNOWN_MEDIA_TYPE
        };
        format!("{media_type}, {size}")
    }
}

/// Image that the user attaches to a prompt, with its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptImageAttachment {
    pub(crate) blob: Blob,
    pub(crate) bytes: Arc<[u8]>,
}

impl PromptImageAttachment {
    /// Creates an attachment from the bytes of an image.
    ///
    /// # Errors
    /// The reason why no model accepts the image.
    pub fn image(bytes: Vec<u8>) -> Result<Self, String> {
        let blob = Blob::from_bytes(&bytes, UNKNOWN_MEDIA_TYPE);
        match blob.model_rejection_reason() {
            Some(why) => Err(why),
            None => Ok(Self {
                blob,
                bytes: bytes.into(),
            }),
        }
    }

    /// Returns the reference to the image, which the conversation stores.
    #[must_use]
    pub fn blob(&self) -> &Blob {
        &self.blob
    }
}

/// Formats the blob as a placeholder, for example `[image/png, 12 KB]`.
impl fmt::Display for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.describe_blob())
    }
}

fn is_image_type(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}

/// Whether a text is a syntactically valid media type without parameters.
#[must_use]
pub fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !name.is_empty() && name.bytes().all(is_in_name)
    };
    text.len() <= MAX_MEDIA_TYPE_BYTES
        && text
            .split_once('/')
            .is_some_and(|(main, sub)| is_name(main) && is_name(sub))
}

/// Format and size of an image, from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFormatAndSize {
    /// Media type of the image, such as `image/png`.
    pub media_type: &'static str,
    /// Width and height; `None` if the header is truncated or corrupt.
    pub pixels: Option<(u32, u32)>,
}

/// Detects the format and the size of a PNG, JPEG, GIF or WebP image; `None` for other bytes.
#[must_use]
pub fn detect_image(bytes: &[u8]) -> Option<ImageFormatAndSize> {
    let found = |media_type, pixels| Some(ImageFormatAndSize { media_type, pixels });
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        let side = |at| Some(u32::from_be_bytes(byte_array_at_offset(bytes, at)?));
        return found("image/png", side(16).zip(side(20)));
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return found("image/jpeg", read_jpeg_dimensions(bytes));
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        let side = |at| {
            Some(u32::from(u16::from_le_bytes(byte_array_at_offset(
                bytes, at,
            )?)))
        };
        return found("image/gif", side(6).zip(side(8)));
    }
    if bytes.starts_with(b"RIFF") && byte_array_at_offset(bytes, 8) == Some(*b"WEBP") {
        return found("image/webp", read_webp_dimensions(bytes));
    }
    None
}

fn byte_array_at_offset<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Walks the segments of a JPEG file up to the frame header, which contains the size.
fn read_jpeg_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [mark, kind] = byte_array_at_offset(bytes, at)?;
        if mark != 0xff {
            return None;
        }
        match kind {
            // Skip padding bytes, and markers that no segment follows.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            // Scan data begins or the file ends: the frame header is missing.
            0xd9 | 0xda => return None,
            0xc0..=0xcf if !matches!(kind, 0xc4 | 0xc8 | 0xcc) => {
                let height = u32::from(u16::from_be_bytes(byte_array_at_offset(bytes, at + 5)?));
                let width = u32::from(u16::from_be_bytes(byte_array_at_offset(bytes, at + 7)?));
                return Some((width, height));
            }
            _ => at += 2 + usize::from(u16::from_be_bytes(byte_array_at_offset(bytes, at + 2)?)),
        }
    }
}

/// Reads the size of a WebP image from its first chunk, which is one of three kinds.
fn read_webp_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let chunk: [u8; 4] = byte_array_at_offset(bytes, 12)?;
    match &chunk {
        b"VP8 " => {
            let side = |at| {
                Some(u32::from(
                    u16::from_le_bytes(byte_array_at_offset(bytes, at)?) & 0x3fff,
                ))
            };
            side(26).zip(side(28))
        }
        b"VP8L" => {
            let bits = u32::from_le_bytes(byte_array_at_offset(bytes, 21)?);
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => {
            let side = |at| {
                let [a, b, c] = byte_array_at_offset(bytes, at)?;
                Some(u32::from_le_bytes([a, b, c, 0]) + 1)
            };
            side(24).zip(side(27))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &sides].concat()
    }

    #[test]
    fn images_are_told_by_their_first_bytes_with_their_size() {
        let webp = |kind: &[u8], rest: &[u8]| {
            [b"RIFF\0\0\0\0WEBP".as_slice(), kind, &[0; 4], rest].concat()
        };
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x02\xff\xc2\0\x08\x08\0\x30\0\x40";
        let lossy = b"\0\0\0\x9d\x01\x2a\x40\0\x30\x40";
        // Width 63 and height 47, in 14 bits each, the least significant bits first.
        let lossless = [&[0x2f][..], &(63u32 | 47 << 14).to_le_bytes()].concat();
        for (bytes, media_type) in [
            (png(64, 48), "image/png"),
            (jpeg.to_vec(), "image/jpeg"),
            (b"GIF89a\x40\0\x30\0".to_vec(), "image/gif"),
            (webp(b"VP8 ", lossy), "image/webp"),
            (webp(b"VP8L", &lossless), "image/webp"),
            (webp(b"VP8X", b"\0\0\0\0\x3f\0\0\x2f\0\0"), "image/webp"),
        ] {
            let pixels = Some((64, 48));
            assert_eq!(
                detect_image(&bytes),
                Some(ImageFormatAndSize { media_type, pixels })
            );
            // A truncated header of any length must not be recognized as anything else.
            for cut in 0..bytes.len() {
                let found = detect_image(&bytes[..cut]);
                assert!(found.is_none_or(|found| found.media_type == media_type));
            }
        }
        assert_eq!(detect_image(b"<svg/>"), None);
        assert_eq!(detect_image(b""), None);
    }

    #[test]
    fn what_is_declared_counts_only_where_the_bytes_do_not_tell() {
        let media_type =
            |bytes: &[u8], declared: &str| Blob::from_bytes(bytes, declared).media_type;
        assert_eq!(media_type(&png(1, 1), "text/html"), "image/png");
        assert_eq!(media_type(b"%PDF", "application/pdf"), "application/pdf");
        for declared in ["image/png", "", "a", "a/", "a/b c", "a/b/c", "\u{1b}/x"] {
            assert_eq!(
                media_type(b"text", declared),
                UNKNOWN_MEDIA_TYPE,
                "{declared}"
            );
        }
    }

    #[test]
    fn a_blob_is_shown_as_its_type_and_size() {
        let shown = |size| {
            let mut blob = Blob::from_bytes(&png(1, 1), "");
            blob.size = size;
            blob.to_string()
        };
        assert_eq!(shown(999), "[image/png, 999 B]");
        assert_eq!(shown(12_345), "[image/png, 12 KB]");
        assert_eq!(shown(2_097_152), "[image/png, 2.0 MB]");
        let mut forged = Blob::from_bytes(b"x", "");
        forged.media_type = "\u{1b}[2J/\nx".to_owned();
        assert_eq!(
            forged.unshown_blob_placeholder("too large"),
            "[application/octet-stream, 1 B; not shown: too large]"
        );
    }
}
