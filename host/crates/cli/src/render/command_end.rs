//! Extracts the end of a command's output: how the command ended, and its last lines, which usually
//! show what went wrong.

use rind_lib::message::ToolResult;

/// Number of lines of a call's output that are shown during the call and afterwards.
pub(in super::super) const N_SHOWN_OUTPUT_LINES: usize = 3;

/// Last line of the result of a command that succeeded. If such a result is nevertheless an error,
/// the text before this line gives the reason.
const EXIT_CODE_ZERO_LINE: &str = "[exit code 0]";

/// Last lines of the output of a shell command, with its outcome.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct CommandOutputTail<'a> {
    /// Outcome of the command, such as `[exit code 3]`.
    pub(in super::super) ending: &'a str,
    /// Last lines of output that are not blank, at most [`N_SHOWN_OUTPUT_LINES`].
    pub(in super::super) lines: Vec<&'a str>,
    /// Number of lines before `lines` that are not blank and are not shown.
    pub(in super::super) n_before: usize,
}

impl<'a> CommandOutputTail<'a> {
    /// Parses the result of a call of `bash`. Returns `None` for other tools, and for a command
    /// that was not run.
    pub(in super::super) fn parse_bash_result(result: &ToolResult, text: &'a str) -> Option<Self> {
        let ending = text.lines().next_back()?.trim();
        let is_ending = result.name == "bash" && ending.starts_with('[') && ending.ends_with(']');
        let before = text.trim_end().strip_suffix(ending).filter(|_| is_ending)?;
        let lines = before.lines().filter(|line| !line.trim().is_empty());
        let mut lines: Vec<&str> = lines.collect();
        let n_before = lines.len().saturating_sub(N_SHOWN_OUTPUT_LINES);
        Some(Self {
            ending,
            lines: lines.split_off(n_before),
            n_before,
        })
    }

    /// Whether the ending itself shows why the result is an error.
    pub(in super::super) fn explains_failure(&self, result: &ToolResult) -> bool {
        result.is_error && self.ending != EXIT_CODE_ZERO_LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_stay_with_the_number_of_those_before() {
        let result = |name: &str| ToolResult::new("c", name, "", false);
        let text = "1\n2\n\n3\n4\n[exit code 3]";
        let end = CommandOutputTail::parse_bash_result(&result("bash"), text).unwrap();
        assert_eq!((end.ending, end.n_before), ("[exit code 3]", 1));
        assert_eq!(end.lines, ["2", "3", "4"]);
        let failed = ToolResult::new("c", "bash", "", true);
        assert!(end.explains_failure(&failed) && !end.explains_failure(&result("bash")));
        let refused =
            CommandOutputTail::parse_bash_result(&failed, "[refused: a.txt]\n[exit code 0]")
                .unwrap();
        assert!(!refused.explains_failure(&failed));
        assert_eq!(
            CommandOutputTail::parse_bash_result(&result("other"), text),
            None
        );
        assert_eq!(
            CommandOutputTail::parse_bash_result(&result("bash"), "it did not run"),
            None
        );
        assert_eq!(
            CommandOutputTail::parse_bash_result(&result("bash"), ""),
            None
        );
    }
}
