//! Reads an answer from bytes, without a server, a connection or a clock.
//!
//! Owns the conversion of chunks of bytes into events. The wire format is a parameter, and the
//! module must not depend on a single one. Start from [`decode_recorded_answer`].

use std::collections::VecDeque;

use super::assemble::{AnswerStreamDecoder, AnswerStreamError};
use super::sse::SseParser;
use super::{ModelApiFormat, StreamEvent, anthropic, gemini, openai, responses};
use crate::message::Message;

/// Decodes a recorded answer stream in the format `wire`. `pieces` are the bytes of the stream,
/// split anywhere. The error string describes the fault in the stream.
pub fn decode_recorded_answer(wire: ModelApiFormat, pieces: &[&[u8]]) -> Result<Message, String> {
    match wire {
        ModelApiFormat::AnthropicMessages => {
            decode_stream_pieces(anthropic::AnthropicStreamDecoder::default(), pieces)
        }
        ModelApiFormat::OpenaiChat => {
            decode_stream_pieces(openai::ChatCompletionsStreamDecoder::default(), pieces)
        }
        ModelApiFormat::OpenaiResponses => {
            decode_stream_pieces(responses::ResponsesStreamDecoder::default(), pieces)
        }
        ModelApiFormat::Gemini => {
            decode_stream_pieces(gemini::GeminiStreamDecoder::default(), pieces)
        }
    }
}

fn decode_stream_pieces(
    mut decoder: impl AnswerStreamDecoder,
    pieces: &[&[u8]],
) -> Result<Message, String> {
    let mut feed = SseToDecoderFeeder::default();
    let said = |fault: AnswerStreamError| match fault {
        AnswerStreamError::Bad { what, .. } => what,
        AnswerStreamError::EndedEarly => "it ended early".to_owned(),
        AnswerStreamError::TooLong { max_bytes } => format!("it has more than {max_bytes} bytes"),
        AnswerStreamError::Server { status, message } => {
            format!("the server reported status {status}: {message}")
        }
    };
    for piece in pieces {
        if decoder.is_stream_complete() {
            break;
        }
        feed.push(&mut decoder, piece, &mut |_| {}).map_err(said)?;
    }
    Ok(decoder.finish().map_err(said)?.message)
}

/// Parses an event stream (SSE) and passes its events to the decoder of a wire format.
#[derive(Default)]
pub(crate) struct SseToDecoderFeeder {
    parser: SseParser,
    events: VecDeque<sse_stream::Sse>,
}

impl SseToDecoderFeeder {
    /// Parses the next chunk. Returns whether the chunk contains a part of the answer, not only
    /// comments and pings. Data after the end of the answer is ignored.
    pub(crate) fn push(
        &mut self,
        decoder: &mut impl AnswerStreamDecoder,
        piece: &[u8],
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<bool, AnswerStreamError> {
        let pushed = self.parser.push(piece, &mut self.events);
        while let Some(event) = self.events.pop_front()
            && !decoder.is_stream_complete()
        {
            if let Some(data) = event.data {
                decoder.read_event(&data, emit)?;
            }
        }
        match pushed {
            Err(bad) if !decoder.is_stream_complete() => {
                Err(AnswerStreamError::from_bad_event(bad.what, &bad.excerpt))
            }
            Err(_) => Ok(true),
            Ok(is_answer) => Ok(is_answer),
        }
    }

    /// Returns the raw text of the answer, truncated if it is long.
    pub(crate) fn into_raw_answer_text(self) -> String {
        self.parser.into_raw_text()
    }
}
