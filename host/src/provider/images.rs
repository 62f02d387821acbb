//! Selects the images of a request that are sent, and writes a placeholder text for each of the
//! others.
//!
//! Owns the number and the total size of images in a request. The newest images that fit are sent.
//! It must not know where bytes are stored (a function reads them) nor which models accept images
//! (`model` does).
//!
//! Start from [`RequestImagesByBlobId::select_newest_within_limits`].

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::message::Blob;

/// Maximum number of images in a request. APIs accept more images only if each is smaller.
const MAX_IMAGES_PER_REQUEST: usize = 20;

/// Maximum total size of the images in a request, in bytes. APIs accept 32 MB of base64, which is a
/// third longer than the bytes.
const MAX_TOTAL_IMAGE_BYTES: u64 = 16 << 20;

/// Images of a request, by the id of their blob: the bytes to send, or the reason why the image is
/// not sent.
#[derive(Debug, Default)]
pub struct RequestImagesByBlobId(HashMap<String, Result<Vec<u8>, String>>);

impl RequestImagesByBlobId {
    /// Selects the newest images that fit into a request. `blobs` contains all blobs of the
    /// request, oldest first. `read` returns the bytes of a blob, or a short reason why they are
    /// not available.
    pub fn select_newest_within_limits(
        blobs: &[&Blob],
        read: impl Fn(&Blob) -> Result<Vec<u8>, String>,
    ) -> Self {
        let mut n_places: HashMap<&str, usize> = HashMap::new();
        for blob in blobs {
            *n_places.entry(&blob.id).or_default() += 1;
        }
        let (mut images, mut n_left, mut bytes_left) = (
            HashMap::new(),
            MAX_IMAGES_PER_REQUEST,
            MAX_TOTAL_IMAGE_BYTES,
        );
        for blob in blobs.iter().rev() {
            // A blob that occurs several times in the request is sent several times, so every
            // occurrence counts towards the limits.
            let Some(n) = n_places.remove(&*blob.id) else {
                continue;
            };
            let size = blob.size.saturating_mul(n as u64);
            let image = match blob.model_rejection_reason() {
                Some(why) => Err(why),
                None if n > n_left || size > bytes_left => {
                    Err("there are too many later images in this request".to_owned())
                }
                None => read(blob).inspect(|_| {
                    n_left -= n;
                    bytes_left -= size;
                }),
            };
            images.insert(blob.id.clone(), image);
        }
        Self(images)
    }

    /// Selects no image: each image is replaced by a placeholder text with the reason `why`.
    #[must_use]
    pub fn omit_all(blobs: &[&Blob], why: &str) -> Self {
        let none = |blob: &&Blob| (blob.id.clone(), Err(why.to_owned()));
        Self(blobs.iter().map(none).collect())
    }

    /// Returns the bytes of an image that is sent, or `Err` with the placeholder text of an image
    /// that is not sent.
    pub fn get(&self, blob: &Blob) -> Result<&[u8], String> {
        match self.0.get(&blob.id) {
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(why)) => Err(blob.unshown_blob_placeholder(why)),
            None => Err(blob.to_string()),
        }
    }
}

/// Encodes bytes as base64 for a request body.
pub(super) fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(n: u32, size: u64) -> Blob {
        let header = [
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(),
            &[0, 0, 0, 9],
            &n.to_be_bytes(),
        ];
        let mut blob = Blob::from_bytes(&header.concat(), "");
        blob.size = size;
        blob
    }

    /// Returns for each blob the number of bytes sent, or the placeholder text.
    fn choose(blobs: &[Blob]) -> Vec<String> {
        let images = RequestImagesByBlobId::select_newest_within_limits(
            &blobs.iter().collect::<Vec<_>>(),
            |_| Ok(vec![0; 3]),
        );
        let shown = |blob| images.get(blob).map_or_else(|text| text, encode_base64);
        blobs.iter().map(shown).collect()
    }

    #[test]
    fn the_newest_images_are_sent_that_fit() {
        let too_many =
            "[image/png, 3.0 MB; not shown: there are too many later images in this request]";
        let large: Vec<Blob> = (1..=7).map(|n| png(n, 3_000_000)).collect();
        let sent = choose(&large);
        assert_eq!(sent.iter().filter(|sent| *sent == "AAAA").count(), 5);
        assert_eq!(&sent[..2], [too_many, too_many]);
        let small: Vec<Blob> = (1..=25).map(|n| png(n, 10)).collect();
        assert!(choose(&small)[4].contains("too many"));
        assert_eq!(choose(&small)[5], "AAAA");
        // Each occurrence of the same image counts towards the limits.
        let mut again = vec![png(1, 3_000_000); 6];
        assert!(choose(&again)[0].contains("too many"));
        again.pop();
        assert_eq!(choose(&again)[0], "AAAA");
    }

    #[test]
    fn what_no_model_takes_is_a_line_of_text_and_does_not_count() {
        let pdf = Blob::from_bytes(b"%PDF", "application/pdf");
        let huge = png(1, 4_000_000);
        let tall = png(9_000, 10);
        let shown = choose(&[pdf.clone(), huge, tall, png(2, 10)]);
        let expected = [
            "[application/pdf, 4 B; not shown: models take PNG, JPEG, GIF and WebP images only]",
            "[image/png, 4.0 MB; not shown: images have at most 3932160 bytes]",
            "[image/png, 10 B; not shown: 9×9000 pixels; a side has 1 to 8000]",
            "AAAA",
        ];
        assert_eq!(shown, expected);
        let gone = RequestImagesByBlobId::select_newest_within_limits(&[&png(1, 10)], |_| {
            Err("its bytes are missing".to_owned())
        });
        let expected = "[image/png, 10 B; not shown: its bytes are missing]";
        assert_eq!(gone.get(&png(1, 10)).unwrap_err(), expected);
        let named = RequestImagesByBlobId::default().get(&pdf).unwrap_err();
        assert_eq!(named, "[application/pdf, 4 B]");
    }
}
