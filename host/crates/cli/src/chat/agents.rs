//! Shows the running subagents below the conversation, each in a line with its state, step, last
//! tool and cost.
//!
//! The module must not know the terminal. Start from [`RunningSubagents::update_from_event`].

use super::super::render::{
    DIM_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE, format_dollars, style_text,
    truncate_to_one_line,
};
use rind_lib::event::{Event, Stamped};

/// Maximum number of subagents that are shown in lines of their own. Further subagents are only
/// counted.
const MAX_SUBAGENT_LINES: usize = 8;

/// Maximum length of the preset, the task or the tool name in a subagent's line, in characters.
const MAX_SUBAGENT_FIELD_CHARS: usize = 48;

/// State of a running subagent, shown in one line.
#[derive(Debug, Default)]
struct RunningSubagentStatus {
    id: String,
    preset: Option<String>,
    task: String,
    step: u32,
    /// Name of the tool that the subagent called last.
    tool: Option<String>,
    cost_usd: f64,
    /// Whether the policy has refused a call of the subagent.
    is_refused: bool,
}

/// Running subagents, in the order in which they started.
#[derive(Debug, Default)]
pub(super) struct RunningSubagents(Vec<RunningSubagentStatus>);

impl RunningSubagents {
    pub(super) fn update_from_event(&mut self, stamped: &Stamped) {
        match &stamped.event {
            Event::SubagentStart {
                subagent,
                preset,
                task,
                ..
            } => self.0.push(RunningSubagentStatus {
                id: subagent.clone(),
                preset: preset
                    .as_deref()
                    .map(|name| truncate_to_one_line(name, MAX_SUBAGENT_FIELD_CHARS)),
                task: truncate_to_one_line(task, MAX_SUBAGENT_FIELD_CHARS),
                ..RunningSubagentStatus::default()
            }),
            Event::SubagentEnd { subagent, .. } => self.0.retain(|own| own.id != *subagent),
            Event::TurnEnd { .. } if stamped.is_from_main_agent() => self.0.clear(),
            _ => {
                let agent = self.0.iter_mut().find(|own| *own.id == *stamped.agent);
                if let Some(agent) = agent {
                    agent.update_from_event(&stamped.event);
                }
            }
        }
    }

    /// Returns a row for each subagent, and a row that counts those beyond [`MAX_SUBAGENT_LINES`].
    pub(super) fn render_rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = self
            .0
            .iter()
            .take(MAX_SUBAGENT_LINES)
            .map(RunningSubagentStatus::format_row)
            .collect();
        if let Some(n_more @ 1..) = self.0.len().checked_sub(MAX_SUBAGENT_LINES) {
            rows.push(style_text(DIM_STYLE, format_args!("◆ {n_more} more")));
        }
        rows
    }
}

impl RunningSubagentStatus {
    fn update_from_event(&mut self, event: &Event) {
        match event {
            Event::StepStart { step } => self.step = *step,
            Event::ToolStart { call, .. } => {
                self.tool = Some(truncate_to_one_line(&call.name, MAX_SUBAGENT_FIELD_CHARS))
            }
            Event::ToolEnd { refused_by, .. } => {
                self.is_refused |= refused_by.as_deref() == Some("policy");
            }
            Event::RequestEnd { cost_usd, .. } => self.cost_usd += cost_usd.unwrap_or_default(),
            _ => {}
        }
    }

    /// Formats the line that shows the subagent.
    ///
    /// For example:
    ///
    /// ```text
    /// ◆ sub-4961a0c2 investigate running · step 3 · read_file · $0.0120 · Find the login
    /// ```
    fn format_row(&self) -> String {
        let mut words = Vec::new();
        if self.step > 0 {
            words.push(format!("step {}", self.step));
        }
        words.extend(self.tool.clone());
        words.extend(format_dollars(self.cost_usd));
        words.push(self.task.clone());
        let preset = self.preset.as_deref().unwrap_or_default();
        let state = match self.is_refused {
            true => style_text(WARNING_STYLE, "running, a call was refused"),
            false => style_text(DIM_STYLE, "running"),
        };
        let blank = if preset.is_empty() { "" } else { " " };
        format!(
            "{} {}{blank}{} {state}{}",
            style_text(SUCCESS_STYLE, "◆"),
            self.id,
            style_text(PLUGIN_NAME_STYLE, preset),
            style_text(DIM_STYLE, format_args!(" · {}", words.join(" · ")))
        )
    }
}
