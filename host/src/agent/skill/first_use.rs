//! Asks the user before the first use of a skill.
//!
//! The source of the skill decides whether the user is asked, and its declared effect decides the
//! text of the question. A skill of a project or from the command line needs confirmation once per
//! session; a skill in the user's own folder needs it only if the skill declares an effect on other
//! services; an installed or built-in skill never needs it. Each call that the skill leads to is
//! still judged separately.

use serde_json::{Value, json};

use super::active::SKILL_TOOL_NAME;
use super::gate::SkillInvocationChecker;
use super::ready::SkillInvoker;
use crate::event::Event;
use crate::grant::{SideEffect, Trust};
use crate::message::{EffectClass, ToolSpec};
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::outcome::Level;
use crate::skill::Skill;
use crate::tool::approval::{ApprovalAnswer, Question};
use crate::tool::policy::{PolicyCall, ToolVerdict};
use crate::tool::preview::FileChangePreviewLine;
use crate::tool::subject::Subject;

impl SkillInvocationChecker<'_> {
    /// Asks the user whether the skill may be used, unless no question is needed or the user has
    /// already answered.
    ///
    /// # Errors
    /// The user or the policy refused, or there is no user to ask.
    pub(super) async fn confirm_first_skill_use(
        &self,
        skill: &Skill,
        by: &SkillInvoker,
    ) -> Result<(), String> {
        let (spec, arguments) = (skill_as_tool_spec(skill), describe_skill_for_policy(skill));
        let refused =
            |by: &str, why: &str| format!("the skill {} was refused by {by}: {why}", skill.id);
        if let ToolVerdict::DryRun(_) = self.policy_verdict_on_skill(&spec, &arguments).0 {
            // A dry run needs no question: reading the text of the skill changes nothing, and each
            // later call of the skill is described separately.
            let text = format!(
                "dry run: the text of the skill {} is read, which changes nothing; the skill {}",
                skill.id,
                describe_declared_effects(skill)
            );
            self.spec
                .events
                .emit(Event::create_host_notice(Level::Info, text));
            return Ok(());
        }
        if !skill_needs_confirmation(skill) {
            // Using a skill means reading its text, so the policy refuses it only by an explicit
            // rule, not by a default.
            let reading = tool_spec_with_effect_class(&spec, EffectClass::Read);
            if let (ToolVerdict::Deny(why), false) =
                self.policy_verdict_on_skill(&reading, &arguments)
            {
                return Err(refused("policy", &why));
            }
            self.announce_first_skill_use(skill);
            return Ok(());
        }
        let _asking = wait_with_paused_deadline(self.memory.asking.lock()).await;
        if self.memory.is_skill_confirmed(skill) {
            return Ok(());
        }
        let mut by_person = false;
        match self.find_strictest_verdict(skill, &spec, &arguments) {
            ToolVerdict::Allow | ToolVerdict::DryRun(_) => self.announce_first_skill_use(skill),
            ToolVerdict::Deny(why) => return Err(refused("policy", &why)),
            ToolVerdict::Ask => {
                let question = Question::new(&spec, &arguments, &Subject::Any, &[]);
                let question = question.into_skill_question(&skill.id, skill_question_lines(skill));
                let mut question = question.without_always_answer("it is asked once per session");
                if let SkillInvoker::Plugin(name) = by {
                    question = question.with_plugin_caller(name);
                }
                // The deadline of the caller is suspended until the user answers.
                match wait_with_paused_deadline(
                    self.approvals
                        .ask_unless_approved(&*self.spec.approver, &question),
                )
                .await
                {
                    ApprovalAnswer::Yes | ApprovalAnswer::Always => by_person = true,
                    ApprovalAnswer::No(why) if why.is_empty() => {
                        return Err(refused("the user", "no"));
                    }
                    ApprovalAnswer::No(why) => return Err(refused("the user", &why)),
                }
            }
        }
        self.memory.record_skill_use_approval(skill, by_person);
        Ok(())
    }

    /// Emits a notice about the side effects that a skill declares, before its first use in the
    /// session, unless a question already showed them to the user.
    fn announce_first_skill_use(&self, skill: &Skill) {
        let declares = |effect: &SideEffect| *effect != SideEffect::None;
        if skill.side_effects.iter().any(declares)
            && self.memory.mark_side_effects_shown_to_user(skill)
        {
            let text = format!(
                "the skill {} {}",
                skill.id,
                describe_declared_effects(skill)
            );
            self.spec
                .events
                .emit(Event::create_host_notice(Level::Info, text));
        }
    }

    /// Returns the verdict of the policy on a skill, which is judged like a tool, and whether the
    /// verdict comes from a default instead of a rule.
    fn policy_verdict_on_skill(&self, spec: &ToolSpec, arguments: &Value) -> (ToolVerdict, bool) {
        let policy = &self.spec.policy;
        let call = PolicyCall {
            spec,
            arguments,
            subject: &Subject::Any,
            may: &[],
            is_asked: false,
        };
        (
            policy.decide(&call).verdict,
            policy.can_skill_approve_call(&call),
        )
    }

    /// Returns the strictest verdict on all effects that the skill may have. The declared effect of
    /// a skill from an untrusted source is not trusted, so all effect classes are checked.
    fn find_strictest_verdict(
        &self,
        skill: &Skill,
        spec: &ToolSpec,
        arguments: &Value,
    ) -> ToolVerdict {
        let mut classes = vec![spec.effect_class];
        if matches!(skill.trust, Trust::Project | Trust::Local) {
            classes.extend([
                EffectClass::Write,
                EffectClass::Execute,
                EffectClass::External,
            ]);
        }
        let strictness = |verdict: &ToolVerdict| match verdict {
            ToolVerdict::Deny(_) => 2,
            ToolVerdict::Ask => 1,
            ToolVerdict::Allow | ToolVerdict::DryRun(_) => 0,
        };
        let verdicts = classes.into_iter();
        let verdicts = verdicts.map(|class| {
            self.policy_verdict_on_skill(&tool_spec_with_effect_class(spec, class), arguments)
                .0
        });
        verdicts.max_by_key(strictness).unwrap_or(ToolVerdict::Ask)
    }
}

