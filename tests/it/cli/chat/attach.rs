//! Images that a person attaches to a prompt.

use rind_tests::cli::{Rind, pasted};
use serde_json::json;

use super::{ECHO, SIZE};

const DOT: &[u8] = include_bytes!("../../../recorded/dot.png");

#[test]
fn an_image_that_is_typed_or_dropped_goes_with_the_text_and_words_of_a_long_paste_name_none() {
    let rind = Rind::with_script(ECHO);
    for name in ["dot.png", "my dot.png"] {
        std::fs::write(rind.workspace().join(name), DOT).unwrap();
    }
    rind.file("no.png", "text\n");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("what is @dot.png \r")
        .sees("dot.png [image/png, 70 B]")
        // The scripted model does not declare support for images.
        .sees("is not known to take images")
        .sees("You said: what is @dot.png");
    let dropped = format!("'{}'", rind.workspace().join("my dot.png").display());
    terminal.sees_no("Enter steers").keys(&pasted(&dropped));
    terminal
        .sees("my dot.png\"")
        .keys("and this\r")
        .sees("You said: @\"");
    terminal
        .sees_no("Enter steers")
        .keys("no: @no.png \r")
        .sees("not shown to the model")
        .sees("You said: no: @no.png");
    terminal
        .sees_no("Enter steers")
        .keys(&pasted(&"line\n@dot.png\n".repeat(40)))
        .keys("end\r")
        .sees("You said: line");
    terminal.sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let messages = rind.entries("message").into_iter();
    let users = messages.filter(|entry| entry["message"]["role"] == "user");
    let blobs = users.map(|entry| {
        let parts = entry["message"]["content"].as_array().unwrap().clone();
        let blobs = parts.iter().filter(|part| part["type"] == "blob");
        blobs.map(|blob| blob["pixels"].clone()).collect()
    });
    let blobs: Vec<Vec<serde_json::Value>> = blobs.collect();
    let one = vec![json!([1, 1])];
    assert_eq!(blobs, [one.clone(), one, vec![], vec![]]);
}

#[test]
fn a_long_text_of_ones_own_shows_the_images_that_it_names_and_a_paste_says_which_it_does_not() {
    let rind = Rind::with_script(ECHO);
    std::fs::write(rind.workspace().join("dot.png"), DOT).unwrap();
    let long = format!("{}see @dot.png \n", "line\n".repeat(12));
    rind.file("long.txt", &long);
    rind.file("edit.sh", "cp long.txt \"$1\"\n");
    let editor = format!("sh {}/edit.sh", rind.workspace().display());
    let variables = [("VISUAL", editor.as_str())];
    let args = ["chat", "--no-plugins", long.as_str()];
    let Some(mut terminal) = rind.terminal(&args, (72, 100), &variables) else {
        return;
    };
    let answers = |screen: &str| screen.matches("You said: line").count();
    // Sends the text three times: from the command line, from an editor, and from the history.
    terminal.until("an answer", |screen| answers(screen) == 1);
    terminal.sees_no("Enter steers").keys("\u{7}");
    terminal.sees("  see @dot.png\nscripted").keys("\r");
    terminal.until("two answers", |screen| answers(screen) == 2);
    terminal.sees_no("Enter steers").keys("\u{1b}[A\r");
    terminal.until("three answers", |screen| answers(screen) == 3);
    terminal.sees_no("Enter steers").keys(&pasted(&long));
    terminal
        .sees("[paste 1: 13 lines]")
        .keys("\r")
        .sees("pasted; type its name");
    terminal.sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
    let messages = rind.entries("message").into_iter();
    let users = messages.filter(|entry| entry["message"]["role"] == "user");
    let n_blobs = users.map(|entry| {
        let parts = entry["message"]["content"].as_array().unwrap().clone();
        parts.iter().filter(|part| part["type"] == "blob").count()
    });
    assert_eq!(n_blobs.collect::<Vec<_>>(), [1, 1, 1, 0]);
}
