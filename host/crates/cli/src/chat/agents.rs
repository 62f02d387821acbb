//! Shows the running subagents below the conversation, each in a line with its state, step, last
//! tool and cost.
//!
//! The module must not know the terminal. Start from [`RunningAgents::handle_event`].

use super::super::render::{DIM, GOOD, PLUGIN, WARN, format_dollars, one_line, style_text};
use rind_lib::event::{Event, Stamped};

/// Maximum number of subagents that are shown in lines of their own. Further subagents are only
/// counted.
const MAX_LINES: usize = 8;

/// Maximum length of the preset, the task or the tool name in a subagent's line, in characters.
const MAX_WORD_CHARS: usize = 48;

/// State of a running subagent, shown in one line.
#[derive(Debug, Default)]
struct SubagentLine {
    id: String,
    preset: Option<String>,
    task: String,
    step: u32,
    /// Name of the tool whose call started last.
    tool: Option<String>,
    cost_usd: f64,
    /// Whether the policy refused a call of the subagent.
    is_refused: bool,
}

/// Running subagents, in the order in which they started.
#[derive(Debug, Default)]
pub(super) struct RunningAgents(Vec<SubagentLine>);

impl RunningAgents {
    pub(super) fn handle_event(&mut self, stamped: &Stamped) {
        match &stamped.event {
            Event::SubagentStart {
                subagent,
                preset,
                task,
                ..
            } => self.0.push(SubagentLine {
                id: subagent.clone(),
                preset: preset.as_deref().map(|name| one_line(name, MAX_WORD_CHARS)),
                task: one_line(task, MAX_WORD_CHARS),
                ..SubagentLine::default()
            }),
            Event::SubagentEnd { subagent, .. } => self.0.retain(|own| own.id != *subagent),
            Event::TurnEnd { .. } if stamped.is_main() => self.0.clear(),
            _ => {
                let agent = self.0.iter_mut().find(|own| *own.id == *stamped.agent);
                if let Some(agent) = agent {
                    agent.update_from_event(&stamped.event);
                }
            }
        }
    }

    /// Returns a row for each subagent, and a row that counts those beyond [`MAX_LINES`].
    pub(super) fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = self
            .0
            .iter()
            .take(MAX_LINES)
            .map(SubagentLine::row)
            .collect();
        if let Some(n_more @ 1..) = self.0.len().checked_sub(MAX_LINES) {
            rows.push(style_text(DIM, format_args!("◆ {n_more} more")));
        }
        rows
    }
}

impl SubagentLine {
    fn update_from_event(&mut self, event: &Event) {
        match event {
            Event::StepStart { step } => self.step = *step,
            Event::ToolStart { call, .. } => self.tool = Some(one_line(&call.name, MAX_WORD_CHARS)),
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
    fn row(&self) -> String {
        let mut words = Vec::new();
        if self.step > 0 {
            words.push(format!("step {}", self.step));
        }
        words.extend(self.tool.clone());
        words.extend(format_dollars(self.cost_usd));
        words.push(self.task.clone());
        let preset = self.preset.as_deref().unwrap_or_default();
        let state = match self.is_refused {
            true => style_text(WARN, "running, a call was refused"),
            false => style_text(DIM, "running"),
        };
        let blank = if preset.is_empty() { "" } else { " " };
        format!(
            "{} {}{blank}{} {state}{}",
            style_text(GOOD, "◆"),
            self.id,
            style_text(PLUGIN, preset),
            style_text(DIM, format_args!(" · {}", words.join(" · ")))
        )
    }
}
