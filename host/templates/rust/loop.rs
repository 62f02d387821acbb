//! Beats like a heart: counts its runs, and asks for the next one after a pause.
//!
//! A plugin is a module of functions under `#[rind_sdk::plugin]`. The host runs the one marked
//! `#[run_loop]` while `rind serve` runs: again after the pause that it asks for, or after a
//! growing one when it failed. Functions that a loop may use: `.rind-sdk/rust/wit`.

#[rind_sdk::plugin]
mod plugin {
    use std::time::Duration;

    use rind_sdk::prelude::*;

    /// Settings of the operator. `[config]` in plugin.toml declares them, with their defaults.
    #[data]
    struct Settings {
        /// Pause between two runs, in seconds.
        seconds: u64,
    }

    /// Does one run. The instance may be dropped between two runs: lasting data goes into `state`,
    /// or into `store` if it is to outlast the session.
    #[run_loop]
    fn beat() -> Result<LoopOutcome, Error> {
        let settings: Settings = config::all()?;
        let beats = state::get_json::<u64>("beats")?.unwrap_or(0) + 1;
        state::set_json("beats", &beats)?;
        log::info(format_args!("beat {beats}"));
        // `LoopOutcome::Done` would end the loop.
        Ok(LoopOutcome::Again {
            after: Duration::from_secs(settings.seconds),
            reason: format!("beat {beats}"),
        })
    }
}

// `cargo test` runs natively: the SDK stands in for the host.
#[cfg(test)]
mod tests {
    use super::plugin::*;
    use rind_sdk::LoopOutcome;
    use rind_sdk::{serde_json::json, testing};

    #[test]
    fn beats_are_counted() {
        testing::set_config(json!({ "seconds": 5 }));
        let reason = || match __rind_loop().unwrap() {
            LoopOutcome::Again { reason, .. } => reason,
            LoopOutcome::Done => "done".to_owned(),
        };
        assert_eq!([reason(), reason()], ["beat 1", "beat 2"]);
    }
}
