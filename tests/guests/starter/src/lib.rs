//! Asks the person when a session starts, and a command that tells the answer; another one that no check lets pass.

#[rind_sdk::plugin]
mod starter {
    use std::sync::Mutex;

    use rind_sdk::prelude::*;

    static ANSWER: Mutex<String> = Mutex::new(String::new());

    #[hook]
    fn session_start(_session: SessionInfo) {
        let answer = ask::confirm("Begin?", false);
        if let Ok(mut kept) = ANSWER.lock() {
            *kept = format!("{answer:?}");
        }
    }

    /// Tells the answer.
    #[command]
    fn answer() -> String {
        ANSWER.lock().map(|kept| kept.clone()).unwrap_or_default()
    }

    #[args]
    struct Help {
        topic: String,
    }

    /// Helps.
    #[command]
    fn help(args: Help) -> String {
        args.topic
    }
}
