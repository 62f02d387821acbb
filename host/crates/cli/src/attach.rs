//! Attaches images that a person names with `@` in a typed text, or with `--image`.
//!
//! Decides which words of a text name an image, and reads image files. It must not know how an
//! image is sent. Start from [`load_mentioned_images`].

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use rustix::fs::OFlags;

use super::render::truncate_to_one_line;
use rind_lib::message::PromptImageAttachment;
use rind_lib::message::blob::MAX_IMAGE_BYTES;

/// Maximum number of images in one message. APIs accept 20 and more, but a text that names that
/// many is hardly meant to attach them.
const MAX_IMAGES_PER_MESSAGE: usize = 10;

/// File extensions of images that models accept. Only a word with one of these extensions can name
/// an image; the first bytes of the file decide its format.
const IMAGE_EXTENSIONS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// Extensions of other files. A word such as `@main.rs` with one of these extensions is treated as
/// a file name, unlike a word such as `@app.route`.
const NON_IMAGE_FILE_EXTENSIONS: [&str; 24] = [
    "c", "cfg", "cpp", "css", "csv", "go", "h", "html", "ini", "java", "js", "json", "jsx", "lock",
    "md", "py", "rs", "sh", "sql", "toml", "ts", "tsx", "txt", "yaml",
];

/// Maximum width of a line that describes an image, in columns.
const MAX_IMAGE_LINE_COLUMNS: usize = 400;

/// Path and content of an image that a text names, or the reason why the image is not attached.
pub(super) type MentionedImageLoadResult = Result<(PathBuf, PromptImageAttachment), String>;

/// Finds images that a text names: `@shot.png`, `@"my shot.png"`, `@~/shot.png`. Relative paths
/// start at the workspace. A word that names no existing file is ignored.
pub(super) fn load_mentioned_images(text: &str, workspace: &Path) -> Vec<MentionedImageLoadResult> {
    let found = mentioned_image_paths(text, workspace);
    let n_more = found.len().saturating_sub(MAX_IMAGES_PER_MESSAGE);
    let mut images: Vec<MentionedImageLoadResult> = found
        .iter()
        .take(MAX_IMAGES_PER_MESSAGE)
        .map(|path| attach_image_file(path))
        .collect();
    if n_more > 0 {
        let why =
            format!("{n_more} more images, because a message has at most {MAX_IMAGES_PER_MESSAGE}");
        images.push(Err(why));
    }
    images
}

/// Returns a warning for each image that is named only inside pasted text, because such images are
/// not attached.
pub(super) fn pasted_image_warnings(noted: &str, text: &str, workspace: &Path) -> Vec<String> {
    if noted == text {
        return Vec::new();
    }
    let named = mentioned_image_paths(noted, workspace);
    let mut pasted = mentioned_image_paths(text, workspace);
    pasted.retain(|path| !named.contains(path));
    let why = "its name was pasted; type its name to attach the image";
    let line = |path: &PathBuf| describe_image(&Err(format!("{}: {why}", path.display())));
    pasted
        .iter()
        .take(MAX_IMAGES_PER_MESSAGE)
        .map(line)
        .collect()
}

/// Returns the paths of the existing images that a text names.
fn mentioned_image_paths(text: &str, workspace: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for name in find_at_mention_names(text) {
        let path = resolve_mentioned_path(name, workspace);
        if has_image_extension(&path) && path.exists() && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Returns a message for each name after an `@` that looks like a file but does not exist.
pub(super) fn missing_file_warnings(text: &str, workspace: &Path) -> Vec<String> {
    let has_end = |name: &str| {
        let end = Path::new(name).extension().and_then(OsStr::to_str);
        end.is_some_and(|end| NON_IMAGE_FILE_EXTENSIONS.contains(&end))
    };
    let names = find_at_mention_names(text).into_iter();
    let missing = names.filter(|name| {
        !name.contains(':') && has_end(name) && !resolve_mentioned_path(name, workspace).exists()
    });
    let line = |name: &str| {
        truncate_to_one_line(
            &format!("@{name}: there is no such file"),
            MAX_IMAGE_LINE_COLUMNS,
        )
    };
    missing.take(MAX_IMAGES_PER_MESSAGE).map(line).collect()
}

/// Returns a line for the person that tells whether an image is attached or why not.
pub(super) fn describe_image(named: &MentionedImageLoadResult) -> String {
    let line = match named {
        Ok((path, image)) => format!("shown to the model: {} {}", path.display(), image.blob()),
        Err(why) => format!("not shown to the model: {why}"),
    };
    truncate_to_one_line(&line, MAX_IMAGE_LINE_COLUMNS)
}

pub(super) fn attach_image_file(path: &Path) -> MentionedImageLoadResult {
    let read = read_image(path).and_then(PromptImageAttachment::image);
    read.map(|image| (path.to_owned(), image))
        .map_err(|why| format!("{}: {why}", path.display()))
}

/// Converts a pasted path of an image into a word that names the image after an `@`; `None` for any
/// other text. Terminals and file managers paste the path of a dropped file in quotes, with
/// backslashes before special characters, or as a `file://` URL.
pub(super) fn pasted_path_to_mention(text: &str) -> Option<String> {
    let text = text.trim();
    let quoted = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    let path = if let Some(path) = quoted('\'').or_else(|| quoted('"')) {
        path.to_owned()
    } else if let Some(address) = text.strip_prefix("file://") {
        let address = address.strip_prefix("localhost").unwrap_or(address);
        let path = percent_decode_str(address).decode_utf8().ok()?;
        path.into_owned()
    } else {
        unescape_shell_word(text)?
    };
    let is_image = path.starts_with('/')
        && !path.contains(|c: char| c == '"' || c.is_control())
        && has_image_extension(Path::new(&path))
        && Path::new(&path).is_file();
    is_image.then(|| match path.contains(char::is_whitespace) {
        true => format!("@\"{path}\" "),
        false => format!("@{path} "),
    })
}

/// Removes the backslashes from a shell word. Returns `None` if the text is more than one word.
fn unescape_shell_word(text: &str) -> Option<String> {
    let (mut word, mut is_escaped) = (String::with_capacity(text.len()), false);
    for letter in text.chars() {
        match letter {
            '\\' if !is_escaped => is_escaped = true,
            ' ' if !is_escaped => return None,
            _ => {
                word.push(letter);
                is_escaped = false;
            }
        }
    }
    Some(word)
}

/// Returns the names in a text that follow an `@` at the start of a word.
pub(super) fn find_at_mention_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    let mut is_word_begin = true;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        if letter != '@' || !is_word_begin {
            is_word_begin = letter.is_whitespace();
            rest = after;
            continue;
        }
        let (name, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or(("", quoted)),
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                let (word, left) = after.split_at(end);
                (
                    word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']),
                    left,
                )
            }
        };
        names.push(name);
        (rest, is_word_begin) = (left, false);
    }
    names
}

