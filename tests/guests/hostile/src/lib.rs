//! Misbehaves in the way its settings name: the same code at a gate, at a mutate point and in a tool.

#[rind_sdk::plugin]
mod hostile {
    use rind_sdk::prelude::*;
    use std::hint::black_box;

    /// Does what the settings say, and comes back with something to return if it comes back at all.
    fn misbehave() -> Result<String, Error> {
        let how: String = config::get("how")?.unwrap_or_default();
        match how.as_str() {
            "loop" => loop {
                black_box(());
            },
            "trap" => panic!("broken on purpose"),
            "recurse" => Ok(recurse(1).to_string()),
            "grow" => {
                let mut kept = Vec::new();
                loop {
                    kept.push(black_box(vec![7_u8; 1 << 20]));
                }
            }
            // Half of it fits the guest's memory, the whole is over what may come out in one call.
            "huge-string" => Ok("x".repeat(40 << 20)),
            "hundred-megabytes" => Ok("x".repeat(100 << 20)),
            "sleep" => {
                std::thread::sleep(std::time::Duration::from_secs(3600));
                Ok(String::new())
            }
            "nap" => {
                std::thread::sleep(std::time::Duration::from_millis(500));
                Ok("behaved".to_owned())
            }
            "exit" => std::process::exit(3),
            "state-bomb" => {
                for n in 0.. {
                    state::set(&format!("key-{n}"), &"x".repeat(1 << 20))?;
                }
                Ok(String::new())
            }
            "log-bomb" => {
                for _ in 0..5_000 {
                    log::info("line\nforged: \u{1b}[31mred\u{202e}");
                }
                Ok(String::new())
            }
            "error" => Err(Error::Failed("\u{1b}[2Jnot today".to_owned())),
            "environment" => {
                let variables: Vec<_> = std::env::vars().collect();
                let arguments: Vec<_> = std::env::args().collect();
                let folder = std::fs::read_dir("/")
                    .map(Iterator::count)
                    .map_err(|e| e.kind());
                let passwd = std::fs::read("/etc/passwd")
                    .map_err(|e| e.kind())
                    .map(|_| ());
                Ok(format!("{variables:?} {arguments:?} {folder:?} {passwd:?}"))
            }
            "chatter" => {
                for n in 0..1000 {
                    eprintln!("line {n} of what nobody reads");
                }
                Ok("behaved".to_owned())
            }
            // How often this instance was asked, from its own memory: tells a warm instance from a fresh one.
            "count" => {
                use std::sync::atomic::{AtomicU32, Ordering};
                static ASKED: AtomicU32 = AtomicU32::new(0);
                Ok((ASKED.fetch_add(1, Ordering::Relaxed) + 1).to_string())
            }
            _ => Ok("behaved".to_owned()),
        }
    }

    fn recurse(n: u64) -> u64 {
        let frame = black_box([n; 64]);
        if black_box(n) == 0 {
            0
        } else {
            recurse(frame[0] + 1) + frame[1]
        }
    }

    #[hook]
    fn pre_tool(_call: ProposedCall) -> Result<CallOutcome, Error> {
        Ok(CallOutcome::pass().with_note(misbehave()?))
    }

    #[hook]
    fn post_tool(_call: &FinishedCall) -> Result<ResultOutcome, Error> {
        Ok(ResultOutcome::replace(misbehave()?))
    }

    /// Misbehaves.
    #[tool(effect = "read")]
    fn misbehaving() -> Result<String, Error> {
        misbehave()
    }
}
