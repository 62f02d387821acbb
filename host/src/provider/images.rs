//! The images of a request: which of them are sent, and the line of text in place of the others.
//!
//! Owns how many images a request has room for. It must not know where bytes are kept (they are
//! read through a function) nor which models take images (`model` does). Start from
//! [`Images::choose`].

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::message::Blob;

/// Most images of a request. APIs take more, and then only smaller ones.
const MAX_IMAGES: usize = 20;

/// Most bytes of all images of a request. APIs take 32 MB, in which base64 is a third longer.
const MAX_TOTAL_BYTES: u64 = 16 << 20;

/// The images of a request, by the id of their blob.
#[derive(Debug, Default)]
pub struct Images(HashMap<String, Result<Vec<u8>, String>>);

impl Images {
    /// Chooses those that are sent of all blobs of a request, oldest first: the newest that fit.
    /// `read` gets the bytes of a blob, or says in a few words why there are none.
    pub fn choose(blobs: &[&Blob], read: impl Fn(&Blob) -> Result<Vec<u8>, String>) -> Self {
        let mut n_places: HashMap<&str, usize> = HashMap::new();
        for blob in blobs {
            *n_places.entry(&blob.id).or_default() += 1;
        }
        let (mut images, mut n_left, mut bytes_left) =
            (HashMap::new(), MAX_IMAGES, MAX_TOTAL_BYTES);
        for blob in blobs.iter().rev() {
            // One that stands in several places is sent at each.
            let Some(n) = n_places.remove(&*blob.id) else {
                continue;
            };
            let size = blob.size.saturating_mul(n as u64);
            let image = match blob.unfit() {
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

    /// Sends none of the blobs, for this reason.
    #[must_use]
    pub fn none(blobs: &[&Blob], why: &str) -> Self {
        let none = |blob: &&Blob| (blob.id.clone(), Err(why.to_owned()));
        Self(blobs.iter().map(none).collect())
    }

    /// Returns the bytes of an image that is sent, or the text in its place.
    pub fn get(&self, blob: &Blob) -> Result<&[u8], String> {
        match self.0.get(&blob.id) {
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(why)) => Err(blob.not_shown(why)),
            None => Err(blob.to_string()),
        }
    }
}

/// Bytes as they stand in a body.
pub(super) fn base64(bytes: &[u8]) -> String {
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
        let mut blob = Blob::of(&header.concat(), "");
        blob.size = size;
        blob
    }

    /// Per blob the number of bytes that are sent, or the text in its place.
    fn choose(blobs: &[Blob]) -> Vec<String> {
        let images = Images::choose(&blobs.iter().collect::<Vec<_>>(), |_| Ok(vec![0; 3]));
        let shown = |blob| images.get(blob).map_or_else(|text| text, base64);
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
        // In as many places it is as many images.
        let mut again = vec![png(1, 3_000_000); 6];
        assert!(choose(&again)[0].contains("too many"));
        again.pop();
        assert_eq!(choose(&again)[0], "AAAA");
    }

    #[test]
    fn what_no_model_takes_is_a_line_of_text_and_does_not_count() {
        let pdf = Blob::of(b"%PDF", "application/pdf");
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
        let gone = Images::choose(&[&png(1, 10)], |_| Err("its bytes are missing".to_owned()));
        let expected = "[image/png, 10 B; not shown: its bytes are missing]";
        assert_eq!(gone.get(&png(1, 10)).unwrap_err(), expected);
        let named = Images::default().get(&pdf).unwrap_err();
        assert_eq!(named, "[application/pdf, 4 B]");
    }
}