fn resolve_mentioned_path(name: &str, workspace: &Path) -> PathBuf {
    match (name.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => workspace.join(name),
    }
}

fn has_image_extension(path: &Path) -> bool {
    let end = path.extension().and_then(OsStr::to_str);
    end.is_some_and(|end| {
        IMAGE_EXTENSIONS
            .iter()
            .any(|known| end.eq_ignore_ascii_case(known))
    })
}

fn read_image(path: &Path) -> Result<Vec<u8>, String> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    // Open with `O_NONBLOCK`, because opening a FIFO that has the name of an image would block.
    let open = || -> std::io::Result<(File, bool)> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        let is_file = file.metadata()?.is_file();
        Ok((file, is_file))
    };
    let (file, is_file) = open().map_err(|error| error.to_string())?;
    if !is_file {
        return Err("the path does not name a file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_IMAGE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOT: &[u8] = include_bytes!("../../../../tests/recorded/dot.png");

    #[test]
    fn words_that_name_a_file_are_images_and_others_are_words() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.png", "b c.PNG", "d.txt"] {
            std::fs::write(folder.path().join(name), DOT).unwrap();
        }
        std::fs::write(folder.path().join("no.png"), "text").unwrap();
        let of = |text: &str| -> Vec<Result<String, String>> {
            let all = load_mentioned_images(text, folder.path()).into_iter();
            let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
            all.map(|one| one.map(|(path, _)| name(path))).collect()
        };
        let named = |names: &[&str]| names.iter().map(|name| Ok((*name).to_owned())).collect();
        let all: Vec<(&str, Vec<Result<String, String>>)> = vec![
            ("look at @a.png, and @a.png again", named(&["a.png"])),
            ("(@a.png)", named(&[])),
            (
                "@\"b c.PNG\" @d.txt @absent.png me@a.png",
                named(&["b c.PNG"]),
            ),
            ("@\"a.png", named(&[])),
            ("@ @@a.png @", named(&[])),
        ];
        for (text, expected) in all {
            assert_eq!(of(text), expected, "{text}");
        }
        let missing = missing_file_warnings(
            "@absent.rs @a.png @types/node @d.txt, @b:c.md",
            folder.path(),
        );
        assert_eq!(missing, ["@absent.rs: there is no such file"]);
        let refused = of("@no.png").remove(0).unwrap_err();
        assert!(refused.contains("PNG, JPEG, GIF and WebP"), "{refused}");
        // A directory of that name, and a FIFO without a writer.
        std::fs::create_dir(folder.path().join("f.png")).unwrap();
        assert!(
            of("@f.png")
                .remove(0)
                .unwrap_err()
                .contains("not name a file")
        );
        let pipe = folder.path().join("p.gif");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(
            of("@p.gif")
                .remove(0)
                .unwrap_err()
                .contains("not name a file")
        );
    }

    #[test]
    fn a_path_that_is_dropped_on_the_terminal_names_its_image() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("a.png"), DOT).unwrap();
        std::fs::write(at("b c.png"), DOT).unwrap();
        for (pasted, expected) in [
            (at("a.png"), Some(format!("@{} ", at("a.png")))),
            (
                format!("'{}'\n", at("b c.png")),
                Some(format!("@\"{}\" ", at("b c.png"))),
            ),
            (at("b\\ c.png"), Some(format!("@\"{}\" ", at("b c.png")))),
            (at("b c.png"), None),
            (
                format!("file://{}", at("b%20c.png")),
                Some(format!("@\"{}\" ", at("b c.png"))),
            ),
            (
                format!("file://localhost{}", at("a.png")),
                Some(format!("@{} ", at("a.png"))),
            ),
            (at("a\\.png"), Some(format!("@{} ", at("a.png")))),
            (format!("file://{}", at("a%00.png")), None),
            (format!("file://{}", at("%ff.png")), None),
            (format!("file://other{}", at("a.png")), None),
            ("a.png".to_owned(), None),
            (at("absent.png"), None),
            (format!("{}\n{}", at("a.png"), at("a.png")), None),
        ] {
            assert_eq!(pasted_path_to_mention(&pasted), expected, "{pasted}");
        }
    }
}
