//! Pastes an image from the clipboard when the person presses the key for it. An installed program
//! such as `wl-paste` reads the clipboard.
//!
//! The image is stored in a file until the chat ends. A word that names the file is inserted into
//! the typed text, as if the path had been pasted. Start from
//! [`read_clipboard_image_in_background`].

use std::io::Write;
use std::time::Duration;

use tempfile::NamedTempFile;

use super::super::attach;
use super::super::environment;
use super::super::render::format_warning_line;
use super::live::LiveChat;
use super::lookup::ChatBackgroundLookupResult;
use rind_lib::message::blob::MAX_IMAGE_BYTES;
use rind_lib::tool::process::foreground::read_program_output;

/// Timeout of each program that reads the clipboard.
const CLIPBOARD_READ_TIMEOUT: Duration = Duration::from_secs(5);

const WAYLAND_IMAGE_PASTE_COMMAND: &[&str] = &["wl-paste", "--no-newline", "--type", "image/png"];
const X11_IMAGE_PASTE_COMMAND: &[&str] = &[
    "xclip",
    "-selection",
    "clipboard",
    "-target",
    "image/png",
    "-out",
];
const MACOS_IMAGE_PASTE_COMMAND: &[&str] = &["pngpaste", "-"];

/// Reads the image of the clipboard in the background. The result arrives as
/// [`ChatBackgroundLookupResult::Pasted`].
pub(super) fn read_clipboard_image_in_background(chat: &mut LiveChat) {
    let has = |name: &str| environment::environment_variable(name).is_some();
    let programs = [
        (has("WAYLAND_DISPLAY"), WAYLAND_IMAGE_PASTE_COMMAND),
        (has("DISPLAY"), X11_IMAGE_PASTE_COMMAND),
        (cfg!(target_os = "macos"), MACOS_IMAGE_PASTE_COMMAND),
    ];
    let programs = programs.into_iter().filter(|(is_usable, _)| *is_usable);
    let programs: Vec<&'static [&'static str]> = programs.map(|(_, program)| program).collect();
    let finder = chat.finder.clone();
    tokio::spawn(async move {
        let read = read_clipboard_image(&programs).await;
        drop(finder.send(ChatBackgroundLookupResult::Pasted(read)));
    });
}

/// Stores the image from the clipboard in a file, and inserts a word that names the file into the
/// typed text.
pub(super) fn save_and_mention_pasted_image(chat: &mut LiveChat, read: Result<Vec<u8>, String>) {
    let named = read.and_then(|bytes| {
        let file = write_temporary_image(&bytes).map_err(|error| error.to_string())?;
        let path = file.path().to_string_lossy().into_owned();
        let word = attach::pasted_path_to_mention(&path).ok_or("its file cannot be named")?;
        attach::attach_image_file(file.path())?;
        chat.pasted.push(file);
        Ok(word)
    });
    match named {
        Ok(word) => word
            .chars()
            .for_each(|letter| chat.editor.insert_typed_character(letter)),
        Err(why) => {
            let words = format!("no image was pasted: {why}");
            chat.view
                .add_finished_output_line(format_warning_line(&words));
        }
    }
}

/// Writes an image to a temporary file that only the person can read.
fn write_temporary_image(bytes: &[u8]) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("rind-clipboard-")
        .suffix(".png")
        .tempfile()?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Returns the image of the clipboard from the first of these programs that can read one.
async fn read_clipboard_image(programs: &[&[&str]]) -> Result<Vec<u8>, String> {
    let mut is_there = false;
    for program in programs {
        match read_program_output(program, MAX_IMAGE_BYTES, CLIPBOARD_READ_TIMEOUT).await {
            Ok(Some(bytes)) if bytes.len() as u64 > MAX_IMAGE_BYTES => {
                return Err(format!(
                    "the image in the clipboard has more than {} MiB",
                    MAX_IMAGE_BYTES >> 20
                ));
            }
            Ok(Some(bytes)) if !bytes.is_empty() => return Ok(bytes),
            Ok(_) => is_there = true,
            Err(_) => {}
        }
    }
    Err(match is_there {
        true => "the clipboard has none".to_owned(),
        false => "no program reads the clipboard here; install wl-paste (Wayland), xclip (X11) or pngpaste (macOS), or paste the path of a file".to_owned(),
    })
}
