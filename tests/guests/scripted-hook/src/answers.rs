//! Answers of the hooks.

use rind_sdk::prelude::*;
use rind_sdk::serde_json::Value;

/// Settings for one call.
struct Rule(Value);

fn rule(point: &str, shown: &str) -> Result<Rule, Error> {
    let answers: Value = config::get("answers")?.unwrap_or_default();
    let rule = answers[point].clone();
    let is = |key: &str, number: u32| {
        let wanted = rule[key].as_u64();
        wanted.is_none_or(|wanted| wanted == u64::from(number))
    };
    let is_meant = is("turn", caller::turn())
        && is("step", caller::step())
        && is("depth", caller::depth())
        && rule["when"]
            .as_str()
            .is_none_or(|part| shown.contains(part));
    if !is_meant {
        return Ok(Rule(Value::Null));
    }
    match rule["fail"].as_str() {
        Some(why) => Err(Error::Failed(why.to_owned())),
        None => Ok(Rule(rule)),
    }
}

impl Rule {
    fn text(&self, key: &str) -> Option<String> {
        self.0[key].as_str().map(str::to_owned)
    }

    fn list(&self, key: &str) -> Vec<Value> {
        self.0[key].as_array().cloned().unwrap_or_default()
    }

    fn texts(&self, key: &str) -> Vec<String> {
        self.list(key).iter().map(text).collect()
    }

    /// `[text, whether it is kept]`.
    fn inject(&self) -> Vec<Injection> {
        let one = |value: Value| Injection {
            text: text(&value[0]),
            keep: value[1].as_bool().unwrap_or_default(),
        };
        self.list("inject").into_iter().map(one).collect()
    }

    fn parts(&self, key: &str) -> Vec<PromptPart> {
        let one = |value: Value| {
            let tier = match value["tier"].as_str() {
                Some("stable") => Tier::Stable,
                Some("context") => Tier::Context,
                _ => Tier::Volatile,
            };
            PromptPart::new(tier, text(&value["key"]), text(&value["text"]))
        };
        self.list(key).into_iter().map(one).collect()
    }

    fn effects(&self) -> Vec<Effect> {
        let line = |value: &Value| LogLine {
            level: Level::Info,
            text: text(value),
        };
        let one = |value: Value| {
            if value["log"].is_string() {
                Effect::Log(line(&value["log"]))
            } else if value["notify"].is_string() {
                Effect::Notify(line(&value["notify"]))
            } else if value["metric"].is_string() {
                Effect::Metric(Metric {
                    name: text(&value["metric"]),
                    value: 1.0,
                })
            } else {
                Effect::Store(Stored {
                    key: text(&value["store"]),
                    value: "kept".to_owned(),
                })
            }
        };
        self.list("effects").into_iter().map(one).collect()
    }

    fn verdict(&self) -> VerdictChange {
        match (self.text("again"), self.0["done"].as_bool()) {
            (Some(reason), _) => VerdictChange::Again(reason),
            (None, Some(true)) => VerdictChange::Done,
            _ => VerdictChange::Keep,
        }
    }

    fn observed(&self) -> Observed {
        Observed {
            effects: self.effects(),
        }
    }

    fn input(&self) -> InputOutcome {
        InputOutcome {
            text: self.text("text"),
            inject: self.inject(),
            block: self.text("block"),
            effects: self.effects(),
        }
    }

