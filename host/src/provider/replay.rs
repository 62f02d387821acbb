//! Reading an answer out of bytes: what is left of an exchange without its server, its connection and its clock.
//!
//! Owns how pieces of bytes become events of a format. It must not know any format. Start from [`replay`].

use std::collections::VecDeque;

use super::assemble::{Decoder, Fault};
use super::sse::SseParser;
use super::{StreamEvent, Wire, anthropic, gemini, openai, responses};
use crate::message::Message;

/// Reads the pieces of one streamed answer, cut anywhere. The error says what is wrong with them.
pub fn replay(wire: Wire, pieces: &[&[u8]]) -> Result<Message, String> {
    match wire {
        Wire::AnthropicMessages => read(anthropic::Reader::default(), pieces),
        Wire::OpenaiChat => read(openai::Reader::default(), pieces),
        Wire::OpenaiResponses => read(responses::Reader::default(), pieces),
        Wire::Gemini => read(gemini::Reader::default(), pieces),
    }
}

fn read(mut decoder: impl Decoder, pieces: &[&[u8]]) -> Result<Message, String> {
    let mut feed = Feed::default();
    let said = |fault: Fault| match fault {
        Fault::Bad { what, .. } => what,
        Fault::EndedEarly => "it ended early".to_owned(),
        Fault::TooLong { max_bytes } => format!("it has more than {max_bytes} bytes"),
        Fault::Server { status, message } => format!("status {status}: {message}"),
    };
    for piece in pieces {
        if decoder.is_done() {
            break;
        }
        feed.push(&mut decoder, piece, &mut |_| {}).map_err(said)?;
    }
    Ok(decoder.finish().map_err(said)?.message)
}

/// Bytes on their way into a decoder.
#[derive(Default)]
pub(crate) struct Feed {
    parser: SseParser,
    events: VecDeque<sse_stream::Sse>,
}

impl Feed {
    /// Takes the next piece; whether it holds any of the answer. What comes after the end of the answer is ignored.
    pub(crate) fn push(
        &mut self,
        decoder: &mut impl Decoder,
        piece: &[u8],
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<bool, Fault> {
        let pushed = self.parser.push(piece, &mut self.events);
        while let Some(event) = self.events.pop_front()
            && !decoder.is_done()
        {
            if let Some(data) = event.data {
                decoder.event(&data, emit)?;
            }
        }
        match pushed {
            Err(bad) if !decoder.is_done() => Err(Fault::bad(bad.what, &bad.excerpt)),
            Err(_) => Ok(true),
            Ok(is_answer) => Ok(is_answer),
        }
    }

    /// The answer as it came, cut when it is long.
    pub(crate) fn into_raw(self) -> String {
        self.parser.into_raw()
    }
}
