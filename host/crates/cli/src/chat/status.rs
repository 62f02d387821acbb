//! Builds the status line below the editor: the model, the share of its context window in use, the
//! cost of the session, plugins that delay the model's text, and status texts of plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::render::{
    DIM_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE, format_count_with_noun, format_dollars,
    format_elapsed_seconds, style_text,
};
use rind_lib::agent::CompactConfig;
use rind_lib::event::{Event, Stamped};
use rind_lib::provider::{Provider, SelectedProviderAndModel};
use rind_lib::text::escape_to_one_line;
use rind_lib::tool::background::{BackgroundCommand, BackgroundCommands};
use rind_lib::tool::policy::{ApprovalMode, SharedApprovalMode};

/// Maximum number of commands in the background that the status line names.
const MAX_BACKGROUND_COMMANDS_IN_STATUS_LINE: usize = 2;

/// Computes the number of tokens above which a conversation is compacted. The number depends on the
/// model's context window, whose size some servers report only with the first request.
#[derive(Clone, Default)]
pub(super) struct CompactionThreshold {
    provider: Option<Arc<dyn Provider>>,
    compact: CompactConfig,
}

impl CompactionThreshold {
    pub(super) fn new(provider: Arc<dyn Provider>, compact: CompactConfig) -> Self {
        let provider = Some(provider);
        Self { provider, compact }
    }

    fn threshold_tokens(&self, model: &str) -> Option<u64> {
        let provider = self.provider.as_ref()?;
        self.compact.compaction_threshold(&provider.profile(model))
    }
}

#[derive(Clone, Default)]
pub(super) struct ChatStatusLineState {
    /// Name of the model in the status line, with special characters escaped.
    model: String,
    /// Name of the model as requests to the provider contain it.
    asked: String,
    /// Number of tokens of the last request and its answer.
    n_tokens: u64,
    window: CompactionThreshold,
    pub(super) cost_usd: f64,
    /// Number of turns that started since the chat was opened.
    pub(super) n_turns: u64,
    /// Approval mode of the session, shared with the code that switches it.
    switch: SharedApprovalMode,
    /// Whether tool calls are only described and not run (`--dry-run`).
    is_dry_run: bool,
    /// Plugins whose hooks delayed the display of the model's text in the last turn.
    holding: BTreeSet<String>,
    n_left_out: usize,
    n_skills_left_out: usize,
    /// Texts that plugins set for the status line, by plugin.
    lines: BTreeMap<String, String>,
    /// Names of the active skills, oldest first.
    skills: Vec<String>,
    background: BackgroundCommands,
}

impl ChatStatusLineState {
    pub(super) fn new(model: &str, window: CompactionThreshold) -> Self {
        Self {
            model: escape_to_one_line(model),
            asked: model.to_owned(),
            window,
            ..Self::default()
        }
    }

    /// Sets the approval mode that the status line shows.
    pub(super) fn with_approval_mode(
        mut self,
        switch: SharedApprovalMode,
        is_dry_run: bool,
    ) -> Self {
        (self.switch, self.is_dry_run) = (switch, is_dry_run);
        self
    }

    /// Adds the background commands to the status line, each with its elapsed time.
    pub(super) fn with_background_commands(mut self, background: BackgroundCommands) -> Self {
        self.background = background;
        self
    }

    /// Whether the status line shows an elapsed time, which must be redrawn.
    pub(super) fn has_elapsed_time(&self) -> bool {
        !self.background.running_commands().is_empty()
    }

    /// Describes the commands in the background; empty if none runs.
    fn background_commands_text(&self) -> String {
        let running = self.background.running_commands();
        let word = |command: &Arc<BackgroundCommand>| {
            let clock = format_elapsed_seconds(command.running_time().as_secs());
            format!("{} {clock}", command.id())
        };
        let words: Vec<String> = running
            .iter()
            .take(MAX_BACKGROUND_COMMANDS_IN_STATUS_LINE)
            .map(word)
            .collect();
        match running
            .len()
            .saturating_sub(MAX_BACKGROUND_COMMANDS_IN_STATUS_LINE)
        {
            0 => words.join(", "),
            n_more => format!("{}, +{n_more}", words.join(", ")),
        }
    }

    /// Describes the approval mode in a few words.
    pub(super) fn approval_mode_text(&self) -> String {
        let dry_run = if self.is_dry_run { " · dry run" } else { "" };
        match self.switch.mode() {
            ApprovalMode::Full => format!("full: nothing is asked{dry_run}"),
            mode => format!("{mode}{dry_run}"),
        }
    }