    fn slice(&self) -> SliceOutcome {
        SliceOutcome {
            verdict: match (self.text("cancel"), self.text("summary")) {
                (Some(reason), _) => SliceVerdict::Cancel(reason),
                (None, Some(summary)) => SliceVerdict::Summary(summary),
                (None, None) => SliceVerdict::Pass,
            },
            effects: self.effects(),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the text of a message, with the names of its calls.
fn words(message: &Message) -> String {
    let part = |part: &Content| match part {
        Content::Text(text) | Content::Thinking(text) => text.clone(),
        Content::ToolCall(call) => format!("+{}", call.name),
        Content::Blob(blob) => blob.media_type.clone(),
        Content::ToolResult(result) => result.text(),
    };
    message.content.iter().map(part).collect()
}

/// Answers of hooks that only look at a record or a text.
pub(crate) fn observed(point: &str, shown: &dyn std::fmt::Debug) -> Result<Observed, Error> {
    Ok(rule(point, &format!("{shown:?}"))?.observed())
}

pub(crate) fn turn_start(input: TurnInput) -> Result<InputOutcome, Error> {
    Ok(rule("turn-start", &input.text)?.input())
}

pub(crate) fn pre_assess(input: TurnInput) -> Result<InputOutcome, Error> {
    Ok(rule("pre-assess", &input.text)?.input())
}

pub(crate) fn post_assess(was: Assessment) -> Result<AssessmentOutcome, Error> {
    let rule = rule("post-assess", &was.input)?;
    let assessment = rule.text("decision").map(|decision| Assessment {
        input: was.input,
        decision: match decision.as_str() {
            "ask-first" => Decision::AskFirst,
            "delegate" => Decision::Delegate,
            "plan" => Decision::Plan,
            "parallelize" => Decision::Parallelize,
            _ => Decision::Direct,
        },
        confidence: rule.0["confidence"].as_f64().unwrap_or(was.confidence),
        reasons: rule.texts("reasons"),
    });
    Ok(AssessmentOutcome {
        assessment,
        effects: rule.effects(),
    })
}

pub(crate) fn system_prompt(context: PromptContext) -> Result<PromptOutcome, Error> {
    let rule = rule("system-prompt", &context.model)?;
    Ok(PromptOutcome {
        parts: rule.parts("parts"),
        effects: rule.effects(),
    })
}

pub(crate) fn before_system_prompt(_parts: Vec<PromptPart>) -> Result<PartsOutcome, Error> {
    let rule = rule("before-system-prompt", "")?;
    Ok(PartsOutcome {
        put: rule.parts("put"),
        remove: rule.texts("remove"),
        effects: rule.effects(),
    })
}

/// `text` is put at the end of the prompt.
pub(crate) fn after_system_prompt(prompt: String) -> Result<TextOutcome, Error> {
    let rule = rule("after-system-prompt", &prompt)?;
    Ok(TextOutcome {
        text: rule.text("text").map(|text| format!("{prompt}\n{text}")),
        effects: rule.effects(),
    })
}

/// Messages are named by their place.
pub(crate) fn context(messages: &Conversation) -> Result<ContextOutcome, Error> {
    let rule = rule("context", "")?;
    let mut outcome = ContextOutcome {
        edits: Vec::new(),
        effects: rule.effects(),
    };
    let id = |place: &Value| {
        let place = place.as_u64().and_then(|place| u32::try_from(place).ok());
        let message = place.and_then(|place| messages.message(place));
        message.map_or_else(String::new, |message| message.id)
    };
    for edit in rule.list("edits") {
        outcome = if edit["append"].is_string() {
            outcome.append_message(text(&edit["append"]))
        } else if edit["replace"].is_array() {
            outcome.replace_message(id(&edit["replace"][0]), text(&edit["replace"][1]))
        } else {
            outcome.drop_message(id(&edit["drop"]))
        };
    }
    Ok(outcome)
}

pub(crate) fn pre_reason(request: ModelRequest) -> Result<RequestOutcome, Error> {
    let rule = rule("pre-reason", &request.model)?;
    let is_unset = |key: &str| rule.0[key] == "unset";
    let most = rule.0["max-tokens"].as_u64();
    let most = most.and_then(|most| u32::try_from(most).ok());
    Ok(RequestOutcome {
        model: rule.text("model"),
        temperature: match rule.0["temperature"].as_f64() {
            Some(number) => number.into(),
            None if is_unset("temperature") => FloatChange::Unset,
            None => FloatChange::Keep,
        },
        max_tokens: match most {
            Some(most) => most.into(),
            None if is_unset("max-tokens") => CountChange::Unset,
            None => CountChange::Keep,
        },
        tools: match rule.0["tools"].is_array() {
            true => rule.texts("tools").into(),
            false if is_unset("tools") => NamesChange::Unset,
            false => NamesChange::Keep,
        },
        inject: rule.inject(),
        block: rule.text("block"),
        effects: rule.effects(),
    })
}

/// `body` is a pair: what to look for in the body, and what to put there.
pub(crate) fn before_provider_request(request: &WireRequest) -> Result<WireOutcome, Error> {
    let body = request.text();
    let rule = rule("before-provider-request", &body)?;
    let pair = rule.texts("body");
    let body = match &pair[..] {
        [from, to] => Some(body.replace(from, to)),
        _ => None,
    };
    Ok(WireOutcome {
        body,
        effects: rule.effects(),
    })
}

/// `text` is a pair: what to look for, and what to put there. `keep` holds as long as more follows.
pub(crate) fn output_delta(delta: TextDelta) -> Result<DeltaOutcome, Error> {
    let rule = rule("output-delta", &delta.text)?;
    let pair = rule.texts("text");
    let keep = rule.0["keep"].as_u64().filter(|_| !delta.is_last);
    Ok(DeltaOutcome {
        text: match &pair[..] {
            [from, to] => Some(delta.text.replace(from, to)),
            _ => None,
        },
        keep: keep
            .and_then(|keep| u32::try_from(keep).ok())
            .unwrap_or_default(),
        stop: rule.text("stop"),
        effects: rule.effects(),
    })
}

pub(crate) fn after_provider_response(response: &WireResponse) -> Result<Observed, Error> {
    Ok(rule("after-provider-response", &response.text())?.observed())
}

pub(crate) fn post_reason(message: Message) -> Result<ReplyOutcome, Error> {
    let rule = rule("post-reason", &words(&message))?;
    Ok(ReplyOutcome {
        text: rule.text("text"),
        inject: rule.inject(),
        block: rule.text("block"),
        effects: rule.effects(),
    })
}

/// `change` is the new arguments as JSON text.
pub(crate) fn pre_tool(call: ProposedCall) -> Result<CallOutcome, Error> {
    let rule = rule("pre-tool", &call.call.name)?;
    let verdict = if let Some(arguments) = rule.text("change") {
        CallVerdict::Change(arguments)
    } else if let Some(reason) = rule.text("ask") {
        CallVerdict::Ask(reason)
    } else if let Some(reason) = rule.text("block") {
        CallVerdict::Block(reason)
    } else {
        CallVerdict::Pass
    };
    Ok(CallOutcome {
        verdict,
        note: rule.text("note"),
        effects: rule.effects(),
    })
}

pub(crate) fn post_tool(call: &FinishedCall) -> Result<ResultOutcome, Error> {
    let rule = rule("post-tool", &call.call().name)?;
    Ok(ResultOutcome {
        content: rule.text("content").map(|text| vec![Part::Text(text)]),
        is_error: rule.0["is-error"].as_bool(),
        inject: rule.inject(),
        effects: rule.effects(),
    })
}

pub(crate) fn steering_received(input: TurnInput) -> Result<SteeringOutcome, Error> {
    let rule = rule("steering-received", &input.text)?;
    Ok(SteeringOutcome {
        action: match (rule.text("replace"), rule.text("drop")) {
            (Some(text), _) => SteeringAction::Replace(text),
            (None, Some(reason)) => SteeringAction::Drop(reason),
            (None, None) => SteeringAction::Pass,
        },
        inject: rule.inject(),
        effects: rule.effects(),
    })
}

pub(crate) fn pre_reflect(reflection: Reflection) -> Result<ReflectionOutcome, Error> {
    let rule = rule("pre-reflect", &reflection.draft)?;
    Ok(ReflectionOutcome {
        draft: rule.text("draft"),
        criteria: rule.texts("criteria"),
        verdict: rule.verdict(),
        effects: rule.effects(),
    })
}

pub(crate) fn post_reflect(verdict: ReflectVerdict) -> Result<VerdictOutcome, Error> {
    let rule = rule("post-reflect", &verdict.draft)?;
    Ok(VerdictOutcome {
        verdict: rule.verdict(),
        effects: rule.effects(),
    })
}

pub(crate) fn pre_output(output: String) -> Result<OutputOutcome, Error> {
    let rule = rule("pre-output", &output)?;
    Ok(OutputOutcome {
        text: rule.text("text"),
        block: rule.text("block"),
        effects: rule.effects(),
    })
}

pub(crate) fn before_compact(slice: &Slice) -> Result<SliceOutcome, Error> {
    Ok(rule("before-compact", &slice.reason())?.slice())
}

pub(crate) fn after_compact(slice: &Slice) -> Result<Observed, Error> {
    Ok(rule("after-compact", &slice.summary())?.observed())
}

pub(crate) fn before_archive(slice: &Slice) -> Result<SliceOutcome, Error> {
    Ok(rule("before-archive", &slice.reason())?.slice())
}

pub(crate) fn after_archive(slice: &Slice) -> Result<Observed, Error> {
    Ok(rule("after-archive", &slice.summary())?.observed())
}
