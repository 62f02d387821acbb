//! Steers tool calls by what is called, and by who calls: the import `caller` says which agent it
//! is and what its turn has done.

#[rind_sdk::plugin]
mod plugin {
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::{Map, Value};

    #[data]
    struct Settings {
        generated: Vec<String>,
        lines: u32,
        calls: u32,
    }

    #[hook]
    fn pre_tool(call: ProposedCall) -> Result<CallOutcome, Error> {
        let settings: Settings = config::all()?;
        let reads = call.effect_class == EffectClass::Read;
        if caller::depth() > 0 && !reads {
            return Ok(CallOutcome::block(format!(
                "subagents only read; tell in your answer what {} should do",
                call.call.name
            )));
        }
        let mut arguments: Map<String, Value> = call.call.parse()?;
        let path = arguments
            .get("path")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !reads
            && settings
                .generated
                .iter()
                .any(|start| path.starts_with(start))
        {
            return Ok(CallOutcome::block(format!(
                "`{path}` is generated; change what it is made from"
            )));
        }
        let calls = caller::tool_calls();
        if calls >= settings.calls {
            return Ok(CallOutcome::ask(format!(
                "the turn has already made {calls} of {} calls",
                settings.calls
            )));
        }
        if call.call.name == "read_file" && !arguments.contains_key("limit") {
            arguments.insert("limit".to_owned(), settings.lines.into());
            let note = format!(
                "{} lines were read; `limit` and `offset` read others",
                settings.lines
            );
            return Ok(CallOutcome::change(Value::Object(arguments).to_string()).with_note(note));
        }
        Ok(CallOutcome::pass())
    }
}

#[cfg(test)]
mod tests {
    use super::plugin::*;
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::json;
    use rind_sdk::testing::{self, Caller};

    /// Cases cannot start subagents, so this is tested natively.
    #[test]
    fn subagents_only_read() {
        testing::set_config(json!({ "generated": [], "lines": 10, "calls": 10 }));
        let judge = |depth: u32, effect_class: EffectClass| {
            testing::set_caller(Caller {
                depth,
                ..Caller::default()
            });
            let call = ProposedCall {
                effect_class,
                ..testing::proposed_call("write_file", json!({ "path": "a" }))
            };
            __rind_hook_pre_tool(call).unwrap().verdict
        };
        assert!(matches!(
            judge(1, EffectClass::Write),
            CallVerdict::Block(_)
        ));
        assert!(matches!(judge(1, EffectClass::Read), CallVerdict::Pass));
        assert!(matches!(judge(0, EffectClass::Write), CallVerdict::Pass));
    }
}
