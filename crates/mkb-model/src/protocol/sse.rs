//! Server-sent events from bytes, however these are cut into chunks.
//!
//! After <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>,
//! with two differences: a last event without its empty line is given out by
//! [`Parser::finish`] (some servers omit it), and `id` and `retry` are passed over.

use thiserror::Error;

/// The longest event that is read.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The value of its last `event` field; empty without one.
    pub name: String,
    /// Its `data` fields, joined by LF.
    pub data: String,
}

/// An event grew beyond [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a server-sent event is longer than {MAX_EVENT_BYTES} bytes; this is no answer of a model")]
pub struct TooLong;

/// Collects bytes and gives events.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_cr: bool,
    started: bool,
    too_long: bool,
}

impl Parser {
    /// A parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and gives the events that they complete.
    ///
    /// # Errors
    /// From an event that is too long on; those before it are given first.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        if self.too_long {
            return Err(TooLong);
        }
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(byte),
            }
            if self.line.len() + self.event.data.len() > MAX_EVENT_BYTES {
                self.too_long = true;
                break;
            }
        }
        if self.too_long && events.is_empty() {
            return Err(TooLong);
        }
        Ok(events)
    }

    /// Ends the stream and gives the event that lacked its empty line, if there is one.
    ///
    /// # Errors
    /// Where it is too long.
    pub fn finish(mut self) -> Result<Option<Event>, TooLong> {
        if self.too_long {
            return Err(TooLong);
        }
        if !self.line.is_empty() {
            self.end_line();
        }
        Ok(self.has_data.then_some(self.event))
    }

    fn end_line(&mut self) -> Option<Event> {
        let mut bytes = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.started, true) && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        if bytes.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let line = String::from_utf8_lossy(&bytes);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    fn parse(chunks: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::new();
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(parser.push(chunk).unwrap());
        }
        events.extend(parser.finish().unwrap());
        events
    }

    #[test]
    fn the_examples_of_the_specification_parse_as_it_says() {
        let stocks: &[u8] = b"data: YHOO\ndata: +2\ndata: 10\n\n";
        assert_eq!(parse(&[stocks]), [event("", "YHOO\n+2\n10")]);
        let mixed: &[u8] =
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
        let expected = [
            event("", "first event"),
            event("", "second event"),
            event("", " third event"),
        ];
        assert_eq!(parse(&[mixed]), expected);
        assert_eq!(
            parse(&[b"data\n\ndata\ndata\n\n"]),
            [event("", ""), event("", "\n")]
        );
    }

    #[test]
    fn all_line_ends_a_byte_order_mark_and_names_are_understood() {
        let bytes: &[u8] = b"\xef\xbb\xbfevent: add\r\ndata: 1\r\revent: remove\ndata: 2\r\n\r\n";
        assert_eq!(parse(&[bytes]), [event("add", "1"), event("remove", "2")]);
    }

    #[test]
    fn a_last_event_without_its_empty_line_is_given() {
        assert_eq!(
            parse(&[b"data: a\n\ndata: [DONE]"]),
            [event("", "a"), event("", "[DONE]")]
        );
        assert_eq!(parse(&[b"event: lonely\n"]), []);
    }

    #[test]
    fn an_endless_line_is_refused_after_what_came_before_it() {
        let mut bytes = b"data: a\n\n".to_vec();
        bytes.resize(MAX_EVENT_BYTES + 100, b'x');
        let mut parser = Parser::new();
        assert_eq!(parser.push(&bytes), Ok(vec![event("", "a")]));
        assert_eq!(parser.push(b"\n\n"), Err(TooLong));
        assert_eq!(parser.finish(), Err(TooLong));
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            bytes in prop::collection::vec(
                prop_oneof![
                    Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), Just(b'a'),
                    Just(b't'), any::<u8>(),
                ],
                0..200,
            ),
            cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(parse(&chunks), parse(&[&bytes]));
        }

        #[test]
        fn what_is_written_as_events_is_read_back(
            events in prop::collection::vec(("[a-z_.]{0,12}", "[^\r]{0,40}"), 0..6),
        ) {
            let mut text = String::new();
            let mut expected = Vec::new();
            for (name, data) in events {
                text.push_str(&format!("event: {name}\n"));
                for line in data.split('\n') {
                    text.push_str(&format!("data: {line}\n"));
                }
                text.push('\n');
                expected.push(event(&name, &data));
            }
            prop_assert_eq!(parse(&[text.as_bytes()]), expected);
        }
    }
}