    pub(super) fn set_model(&mut self, selected: &SelectedProviderAndModel) {
        self.model = escape_to_one_line(&selected.model);
        self.asked.clone_from(&selected.model);
        self.window.provider = Some(selected.provider.clone());
    }

    pub(super) fn update_from_event(&mut self, stamped: &Stamped) {
        match &stamped.event {
            Event::SessionOpened { model, .. } => {
                self.model = escape_to_one_line(model);
                self.asked.clone_from(model);
            }
            Event::PluginLeftOut { cause, .. } if cause != "switched-off" => self.n_left_out += 1,
            Event::SkillLeftOut { .. } => self.n_skills_left_out += 1,
            Event::TurnStart { .. } if stamped.is_from_main_agent() => {
                self.n_turns += 1;
                self.holding.clear();
            }
            Event::Status { plugin, text } if text.is_empty() => {
                self.lines.remove(plugin);
            }
            Event::Status { plugin, text } => {
                self.lines.insert(plugin.clone(), escape_to_one_line(text));
            }
            Event::SkillActivated { skill, .. } => self.skills.push(escape_to_one_line(skill)),
            Event::SkillEnded { skill, .. } => {
                let ended = self
                    .skills
                    .iter()
                    .position(|own| *own == escape_to_one_line(skill));
                ended.map(|at| self.skills.remove(at));
            }
            Event::TextHeld { by, .. } if stamped.is_from_main_agent() => {
                self.holding
                    .extend(by.iter().map(|plugin| escape_to_one_line(plugin)));
            }
            Event::RequestEnd {
                usage,
                cost_usd,
                error,
                ..
            } => {
                self.cost_usd += cost_usd.unwrap_or(0.0);
                if stamped.is_from_main_agent() && error.is_none() {
                    self.n_tokens = usage.total();
                }
            }
            _ => {}
        }
    }

    pub(super) fn format_line(&self) -> String {
        let mut words = Vec::new();
        if self.n_tokens > 0 {
            let used = format_token_count_short(self.n_tokens);
            words.push(
                match self
                    .window
                    .threshold_tokens(&self.asked)
                    .filter(|limit| *limit > 0)
                {
                    Some(limit) => {
                        let percent = self.n_tokens.saturating_mul(100) / limit;
                        format!(
                            "{used}/{} tokens ({percent} %)",
                            format_token_count_short(limit)
                        )
                    }
                    None => format!("{used} tokens"),
                },
            );
        }
        words.extend(format_dollars(self.cost_usd));
        // Show the mode early in the line, so that it is visible on a narrow screen.
        let style = match (self.switch.mode(), self.is_dry_run) {
            (ApprovalMode::Ask, false) => DIM_STYLE,
            _ => WARNING_STYLE,
        };
        let mut line = style_text(DIM_STYLE, format_args!("{} · ", self.model));
        line.push_str(&style_text(style, self.approval_mode_text()));
        let background = self.background_commands_text();
        if !background.is_empty() {
            line.push_str(&style_text(WARNING_STYLE, format_args!(" · {background}")));
        }
        if !words.is_empty() {
            line.push_str(&style_text(
                DIM_STYLE,
                format_args!(" · {}", words.join(" · ")),
            ));
        }
        if !self.skills.is_empty() {
            let words = format!(" · skill {}", self.skills.join(", "));
            line.push_str(&style_text(PLUGIN_NAME_STYLE, words));
        }
        if !self.holding.is_empty() {
            let names: Vec<&str> = self.holding.iter().map(String::as_str).collect();
            let held = format!(" · held back by {}", names.join(", "));
            line.push_str(&style_text(DIM_STYLE, held));
        }
        for (n, what) in [
            (self.n_left_out, "plugin"),
            (self.n_skills_left_out, "skill"),
        ] {
            if n > 0 {
                let words = format!(" · {} left out", format_count_with_noun(n as u64, what));
                line.push_str(&style_text(WARNING_STYLE, words));
            }
        }
        for (plugin, text) in &self.lines {
            line.push_str(&style_text(DIM_STYLE, " · "));
            line.push_str(&style_text(PLUGIN_NAME_STYLE, escape_to_one_line(plugin)));
            line.push_str(&style_text(DIM_STYLE, format_args!(" {text}")));
        }
        line
    }
}

/// Formats a number of tokens in short form, such as `12k`.
fn format_token_count_short(n: u64) -> String {
    match n {
        n if n < 1_000 => n.to_string(),
        n if n < 10_000 => format!("{:.1}k", n as f64 / 1_000.0),
        n if n < 1_000_000 => format!("{}k", n / 1_000),
        n => format!("{:.1}M", n as f64 / 1_000_000.0),
    }
}
