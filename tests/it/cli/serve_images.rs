//! Images that a person adds on the pages of `rind serve`: uploaded by a plain form, served from
//! the session, and never served as any other type.

use rind::message::Blob;
use rind_tests::api::{Answer, Api, exchange_bytes};
use rind_tests::cli::Rind;
use serde_json::Value;

const DOT: &[u8] = include_bytes!("../../recorded/dot.png");
const SVG: &[u8] = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
const ECHO: &str = "[[reply]]\ntext = \"seen\"\ntimes = 0\n";

/// Sends a form with a text and files, as a browser does.
fn send_form(api: &Api<'_>, path: &str, text: &str, files: &[&[u8]]) -> Answer {
    let mut body = Vec::new();
    let part = |name: &str| format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"");
    body.extend(format!("{}\r\n\r\n{text}\r\n", part("text")).bytes());
    for file in files {
        // The server must ignore the declared file name and type.
        let head = "; filename=\"../a.png\"\r\nContent-Type: image/png\r\n\r\n";
        body.extend(format!("{}{head}", part("images")).bytes());
        body.extend_from_slice(file);
        body.extend(b"\r\n");
    }
    body.extend(b"--edge--\r\n");
    exchange_bytes(api, path, "multipart/form-data; boundary=edge", &body)
}

fn wait_for_answer(rind: &Rind) {
    while rind.entries("turn-end").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Path to which the answer redirects.
fn place_of(answer: &Answer) -> &str {
    let mut lines = answer.head.lines();
    let place = lines.find_map(|line| line.strip_prefix("location: "));
    place.unwrap().trim()
}

/// Paths of the images on a page.
fn images(page: &str) -> Vec<String> {
    let parts = page.split("<img class=\"attached\" src=\"").skip(1);
    parts
        .map(|part| part.split('"').next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_form_sends_images_and_the_page_shows_them_with_the_type_of_their_bytes() {
    let rind = Rind::with_script(ECHO);
    let api = Api::start(&rind);
    // A browser sends an empty file if the person chose none.
    let begun = send_form(&api, "/new", "look\r\nat this", &[b"", DOT]);
    assert_eq!(begun.status, 303, "{begun:?}");
    wait_for_answer(&rind);
    let place = place_of(&begun);
    let page = api.get(place).has_status(200);
    assert!(page.head.contains("img-src 'self'"), "{}", page.head);
    let shown = images(&page.body);
    assert_eq!(shown.len(), 1, "{}", page.body);
    let image = api.get(&shown[0]);
    assert_eq!(image.status, 200);
    for header in [
        "content-type: image/png",
        "content-length: 70",
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'; sandbox",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(image.head.contains(header), "{header}: {}", image.head);
    }
    let messages = rind.entries("message");
    let content: &Value = &messages[0]["message"]["content"];
    assert_eq!(content[0]["text"], "look\nat this", "{content}");
    // An exported page has no server to load images from, so it shows a text instead.
    let id = place.rsplit('/').next().unwrap();
    let file = rind.workspace().join("page.html");
    let file = file.to_str().unwrap();
    rind.run(&["session", "show", id, "--html", file]).exits(0);
    let page = std::fs::read_to_string(file).unwrap();
    assert!(page.contains("[image/png, 70 B]") && images(&page).is_empty());
}

#[test]
fn what_is_no_image_is_refused_and_never_shown_as_one() {
    let rind = Rind::with_script(ECHO);
    let api = Api::start(&rind);
    // A script after the first bytes of an image is served as an image, since the type is fixed and
    // never sniffed.
    let both = [DOT, SVG].concat();
    let large = [DOT, &vec![0; 5 << 20]].concat();
    let many = vec![DOT; 17];
    for (files, why) in [
        (&[SVG][..], "PNG, JPEG, GIF and WebP"),
        (&[DOT, b"%PDF-1.7"], "image 2"),
        (&[&large], "bytes"),
        (&many, "at most 16 images"),
    ] {
        let refused = send_form(&api, "/new", "look", files);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body.contains(why), "{why}: {}", refused.body);
    }
    let huge = vec![0; 100 << 20];
    let refused = send_form(&api, "/new", "look", &[&huge]);
    assert_eq!(refused.status, 413, "{refused:?}");
    assert!(rind.entries("turn-start").is_empty());
    let begun = send_form(&api, "/new", "look", &[&both]);
    assert_eq!(begun.status, 303, "{begun:?}");
    wait_for_answer(&rind);
    let place = place_of(&begun);
    let shown = images(&api.get(place).has_status(200).body);
    let image = api.get(&shown[0]);
    assert!(
        image.head.contains("content-type: image/png"),
        "{}",
        image.head
    );
    let id = shown[0].rsplit('/').next().unwrap();
    // A tool may leave content that is not an image in the session's folder, under the name of its
    // hash.
    let session = place.rsplit('/').next().unwrap();
    let content = rind
        .home()
        .join("data/sessions")
        .join(session)
        .join("content");
    let svg_id = Blob::from_bytes(SVG, "image/svg+xml").id;
    std::fs::write(content.join(&svg_id), SVG).unwrap();
    for (path, status) in [
        (format!("{place}/images/{svg_id}"), 404),
        (format!("{place}/images/..%2fsession.jsonl"), 404),
        (format!("{place}/images/{}", &id[1..]), 404),
        (format!("/sessions/..%2f..%2fx/images/{id}"), 404),
        (format!("/sessions/nobody/images/{id}"), 404),
    ] {
        let answer = api.get(&path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(!answer.body.contains("<svg"), "{path}");
    }
}
