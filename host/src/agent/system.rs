//! Builds the system prompt of a turn: collects its parts, lets hooks edit them, reuses the stable
//! parts of the first turn, and renders the text.

use super::answer_schema::AnswerSchema;
use super::archive::live::archival_subagents_prompt_part;
use super::context::build_context_file_policy;
use super::skill::active::SKILL_TOOL_NAME;
use super::skill::catalogue;
use super::stop::EarlyTurnEndReason;
use super::turn::RunningTurn;
use crate::event::Event;
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::{Decision, PromptContext, PromptPart, Tier};
use crate::prompt::{self, HostPromptFacts};
use crate::session::{Body, SessionBlobs};

impl RunningTurn<'_> {
    /// Builds the system prompt. Hooks of `system-prompt` add parts, those of
    /// `before-system-prompt` edit the parts, and those of `after-system-prompt` edit the rendered
    /// text.
    pub(super) async fn build_system_prompt(
        &mut self,
        decision: Decision,
    ) -> Result<(), EarlyTurnEndReason> {
        let context = PromptContext {
            model: self.agent.spec.model.clone(),
            tools: self.ctx.scope.skills.permitted_tool_names(),
            decision,
            parts: self.prompt_parts_before_hooks(decision),
        };
        let collected = self
            .ctx
            .dispatch_hooks_or_end_turn::<at::SystemPrompt>("system prompt", context)
            .await?
            .parts;
        let mut parts = self
            .ctx
            .dispatch_hooks_or_end_turn::<at::BeforeSystemPrompt>("system prompt", collected)
            .await?;
        prompt::sort_prompt_parts(&mut parts);
        let parts = self.reuse_stable_prompt_parts(parts);

        let blocks = prompt::render_system_blocks(&parts);
        let text = prompt::join_system_blocks(&blocks);
        let edited = self
            .ctx
            .dispatch_hooks_or_end_turn::<at::AfterSystemPrompt>("system prompt", text.clone())
            .await?;
        let (blocks, lost) = if edited == text {
            (blocks, Vec::new())
        } else {
            let blocks = prompt::split_prompt_into_blocks(blocks, &edited);
            let lost = prompt::tiers_missing_cache_breakpoint(&parts, &blocks);
            (blocks, lost)
        };
        self.system = blocks;

        let parts = prompt::to_prompt_part_records(&parts);
        let texts = self.system.iter().map(|block| block.text.as_str());
        let sent = texts.clone().map(SessionBlobs::text_blob_id).collect();
        let written = Body::Prompt {
            parts,
            lost,
            sent,
            sent_bytes: texts.map(|text| text.len() as u64).collect(),
        };
        if self.agent.ledger.as_ref() != Some(&written) {
            self.agent.spec.session.append(written.clone())?;
            self.agent.ledger = Some(written);
            self.store_system_prompt();
        }
        Ok(())
    }

    /// Stores the exact text of the system prompt as blobs of the session, so that people can read
    /// it later. This runs concurrently with the request to the model, which does not wait for the
    /// disk. If the write fails, only this copy is missing.
    fn store_system_prompt(&mut self) {
        let blobs = self.ctx.scope.family.root.blobs().clone();
        let texts: Vec<String> = self.system.iter().map(|block| block.text.clone()).collect();
        self.keeping = Some(tokio::task::spawn_blocking(move || {
            for text in &texts {
                if let Err(error) = blobs.put_text(text) {
                    tracing::warn!(%error, "cannot store the text of a system prompt");
                }
            }
        }));
    }

    fn prompt_parts_before_hooks(&self, decision: Decision) -> Vec<PromptPart> {
        let spec = &self.agent.spec;
        let mut parts = prompt::host_system_prompt_parts(HostPromptFacts {
            workspace: &spec.workspace,
            date: &crate::clock::current_date(),
            decision,
            has_tools: !spec.tools.entries().is_empty(),
        });
        // Omit the list of skills if the agent does not have the tool that reads skills.
        let reads_skills = spec.tools.get(SKILL_TOOL_NAME).is_some();
        let own = spec.parts.iter();
        let own = own.filter(|part| reads_skills || !catalogue::is_skill_list_prompt_part(part));
        parts.extend(own.cloned());
        parts.extend(archival_subagents_prompt_part(
            &spec.session,
            spec.config.archival.list.max_tokens,
        ));
        // A subagent does not plan; the plan is the answer of the main agent.
        let is_planning = spec.depth == 0 && spec.policy.is_planning();
        parts.extend(is_planning.then(prompt::plan_mode_prompt_part));
        let schema = self.answers.schema().map(AnswerSchema::schema);
        parts.extend(schema.map(|schema| prompt::answer_schema_prompt_part(schema)));
        if spec.config.context_files {
            let found = prompt::read_context_files(
                &spec.workspace,
                &spec.config.own_context_files,
                &*build_context_file_policy(&self.ctx.scope),
            );
            parts.extend(found.parts);
            // Show the notices only in the first turn, because the parts of the system prompt are
            // built again in every turn.
            if self.agent.frozen.is_none() {
                for notice in found.notices {
                    self.ctx
                        .emit_event(Event::create_host_notice(Level::Warn, notice));
                }
            }
        }
        parts
    }

    /// Replaces the stable parts with those of the first turn, because a change would invalidate
    /// the provider's prompt cache.
    fn reuse_stable_prompt_parts(&mut self, parts: Vec<PromptPart>) -> Vec<PromptPart> {
        let (stable, rest): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .partition(|part| part.tier == Tier::Stable);
        let frozen = self.agent.frozen.as_ref();
        if frozen.is_some_and(|frozen| *frozen != stable) {
            self.ctx.emit_notice(
                Level::Debug,
                "stable parts of the system prompt changed; the change takes effect in the next session",
            );
        }
        let frozen = self.agent.frozen.get_or_insert(stable);
        frozen.iter().cloned().chain(rest).collect()
    }
}
