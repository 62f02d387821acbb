//! Exports a session as a trajectory in the Agent Trajectory Interchange Format, version 1.7, which
//! tools for evaluation and training read.
//!
//! Converts turns to steps: one for each text of a person or a plugin, one for each answer of
//! the model with its calls and their results, and one for each request that a plugin's loop sent
//! outside the conversation. Secrets are masked; texts are otherwise unchanged. Trajectories of
//! subagents and archived turns are nested in the trajectory of their session. Start from
//! [`build_trajectory`].

use std::collections::BTreeSet;

use rind_lib::message::{Role, Usage};
use rind_lib::secret::mask_secrets_in_json;
use rind_lib::session::{CallView, SessionView, TurnEventContent, TurnView};
use serde_json::{Map, Value, json};

/// Version of the ATIF format that is written: the first that nests trajectories of subagents.
const ATIF_FORMAT_VERSION: &str = "ATIF-v1.7";

/// Returns the trajectory of the first view, with the trajectories of the other views nested in it;
/// `None` if the first view is empty.
pub(super) fn build_trajectory(views: &[SessionView]) -> Option<Value> {
    let (view, below) = views.split_first()?;
    let mut whole = build_unmasked_trajectory(view, below)?;
    mask_secrets_in_json(&mut whole, &mut BTreeSet::new());
    Some(whole)
}

/// Creates the trajectory of a session's view, without masking secrets. `all` contains the views of
/// the session's subagents, and may contain other views.
fn build_unmasked_trajectory(view: &SessionView, all: &[SessionView]) -> Option<Value> {
    let direct = all
        .iter()
        .filter(|own| is_direct_child_id(&view.id, &own.id));
    let below: Vec<(&str, Value)> = direct
        .filter_map(|child| Some((child.id.as_str(), build_unmasked_trajectory(child, all)?)))
        .collect();
    let mut steps = TrajectorySteps::new(view, below.iter().map(|(id, _)| *id).collect());
    view.turns.iter().for_each(|turn| steps.add_turn(turn));
    let steps = steps.into_numbered_steps();
    if steps.is_empty() {
        return None;
    }
    let mut whole = json!({
        "schema_version": ATIF_FORMAT_VERSION,
        "session_id": view.id.split('/').next(),
        "trajectory_id": view.id,
        "agent": {
            "name": "rind",
            "version": env!("CARGO_PKG_VERSION"),
            "model_name": &view.model,
            "extra": { "provider": &view.provider, "workspace": &view.workspace },
        },
        "final_metrics": build_final_trajectory_metrics(view, steps.len()),
        "steps": steps,
    });
    if !below.is_empty() {
        let below: Vec<Value> = below.into_iter().map(|(_, child)| child).collect();
        whole["subagent_trajectories"] = Value::from(below);
    }
    if let Some(title) = &view.title {
        whole["notes"] = Value::from(title.as_str());
    }
    Some(whole)
}

fn is_direct_child_id(above: &str, id: &str) -> bool {
    let below = id
        .strip_prefix(above)
        .and_then(|rest| rest.strip_prefix("/agents/"));
    below.is_some_and(|agent| !agent.contains('/'))
}

fn build_final_trajectory_metrics(view: &SessionView, n_steps: usize) -> Value {
    let mut total = Usage::default();
    let mut cost = 0.0;
    for turn in &view.turns {
        total += turn.usage;
        cost += turn.cost_usd;
    }
    json!({
        "total_prompt_tokens": total.input_tokens,
        "total_completion_tokens": total.output_tokens,
        "total_cached_tokens": total.cache_read_tokens,
        "total_cost_usd": cost,
        "total_steps": n_steps,
    })
}

/// Steps of a trajectory, in the order of the session.
struct TrajectorySteps<'a> {
    steps: Vec<Map<String, Value>>,
    /// Whether the last step is an agent's step, to which further tool calls are added.
    is_open: bool,
    /// Model and metrics of a request for which no step was added yet.
    request: Option<(String, Value)>,
    session: &'a str,
    /// Session ids of the subagents whose trajectories are nested in this one.
    known: Vec<&'a str>,
}

impl<'a> TrajectorySteps<'a> {
    fn new(view: &'a SessionView, known: Vec<&'a str>) -> Self {
        Self {
            steps: Vec::new(),
            is_open: false,
            request: None,
            session: &view.id,
            known,
        }
    }

    fn into_numbered_steps(self) -> Vec<Value> {
        let numbered = |(at, mut step): (usize, Map<String, Value>)| {
            step.insert("step_id".to_owned(), Value::from(at + 1));
            Value::Object(step)
        };
        self.steps.into_iter().enumerate().map(numbered).collect()
    }

    fn push(&mut self, source: &str, time: i64, message: &str, turn: &TurnView) {
        let mut step = Map::new();
        step.insert("source".to_owned(), Value::from(source));
        if let Ok(time) = jiff::Timestamp::from_millisecond(time) {
            step.insert("timestamp".to_owned(), Value::from(time.to_string()));
        }
        step.insert("message".to_owned(), Value::from(message));
        let mut extra = json!({ "turn": turn.turn });
        if turn.is_undone {
            extra["undone"] = Value::from(true);
        }
        step.insert("extra".to_owned(), extra);
        self.is_open = source == "agent";
        if let Some((model, metrics)) = self.request.take_if(|_| source == "agent") {
            step.insert("metrics".to_owned(), metrics);
            step.insert("model_name".to_owned(), Value::from(model));
            step.insert("llm_call_count".to_owned(), Value::from(1));
        }
        self.steps.push(step);
    }

