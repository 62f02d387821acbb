//! Asks models, calls tools and runs subagents as its arguments or settings say: from a tool, at a gate and after the output.

#[rind_sdk::plugin]
mod external {
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::Value;
    use rind_sdk::{agents, model, tools};

    /// Action.
    #[args]
    struct Act {
        /// `ask`, `call`, `run`, or `side` for two subagents side by side.
        what: String,
        /// The prompt, the name of the tool, or that of a preset.
        text: String,
        /// Arguments of the tool.
        arguments: Option<Value>,
        /// Tools of the subagent.
        tools: Option<Vec<String>>,
        /// The model to ask.
        model: Option<String>,
        /// Most tokens, or most steps.
        limit: Option<u32>,
        /// Number of times; once when not given.
        times: Option<u32>,
        /// Condition at a gate: only for calls whose arguments contain this.
        when: Option<String>,
    }

    /// Does it once. What came of it begins with `ok` or the kind of the error.
    fn once(act: &Act) -> String {
        let result = match act.what.as_str() {
            "ask" => {
                let mut question = model::Question::new(act.text.as_str());
                question.model.clone_from(&act.model);
                question.max_tokens = act.limit.unwrap_or(question.max_tokens);
                model::ask(&question).map(|reply| {
                    format!(
                        "{} ({} tokens)",
                        reply.text,
                        reply.usage.input_tokens + reply.usage.output_tokens
                    )
                })
            }
            "call" => tools::call_json(&act.text, &act.arguments),
            "side" => side_by_side(&act.text),
            _ => {
                let mut task = agents::Task::new(act.text.as_str());
                task.tools = act.tools.clone().unwrap_or_default();
                task.max_steps = act.limit.unwrap_or(task.max_steps);
                agents::run(&task)
            }
        };
        match result {
            Ok(text) => format!("ok: {text}"),
            Err(Error::InvalidInput(text)) => format!("invalid-input: {text}"),
            Err(Error::NotFound(text)) => format!("not-found: {text}"),
            Err(Error::Denied(text)) => format!("denied: {text}"),
            Err(Error::Limit(text)) => format!("limit: {text}"),
            Err(Error::Failed(text)) => format!("failed: {text}"),
        }
    }

    /// Runs two subagents of a preset side by side, continues the first and stops the second.
    fn side_by_side(preset: &str) -> Result<String, Error> {
        let mut ids = Vec::new();
        for task in ["Look into a.txt", "Look into b.txt"] {
            ids.push(agents::start(&agents::Order::new(preset, task))?);
        }
        let mut reports = agents::wait(&ids, 10_000)?;
        agents::resume(&ids[0], "And now?")?;
        reports.extend(agents::wait(&ids[..1], 10_000)?);
        reports.push(agents::stop(&ids[1])?);
        let lines = reports.into_iter().map(|report| {
            assert!(ids.contains(&report.id));
            format!("{}: {}", report.state, report.answer)
        });
        let presets = agents::presets()?.into_iter().map(|preset| preset.name);
        Ok(lines.chain(presets).collect::<Vec<_>>().join("; "))
    }

    fn all(act: &Act) -> String {
        let results: Vec<String> = (0..act.times.unwrap_or(1)).map(|_| once(act)).collect();
        results.join("\n")
    }

    /// Does what the arguments say.
    #[tool(effect = "external")]
    fn act(args: Act) -> String {
        all(&args)
    }

    #[hook]
    fn pre_tool(call: ProposedCall) -> Result<CallOutcome, Error> {
        let act: Option<Act> = config::get("pre-tool")?;
        let is_meant = |act: &Act| {
            let when = act.when.as_deref().unwrap_or_default();
            call.call.arguments.contains(when)
        };
        Ok(match act.filter(is_meant) {
            Some(act) => CallOutcome::pass().with_note(all(&act)),
            None => CallOutcome::pass(),
        })
    }

    #[hook]
    fn post_tool(_call: &FinishedCall) -> ResultOutcome {
        ResultOutcome::default()
    }

    #[hook]
    fn before_provider_request(_request: &WireRequest) -> WireOutcome {
        WireOutcome::default()
    }

    #[hook]
    fn post_output(_text: String) -> Result<Observed, Error> {
        if let Some(act) = config::get::<Act>("post-output")? {
            state::set("post-output", &all(&act))?;
        }
        Ok(Observed::default())
    }

    #[hook]
    fn subagent_start(_agent: SubagentInfo) {}

    #[hook]
    fn subagent_end(_agent: SubagentInfo) {}
}
