//! Looks at every tool call before it is made, and refuses those that touch secret files.
//!
//! A plugin is a module of functions under `#[rind_sdk::plugin]`. The name of a hook is its point,
//! here `pre-tool`; a wrong name or a wrong type is a compile error that names the expected one.
//! Points and their permitted changes: `.rind-sdk/rust/wit`.

#[rind_sdk::plugin]
mod plugin {
    use rind_sdk::prelude::*;

    /// Settings of the operator. `[config]` in plugin.toml declares them, with their defaults.
    #[data]
    struct Settings {
        /// Parts of paths: a call whose arguments contain one of them is refused.
        secret: Vec<String>,
    }

    /// Called before each tool call. The instance may be dropped between two calls: lasting data
    /// goes into `state`.
    #[hook]
    fn pre_tool(call: ProposedCall) -> Result<CallOutcome, Error> {
        let settings: Settings = config::all()?;
        let arguments = &call.call.arguments;
        let mut parts = settings.secret.iter();
        Ok(match parts.find(|part| arguments.contains(*part)) {
            Some(part) => CallOutcome::block(format!("paths with `{part}` are secret")),
            None => CallOutcome::pass(),
        })
    }
}

// `cargo test` runs natively: the SDK stands in for the host.
#[cfg(test)]
mod tests {
    use super::plugin::*;
    use rind_sdk::prelude::*;
    use rind_sdk::{serde_json::json, testing};

    #[test]
    fn calls_with_secret_paths_are_refused_and_others_are_not() {
        testing::set_config(json!({ "secret": [".env"] }));
        let judge = |path: &str| {
            let call = testing::proposed_call("read_file", json!({ "path": path }));
            __rind_hook_pre_tool(call).unwrap().verdict
        };
        assert!(matches!(judge("app/.env"), CallVerdict::Block(_)));
        assert!(matches!(judge("README.md"), CallVerdict::Pass));
    }
}
