//! Counting the tokens of traffic that somebody else asked for, from its raw bytes.

use super::{Finish, Reader, Reply, Wire, sse};
use crate::usage::Usage;

/// The most of a plain answer that is kept for reading.
const MAX_PLAIN_BYTES: usize = 64 << 20;

/// Looks on while an answer passes by. Whatever it cannot read stays unknown.
#[derive(Debug)]
pub struct Meter {
    wire: Wire,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Plain(Vec<u8>),
    Stream {
        parser: sse::Parser,
        reader: Reader,
    },
    /// It is too long to be an answer.
    TooLong,
}

/// What an answer said of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metered {
    /// Tokens by kind; of a cut stream, what is certain.
    pub usage: Usage,
    /// What the provider says that it cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// The model that answered.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// Why it ended.
    pub finish: Finish,
}

impl Meter {
    /// Of an answer whose content type is given: server-sent events are a stream, else it is plain.
    pub fn new(wire: Wire, content_type: &str) -> Self {
        let form = if is_event_stream(content_type) {
            Form::Stream {
                parser: sse::Parser::new(),
                reader: wire.reader(),
            }
        } else {
            Form::Plain(Vec::new())
        };
        Self { wire, form }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match &mut self.form {
            Form::Plain(body) if body.len() + bytes.len() > MAX_PLAIN_BYTES => {
                self.form = Form::TooLong;
            }
            Form::Plain(body) => body.extend_from_slice(bytes),
            Form::Stream { parser, reader } => {
                for event in parser.push(bytes).unwrap_or_default() {
                    look_at(reader, &event);
                }
            }
            Form::TooLong => {}
        }
    }

    /// What the answer said, once it has ended in whatever way.
    pub fn finish(self) -> Metered {
        match self.form {
            Form::Plain(body) => self.wire.read(&body).map(Metered::from).unwrap_or_default(),
            Form::Stream { parser, mut reader } => {
                if let Ok(Some(last)) = parser.finish() {
                    look_at(&mut reader, &last);
                }
                let so_far = Metered::from(reader.so_far().clone());
                match reader.finish() {
                    Ok(reply) => reply.into(),
                    Err(_) => Metered {
                        usage: so_far.usage.cut(),
                        cost_usd: None,
                        ..so_far
                    },
                }
            }
            Form::TooLong => Metered::default(),
        }
    }
}

/// Takes an event for its counts. One that cannot be read, or that tells of a failure, has none, and
/// later ones may.
fn look_at(reader: &mut Reader, event: &sse::Event) {
    if !reader.is_over() {
        let _ = reader.event(event);
    }
}

impl From<Reply> for Metered {
    fn from(reply: Reply) -> Self {
        Self {
            usage: reply.usage,
            cost_usd: reply.cost_usd,
            model: reply.model,
            id: reply.id,
            finish: reply.finish,
        }
    }
}

/// Whether a content type is that of server-sent events.
pub(crate) fn is_event_stream(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("text/event-stream")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = concat!(
        "event: message_start\n",
        r#"data: {"type":"message_start","message":{"model":"c","usage":{"input_tokens":9,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":1}}}"#,
        "\n\n",
        "event: message_delta\n",
        r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":30}}"#,
        "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );

    fn metered(bytes: &[u8], chunk: usize) -> Metered {
        let mut meter = Meter::new(Wire::Anthropic, "text/event-stream; charset=utf-8");
        for chunk in bytes.chunks(chunk) {
            meter.push(chunk);
        }
        meter.finish()
    }

    #[test]
    fn a_stream_is_counted_however_it_is_cut_into_chunks() {
        for chunk in [1, 2, 3, 7, 64, 4096] {
            let metered = metered(STREAM.as_bytes(), chunk);
            assert_eq!(
                (metered.usage.prompt, metered.usage.output),
                (Some(9), Some(30))
            );
        }
    }

    #[test]
    fn of_a_cut_stream_the_input_is_certain_and_the_output_unknown() {
        let cut = STREAM.find("event: message_delta").unwrap();
        let metered = metered(&STREAM.as_bytes()[..cut], 16);
        assert_eq!(
            (metered.usage.prompt, metered.usage.output),
            (Some(9), None)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_and_no_cuts_change_what_is_counted(
            pieces in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(STREAM.split_inclusive("\n\n").collect::<Vec<_>>())
                        .prop_map(|text| text.as_bytes().to_vec()),
                    prop::collection::vec(any::<u8>(), 0..40),
                    Just(b"data: [DONE]\n\n".to_vec()),
                ],
                0..8,
            ),
            chunk in 1usize..60,
            stream in any::<bool>(),
        ) {
            let bytes = pieces.concat();
            let kind = if stream { "text/event-stream" } else { "application/json" };
            for wire in [Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Anthropic, Wire::Gemini] {
                let count = |chunk: usize| {
                    let mut meter = Meter::new(wire, kind);
                    bytes.chunks(chunk).for_each(|chunk| meter.push(chunk));
                    meter.finish()
                };
                prop_assert_eq!(count(chunk), count(usize::MAX));
            }
        }
    }

    #[test]
    fn what_is_no_answer_stays_unknown() {
        let mut meter = Meter::new(Wire::OpenAiChat, "application/json");
        meter.push(b"<html>");
        assert_eq!(meter.finish(), Metered::default());
    }
}
