//! The built-in reflection: whether an answer may stand. Local and cheap; plugins that judge better act at `pre-reflect`
//! and `post-reflect`.

use crate::point::payload::{ReflectVerdict, Reflection};

/// Judges a draft. `n_asked` is how many of the criteria the model was already asked to check in this turn.
pub(super) fn reflect(reflection: &Reflection, n_asked: usize) -> ReflectVerdict {
    let new = reflection.criteria.get(n_asked..).unwrap_or_default();
    let continue_because = if reflection.draft.trim().is_empty() && !reflection.tools.is_empty() {
        Some(
            "You used tools and then gave no answer. Say what you did and what came of it."
                .to_owned(),
        )
    } else if !new.is_empty() {
        Some(format!(
            "Before this is done, check your answer against these criteria and correct what does not meet them:\n- {}",
            new.join("\n- ")
        ))
    } else {
        None
    };
    ReflectVerdict {
        draft: reflection.draft.clone(),
        continue_because,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::payload::UsedTool;

    fn reflection(draft: &str, n_tools: usize, criteria: &[&str]) -> Reflection {
        let used = UsedTool {
            name: "read_file".to_owned(),
            is_error: false,
        };
        Reflection {
            draft: draft.to_owned(),
            input: "do it".to_owned(),
            tools: vec![used; n_tools],
            criteria: criteria.iter().map(|c| (*c).to_owned()).collect(),
        }
    }

    fn is_done(reflection: &Reflection, n_asked: usize) -> bool {
        reflect(reflection, n_asked).continue_because.is_none()
    }

    #[test]
    fn an_answer_is_done() {
        assert!(is_done(&reflection("here you are", 2, &[]), 0));
        assert!(is_done(&reflection("", 0, &[]), 0));
    }

    #[test]
    fn an_empty_answer_after_tools_is_not_done() {
        assert!(!is_done(&reflection(" \n", 1, &[]), 0));
    }

    #[test]
    fn criteria_are_asked_for_once() {
        let reflection = reflection("here", 0, &["tests pass", "docs updated"]);
        let asked = reflect(&reflection, 0).continue_because.unwrap();
        assert!(asked.contains("- tests pass\n- docs updated"), "{asked}");
        assert!(is_done(&reflection, 2));
        assert!(!is_done(&reflection, 1));
    }
}
