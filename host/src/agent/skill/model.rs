//! The model that a skill requests for its turn.
//!
//! Only skills of the user or the machine's administrator may request a model, not those of a
//! project or installed ones: other authors must not switch the user to a more expensive model. The
//! provider must offer the model. Hooks of `pre-reason` run later and can still change it, as for
//! any request.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::scope::TurnSkillState;
use crate::event::Event;
use crate::point::outcome::Level;
use crate::skill::Skill;
use crate::text::escape_and_truncate_line;

/// Timeout for the request of the provider's list of models.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Value that means the session's model, as in Claude Code.
const INHERIT_SESSION_MODEL_VALUE: &str = "inherit";

impl TurnSkillState {
    /// Returns the model for a skill that becomes active, if it differs from the session's. The
    /// user is notified in both cases: when the model is used and when it is refused.
    pub(super) async fn resolve_skill_model(
        &self,
        skill: &Skill,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let (own, wanted) = (&self.spec.model, skill.model.as_deref()?);
        if wanted == INHERIT_SESSION_MODEL_VALUE || wanted == own {
            return None;
        }
        let refusal = match skill.may_choose_model() {
            false => Some("only the user's own skills can choose a model".to_owned()),
            true => self.reason_model_is_unavailable(wanted, cancel).await,
        };
        let (id, wanted_name) = (&skill.id, escape_and_truncate_line(wanted, 128));
        match refusal {
            None => {
                let text =
                    format!("skill {id}: this turn uses the model {wanted_name} instead of {own}");
                self.spec
                    .events
                    .emit(Event::create_host_notice(Level::Info, text));
                Some(wanted.to_owned())
            }
            Some(why) => {
                if self.memory.models.record_refused_model(&skill.hash) {
                    let text = format!(
                        "skill {id} requests the model {wanted_name}, but the turn keeps {own}: {why}"
                    );
                    self.spec
                        .events
                        .emit(Event::create_host_notice(Level::Warn, text));
                }
                None
            }
        }
    }

    /// Returns the reason why a model cannot be used; `None` if the provider offers it.
    async fn reason_model_is_unavailable(
        &self,
        wanted: &str,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let provider = &self.spec.provider;
        let name = provider.name();
        let memory = &self.memory.models;
        let models = match memory.cached_provider_models(name) {
            Some(models) => models,
            None => {
                let listed =
                    tokio::time::timeout(MODEL_LIST_TIMEOUT, provider.models(cancel)).await;
                match listed {
                    Ok(Ok(models)) => memory.remember_model_list(name, models),
                    Ok(Err(error)) => {
                        return Some(format!("{name} does not list its models: {error}"));
                    }
                    Err(_) => return Some(format!("{name} does not list its models in time")),
                }
            }
        };
        let is_offered = models.iter().any(|model| model == wanted);
        (!is_offered).then(|| format!("{name} does not offer it"))
    }
}
