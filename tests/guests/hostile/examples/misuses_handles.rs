//! Misuses the handle on a conversation: reads beyond it, drops it twice, keeps its number, reads it without end. Which, its
//! settings say.
#![allow(
    unsafe_code,
    reason = "the bindings do not let a handle be dropped twice otherwise"
)]

#[rind_sdk::plugin]
mod misuses_handles {
    use rind_sdk::prelude::*;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The number of the last handle.
    static KEPT: AtomicU32 = AtomicU32::new(0);

    /// Another owner of the handle with this number.
    fn forged(number: u32) -> Conversation {
        unsafe { Conversation::from_handle(number) }
    }

    #[hook]
    fn context(messages: &Conversation) -> Result<ContextOutcome, Error> {
        let how: String = config::get("how")?.unwrap_or_default();
        KEPT.store(messages.handle(), Ordering::Relaxed);
        match how.as_str() {
            "beyond" => {
                let len = messages.len();
                let read = [
                    messages.message(len).is_some(),
                    messages.message(u32::MAX).is_some(),
                    !messages.messages(len, 1).is_empty(),
                    !messages.messages(u32::MAX, u32::MAX).is_empty(),
                    messages.messages(0, u32::MAX).len() > 100,
                ];
                if read.contains(&true) {
                    return Ok(ContextOutcome::default().append_message("PWNED: read beyond"));
                }
                Err(Error::NotFound(format!("nothing behind {len} messages")))
            }
            "twice" => {
                drop(forged(messages.handle()));
                Ok(ContextOutcome::default().append_message("PWNED: dropped twice"))
            }
            "flood" => loop {
                black_box(messages.message(0));
            },
            _ => Ok(ContextOutcome::default()),
        }
    }

    /// Reads through a handle of an earlier call.
    #[hook]
    fn pre_tool(_call: ProposedCall) -> Result<CallOutcome, Error> {
        let messages = forged(KEPT.load(Ordering::Relaxed));
        Ok(CallOutcome::pass().with_note(format!("PWNED: {} messages", messages.len())))
    }
}