    /// Returns the open step of the agent; if there is none, adds one without text of the model.
    fn get_or_insert_open_agent_step(
        &mut self,
        time: i64,
        turn: &TurnView,
    ) -> Option<&mut Map<String, Value>> {
        if !self.is_open {
            self.push("agent", time, "", turn);
        }
        self.steps.last_mut()
    }

    fn add_turn(&mut self, turn: &TurnView) {
        let is_said = turn.items.iter().any(|view| {
            matches!(&view.item, TurnEventContent::Said { role: Role::User, by: None, text, .. } if *text == turn.input)
        });
        self.is_open = false;
        if !is_said && !turn.input.is_empty() {
            self.push("user", turn.started, &turn.input, turn);
        }
        for view in &turn.items {
            match &view.item {
                TurnEventContent::Said {
                    role: Role::Assistant,
                    text,
                    reasoning,
                    ..
                } => {
                    self.push("agent", view.time, text, turn);
                    if let Some(step) = self.steps.last_mut().filter(|_| !reasoning.is_empty()) {
                        let reasoning = Value::from(reasoning.join("\n\n"));
                        step.insert("reasoning_content".to_owned(), reasoning);
                    }
                }
                TurnEventContent::Said {
                    role: Role::User,
                    by,
                    text,
                    ..
                } => {
                    let source = if by.is_some() { "system" } else { "user" };
                    self.push(source, view.time, text, turn);
                    if let (Some(by), Some(step)) = (by, self.steps.last_mut()) {
                        step["extra"]["by"] = Value::from(by.as_str());
                    }
                }
                TurnEventContent::Call(call) => self.add_call(call, view.time, turn),
                TurnEventContent::Step {
                    model,
                    usage,
                    cost_usd,
                    aside,
                    ..
                } => {
                    self.add_unanswered_request(view.time, turn);
                    self.hold_request_metrics_for_next_step(model, usage, *cost_usd);
                    if let Some(by) = aside {
                        self.add_step_for_plugin_loop_request(by, view.time, turn);
                    }
                }
                TurnEventContent::Subagent { agent, answer, .. } => {
                    self.add_subagent(agent, answer.as_deref(), view.time, turn);
                }
                TurnEventContent::Replaced { summary, .. } if !summary.is_empty() => {
                    self.push("system", view.time, summary, turn);
                }
                _ => {}
            }
        }
        self.add_unanswered_request(turn.started, turn);
    }

    /// Adds an empty step for a request whose answer has no step, so that the cost of the request
    /// is exported too.
    fn add_unanswered_request(&mut self, time: i64, turn: &TurnView) {
        if self.request.is_some() {
            self.push("agent", time, "", turn);
        }
    }

    /// Adds the step of a request outside the conversation, made by the loop of the plugin `by`.
    /// Such a step has neither a message nor calls.
    fn add_step_for_plugin_loop_request(&mut self, by: &str, time: i64, turn: &TurnView) {
        self.push("agent", time, "", turn);
        self.is_open = false;
        if let Some(step) = self.steps.last_mut() {
            step["extra"]["aside"] = Value::from(by);
        }
    }

    fn add_call(&mut self, call: &CallView, time: i64, turn: &TurnView) {
        let Some(step) = self.get_or_insert_open_agent_step(time, turn) else {
            return;
        };
        let arguments = match &call.arguments {
            arguments @ Value::Object(_) => arguments.clone(),
            other => json!({ "arguments": other }),
        };
        let mut entry = json!({
            "tool_call_id": call.id,
            "function_name": &call.tool,
            "arguments": arguments,
        });
        if let Some(by) = &call.by {
            entry["extra"] = json!({ "by": by });
        }
        push_to_named_list(step, "tool_calls", entry);
        if let Some(result) = &call.result {
            let mut result = json!({ "source_call_id": call.id, "content": result });
            if call.is_error {
                result["extra"] = json!({ "is_error": true });
            }
            push_tool_result(step, result);
        }
    }

    /// Stores the metrics of a request until the step of its answer is added.
    fn hold_request_metrics_for_next_step(
        &mut self,
        model: &str,
        usage: &Usage,
        cost_usd: Option<f64>,
    ) {
        let mut metrics = json!({
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cache_read_tokens,
        });
        if let Some(cost) = cost_usd {
            metrics["cost_usd"] = Value::from(cost);
        }
        if usage.estimated {
            metrics["extra"] = json!({ "estimated": true });
        }
        self.request = Some((model.to_owned(), metrics));
        self.is_open = false;
    }

    fn add_subagent(&mut self, agent: &str, answer: Option<&str>, time: i64, turn: &TurnView) {
        let id = format!("{}/agents/{agent}", self.session);
        let is_known = self.known.contains(&id.as_str());
        let Some(step) = self.get_or_insert_open_agent_step(time, turn) else {
            return;
        };
        let mut result = json!({ "content": answer.unwrap_or_default() });
        if is_known {
            result["subagent_trajectory_ref"] = json!([{ "trajectory_id": id }]);
        }
        push_tool_result(step, result);
    }
}

fn push_to_named_list(step: &mut Map<String, Value>, list: &str, entry: Value) {
    let list = step.entry(list).or_insert_with(|| json!([]));
    if let Value::Array(list) = list {
        list.push(entry);
    }
}

fn push_tool_result(step: &mut Map<String, Value>, result: Value) {
    let observation = step
        .entry("observation")
        .or_insert_with(|| json!({ "results": [] }));
    if let Some(Value::Array(results)) = observation.get_mut("results") {
        results.push(result);
    }
}
