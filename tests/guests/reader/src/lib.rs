//! Reads the last message of a conversation, or all messages of a slice: what each costs is measured.

#[rind_sdk::plugin]
mod reader {
    use rind_sdk::prelude::*;
    use std::hint::black_box;

    #[hook]
    fn context(messages: &Conversation) -> ContextOutcome {
        black_box(messages.last());
        ContextOutcome::default()
    }

    #[hook]
    fn before_compact(slice: &Slice) -> SliceOutcome {
        let mut read = 0;
        while read < slice.len() {
            read += black_box(slice.messages(read, u32::MAX)).len() as u32;
        }
        SliceOutcome::default()
    }
}