fn tool_spec_with_effect_class(spec: &ToolSpec, effect_class: EffectClass) -> ToolSpec {
    ToolSpec {
        effect_class,
        ..spec.clone()
    }
}

fn skill_needs_confirmation(skill: &Skill) -> bool {
    match skill.trust {
        Trust::Managed | Trust::Package => false,
        Trust::User => skill.side_effects.contains(&SideEffect::External),
        Trust::Project | Trust::Local => true,
    }
}

/// Describes the skill as a tool, for the policy and the user. Its effect class is the declared
/// effect; a skill that declares none counts as executing code.
fn skill_as_tool_spec(skill: &Skill) -> ToolSpec {
    let effects = &skill.side_effects;
    let has = |effect| effects.contains(&effect);
    let effect_class = if has(SideEffect::External) || has(SideEffect::Network) {
        EffectClass::External
    } else if has(SideEffect::Filesystem) {
        EffectClass::Write
    } else {
        EffectClass::Execute
    };
    ToolSpec::from_name_and_effect(SKILL_TOOL_NAME, effect_class)
}

fn describe_skill_for_policy(skill: &Skill) -> Value {
    json!({
        "skill": skill.id,
        "source": skill.trust,
        "file": skill.file,
        "description": crate::text::escape_and_truncate_line(&skill.description, 300),
        "it": describe_declared_effects(skill),
    })
}

/// Returns the lines about a skill that the user sees in the question.
fn skill_question_lines(skill: &Skill) -> Vec<FileChangePreviewLine> {
    let line = |mark, text: String| FileChangePreviewLine { mark, text };
    vec![
        line(
            "what: ",
            crate::text::escape_and_truncate_line(&skill.description, 300),
        ),
        line("file: ", skill.file.display().to_string()),
        line("from: ", skill.trust.to_string()),
        line(
            "does: ",
            format!(
                "it {}; the rules for tool calls still apply to each of its calls",
                describe_declared_effects(skill)
            ),
        ),
    ]
}

/// Returns the declared side effects of a skill as text.
fn describe_declared_effects(skill: &Skill) -> String {
    let words: Vec<&str> = skill
        .side_effects
        .iter()
        .filter_map(|effect| match effect {
            SideEffect::None => None,
            SideEffect::Filesystem => Some("reads or writes files"),
            SideEffect::Network => Some("uses the network"),
            SideEffect::Session => Some("changes the conversation"),
            SideEffect::External => Some("acts on other services"),
        })
        .collect();
    match (words.is_empty(), skill.side_effects.is_empty()) {
        (false, _) => format!("says that it {}", words.join(", ")),
        (true, false) => "says that it changes nothing".to_owned(),
        (true, true) => "does not say what it changes".to_owned(),
    }
}
