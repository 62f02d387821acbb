//! Formats annotations for GitHub: lines on standard output from which the Actions runner marks a
//! place in a file.

use super::{print_stdout_line, printable_text};

/// Annotation that GitHub shows for a fault at a place in a file.
#[derive(Clone, Debug)]
pub(in super::super) struct GithubAnnotation {
    pub(in super::super) file: String,
    pub(in super::super) line: Option<usize>,
    pub(in super::super) title: String,
    pub(in super::super) message: String,
}

/// Prints an annotation. Texts are escaped, so that they can neither end the line nor begin another
/// command of the runner.
pub(in super::super) fn print_github_annotation(of: &GithubAnnotation) {
    print_stdout_line(format_annotation(of));
}

fn format_annotation(of: &GithubAnnotation) -> String {
    let line = of.line.map(|line| format!(",line={line}"));
    let lines: Vec<String> = of.message.lines().map(printable_text).collect();
    format!(
        "::error file={}{},title={}::{}",
        escape_annotation_property(&of.file),
        line.unwrap_or_default(),
        escape_annotation_property(&of.title),
        escape_annotation_text(&lines.join("\n"))
    )
}

/// Escapes the characters of a message that the Actions runner interprets, as the runner expects.
fn escape_annotation_text(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes the value of an annotation's property, such as `file`, which a comma or a colon would
/// end.
fn escape_annotation_property(text: &str) -> String {
    let text = printable_text(text);
    escape_annotation_text(&text)
        .replace(':', "%3A")
        .replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_neither_a_property_nor_the_line() {
        let found = format_annotation(&GithubAnnotation {
            file: "a,b.toml".to_owned(),
            line: Some(3),
            title: "x::y".to_owned(),
            message: "50 %\n::error::forged".to_owned(),
        });
        assert_eq!(
            found,
            "::error file=a%2Cb.toml,line=3,title=x%3A%3Ay::50 %25%0A::error::forged"
        );
    }
}
