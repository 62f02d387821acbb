//! A loop that does what its settings say, and counts its runs.

#[rind_sdk::plugin]
mod looper {
    use std::time::Duration;

    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::json;
    use rind_sdk::{agents, tools};

    fn again(ms: u64, reason: impl Into<String>) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_millis(ms),
            reason: reason.into(),
        })
    }

    fn said(result: Result<String, Error>) -> String {
        result.unwrap_or_else(|error| format!("{error:?}"))
    }

    /// Writes a file with a tool.
    fn write(n: u32) -> String {
        let arguments = json!({"path": format!("beat-{n}.txt"), "content": "beat"});
        said(tools::call_json("write_file", &arguments))
    }

    /// Runs subagents as long as it may.
    fn run_agents() -> String {
        for n in 0..10 {
            if let Err(error) = agents::run(&agents::Task::new("Look around.")) {
                return format!("{n} subagents, then {error:?}");
            }
        }
        "10 subagents".to_owned()
    }

    #[run_loop]
    fn run() -> Result<LoopOutcome, Error> {
        let n = state::get_json::<u32>("runs")?.unwrap_or(0) + 1;
        state::set_json("runs", &n)?;
        let how: String = config::get("how")?.unwrap_or_default();
        match how.as_str() {
            "three" if n < 3 => again(0, format!("beat {n}")),
            "done" | "three" => Ok(LoopOutcome::Done),
            "busy" => again(0, format!("beat {n}")),
            "ages" => again(u64::MAX, "until the sun burns out"),
            // Fails twice, is good once, fails once.
            "shaky" if n == 3 => again(0, "better"),
            "shaky" if n > 4 => Ok(LoopOutcome::Done),
            "shaky" | "fail" => Err(Error::Failed("the well is dry\u{1b}[2K".to_owned())),
            "trap" => panic!("it broke"),
            "spin" => loop {
                std::hint::black_box(0);
            },
            "write" => again(0, write(n)),
            "agents" => again(0, run_agents()),
            "ask" => again(
                0,
                said(ask::confirm("Go on?", false).map(|yes| yes.to_string())),
            ),
            "words" => again(
                0,
                format!(
                    "AKIA{} \u{1b}[2K\n{}",
                    "Z7QX3M5R2T6P4WKV",
                    "x".repeat(4_000)
                ),
            ),
            "tell" => {
                (0..900).for_each(|at| status::set(&format!("{at} of run {n}")));
                again(0, "told")
            }
            "leave" => {
                let text = "x".repeat(8_000) + &n.to_string();
                state::set("much", &text)?;
                again(0, "more")
            }
            other => Err(Error::InvalidInput(format!("there is no way {other}"))),
        }
    }
}
