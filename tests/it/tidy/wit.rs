//! Checks the docs of the contract: each interface, world, type, field, case and function has a
//! `///` line directly above it.

use super::tree::Source;

/// Labels of the lines in the doc of an interface, besides its purpose.
const LABELS: [&str; 3] = ["Lifecycle: ", "Deadline: ", "Access: "];

/// Finds interfaces whose doc does not say when they are called, how long a call may take, and who may use them.
pub(super) fn check_labels(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut doc = Vec::new();
    for line in source.text.lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
        } else if line.starts_with("interface ") {
            let missing = LABELS
                .iter()
                .filter(|label| !doc.iter().any(|text| text.starts_with(**label)));
            findings.extend(
                missing
                    .map(|label| format!("{}: `{line}` has no line `/// {label}…`", source.path)),
            );
        } else if line.trim() != "///" {
            doc.clear();
        }
    }
    findings
}

pub(super) fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut is_documented = false;
    // Keywords of the items whose braces are open, outermost first.
    let mut open: Vec<&str> = Vec::new();
    // Number of open parentheses and angle brackets; lines within them continue the item before.
    let mut nesting = 0_i32;
    for (number, line) in source.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("///") {
            is_documented = line.len() > "///".len();
            continue;
        }
        // Attributes such as `@since` may be between an item and its docs.
        if line.starts_with('@') {
            continue;
        }
        let code = line.split("//").next().unwrap_or_default().trim();
        let word = code.split([' ', '{', ';']).next().unwrap_or_default();
        let parent = open.last().copied().unwrap_or_default();
        if nesting == 0 && is_item(parent, word, code) && !is_documented {
            findings.push(format!(
                "{}:{}: `{code}` has no doc",
                source.path,
                number + 1
            ));
        }
        let body = code.split_once('{').map(|(_, body)| body.trim());
        if word != "use" && body.is_some_and(|body| !body.is_empty()) {
            findings.push(format!(
                "{}:{}: one item a line, so that each can have a doc",
                source.path,
                number + 1
            ));
        }
        if body == Some("") {
            open.push(word);
        } else if code.starts_with('}') {
            open.pop();
        }
        for c in code.replace("->", "").chars() {
            nesting += match c {
                '(' | '<' => 1,
                ')' | '>' => -1,
                _ => 0,
            };
        }
        is_documented = false;
    }
    findings
}

fn is_item(parent: &str, word: &str, code: &str) -> bool {
    match parent {
        "record" | "variant" | "enum" | "flags" => !code.is_empty() && !code.starts_with('}'),
        "world" => code.contains(": func") || word == "type",
        _ => {
            let keywords = [
                "interface",
                "world",
                "record",
                "variant",
                "enum",
                "flags",
                "resource",
                "type",
            ];
            keywords.contains(&word) || code.contains("func(")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_item_without_a_doc_is_found() {
        let table = [
            "interface a {\n}",
            "world a {\n}",
            "/// I.\ninterface a {\n  type t = string;\n}",
            "/// I.\ninterface a {\n  /// Not of f.\n\n  f: func();\n}",
            "/// I.\ninterface a {\n  f: func(\n    x: string,\n  ) -> result<string, error>;\n}",
            "/// I.\ninterface a {\n  // No doc.\n  record r {\n    /// A.\n    a: u8,\n  }\n}",
            "/// I.\ninterface a {\n  /// R.\n  record r {\n    /// A.\n    a: u8,\n    b: list<u8>,\n  }\n}",
            "/// I.\ninterface a {\n  /// V.\n  variant v {\n    a(string),\n    /// B.\n    b,\n  }\n}",
            "/// I.\ninterface a {\n  /// E.\n  enum e {\n    a,\n  }\n}",
            "/// I.\ninterface a {\n  ///\n  enum e {\n  }\n}",
            "/// I.\ninterface a {\n  /// R.\n  record r { a: u8 }\n}",
        ];
        for text in table {
            let findings = check(&Source::new("a.wit", text));
            assert_eq!(findings.len(), 1, "{text}\n{findings:?}");
        }
    }

    #[test]
    fn an_interface_that_does_not_say_when_how_long_and_who_is_found() {
        let doc = |labels: &[&str]| {
            let labels = labels.iter().map(|label| format!("/// {label}it.\n"));
            let text = format!(
                "/// I.\n///\n{}interface a {{\n}}",
                labels.collect::<String>()
            );
            check_labels(&Source::new("a.wit", &text)).len()
        };
        assert_eq!(doc(&LABELS), 0);
        assert_eq!(doc(&LABELS[1..]), 1);
        assert_eq!(doc(&[]), 3);
        let other = "/// Lifecycle: x\n/// Deadline: x\n/// Access: x\nworld w {\n}\n/// I.\ninterface a {\n}";
        assert_eq!(check_labels(&Source::new("a.wit", other)).len(), 3);
    }

    #[test]
    fn documented_items_are_fine() {
        let text = "package a:b@0.1.0;\n\n/// I.\n@since(version = 0.1.0)\ninterface a {\n  use types.{x, y};\n\n  /// F.\n  f: func(\n    x: string,\n  ) -> result<list<string>, error>;\n  /// V.\n  variant v {\n    /// A.\n    a(string),\n  }\n  /// G.\n  g: func();\n}\n/// W.\nworld w {\n  import a;\n  export b;\n}";
        assert_eq!(check(&Source::new("a.wit", text)), Vec::<String>::new());
    }
}
