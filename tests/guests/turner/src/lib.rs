//! A loop that waits and runs turns as its settings say, and a tool and a hook that try to.

#[rind_sdk::plugin]
mod turner {
    use std::time::{Duration, Instant};

    use rind_sdk::prelude::*;
    use rind_sdk::turns::{TurnOrder, TurnReport, TurnSession};
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    fn again(reason: impl Into<String>) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_secs(3600),
            reason: reason.into(),
        })
    }

    fn said<T>(result: Result<T, Error>, show: impl FnOnce(T) -> String) -> String {
        match result {
            Ok(value) => show(value),
            Err(error) => format!("{error:?}"),
        }
    }

    fn shown(report: TurnReport) -> String {
        format!(
            "{} {} {}: {}",
            report.turn, report.state, report.steps, report.answer
        )
    }

    fn turn(order: &TurnOrder) -> String {
        said(turns::run(order), shown)
    }

    fn woken(until: &WakeConditions) -> String {
        said(waiting::wait(until), |wakeup| match wakeup {
            Wakeup::Timer => "timer".to_owned(),
            Wakeup::Changed(path) => format!("changed {path}"),
            Wakeup::Message(message) => format!("{}: {}", message.sender, message.text),
            Wakeup::Shutdown => "shutdown".to_owned(),
            Wakeup::Connection(number) => format!("connection {number}"),
        })
    }

    fn seconds(n: u64) -> WakeConditions {
        WakeConditions::new().timeout(Duration::from_secs(n))
    }

    fn existing(id: &str) -> TurnOrder {
        TurnOrder {
            session: TurnSession::Existing(id.to_owned()),
            ..TurnOrder::new("hello")
        }
    }

    /// Runs turns until it is refused.
    fn flood() -> String {
        for n in 0..100 {
            if let Err(error) = turns::run(&TurnOrder::new("hello").in_session("flood")) {
                return format!("{n} turns, then {error:?}");
            }
        }
        "100 turns".to_owned()
    }

    /// Starts turns until it is refused, the last one in a session in which one runs.
    fn start_many() -> String {
        let same = TurnOrder::new("hello").in_session("same");
        let first = said(turns::start(&same), |_| "started".to_owned());
        let second = said(turns::start(&same), |_| "started".to_owned());
        let mut n = 1;
        let refused = loop {
            match turns::start(&TurnOrder::new("hello")) {
                Ok(_) => n += 1,
                Err(error) => break error,
            }
        };
        let running = turns::running().map_or(0, |running| running.len());
        format!("{first}; {second}; {n} started, then {refused:?}; {running} run")
    }

    /// Waits for messages and answers them with turns until the host ends.
    fn listen() -> Result<LoopOutcome, Error> {
        let until = WakeConditions::new().message();
        loop {
            match waiting::wait(&until)? {
                Wakeup::Message(message) => {
                    let order = TurnOrder::new(message.text).in_session("inbox");
                    log::info(format_args!("{}", turn(&order)));
                }
                Wakeup::Shutdown => return Ok(LoopOutcome::Done),
                _ => {}
            }
        }
    }

    #[run_loop]
    fn run() -> Result<LoopOutcome, Error> {
        let how: String = config::get("how")?.unwrap_or_default();
        let (how, what) = how.split_once(' ').unwrap_or((&how, ""));
        match how {
            "done" => Ok(LoopOutcome::Done),
            "turn" => again(turn(&TurnOrder::new("hello"))),
            "named" => {
                let order = TurnOrder::new("hello").in_session(what);
                again(format!("{} | {}", turn(&order), turn(&order)))
            }
            "once" => {
                let order = TurnOrder::new("hello").in_session("once").input_id("one");
                again(format!("{} | {}", turn(&order), turn(&order)))
            }
            "preset" => again(turn(&TurnOrder::new("hello").preset(what))),
            "model" => again(turn(&TurnOrder::new("hello").model(what))),
            "existing" => again(turn(&existing(what))),
            "flood" => again(flood()),
            "many" => again(start_many()),
            "stop" => {
                let session = turns::start(&TurnOrder::new("hello"))?;
                let still = turns::finish(&session, 300)?.is_none();
                let was = turns::stop(&session)?;
                let report = said(turns::finish(&session, 20_000), |report| {
                    report.map_or("no report".to_owned(), shown)
                });
                let twice = said(turns::finish(&session, 10), |_| "again".to_owned());
                again(format!("{still} {was} | {report} | {twice}"))
            }
            // Longer than the deadline of the run.
            "sleep" => again(woken(&seconds(4))),
            "watch" => {
                let until = seconds(20).change_of(what);
                let (first, second) = (woken(&until), woken(&until));
                again(format!("{first} | {second}"))
            }
            "paths" => {
                let many = (0..9).map(|n| format!("workspace/watched/{n}"));
                again(woken(&many.fold(seconds(1), WakeConditions::change_of)))
            }
            // Waits as shortly as it may.
            "busy" => {
                let started = Instant::now();
                let until = WakeConditions::new().timeout(Duration::ZERO);
                (0..50).for_each(|_| drop(waiting::wait(&until)));
                again(format!(
                    "{}",
                    started.elapsed() >= Duration::from_millis(500)
                ))
            }
            "forever" => match waiting::wait(&WakeConditions::new())? {
                Wakeup::Shutdown => Ok(LoopOutcome::Done),
                _ => Err(Error::Failed("woken".to_owned())),
            },
            // Does not heed the end of the host.
            "deaf" => loop {
                let _ = waiting::wait(&seconds(3600));
            },
            "waits-in-turn" => {
                let report = turn(&TurnOrder::new("hello").in_session("long"));
                let then = woken(&seconds(10));
                store::set("end", &format!("{report} | {then}"))?;
                Ok(LoopOutcome::Done)
            }
            "leave" => {
                turns::start(&TurnOrder::new("hello").in_session("left"))?;
                again("left a turn")
            }
            "listen" => listen(),
            other => Err(Error::InvalidInput(format!("there is no way {other}"))),
        }
    }

    /// Tries what only the loop may do.
    #[tool(effect = "read")]
    fn try_turns() -> String {
        format!(
            "{} / {}",
            woken(&seconds(1)),
            turn(&TurnOrder::new("hello"))
        )
    }

    #[hook]
    fn turn_end(_turn: TurnSummary) {
        log::info(format_args!("hook: {}", woken(&seconds(1))));
    }
}
