//! One time that a request is sent, over HTTP, up to its answer or what went wrong with it.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{RequestBuilder, Response};

use crate::cancel::{Stop, Stopped};
use crate::config::Timeouts;
use crate::ledger::Spend;
use crate::protocol::{ApiError, ReadError, Reader, Reply, Stream, Wire, is_event_stream, sse};
use crate::retry::retry_after;
use crate::usage::Usage;

/// The longest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// The most of a refusal that is read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
/// How long to wait for a stream's last chunk after its last event, so that the connection can be
/// used again.
const TAIL: Duration = Duration::from_millis(100);

/// What came of sending a request.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) end: End,
    pub(crate) status: Option<u16>,
    pub(crate) request_id: Option<String>,
    pub(crate) spend: Spend,
    pub(crate) latency: Duration,
    pub(crate) first_byte: Option<Duration>,
    /// How long the provider asks to wait before the next.
    pub(crate) retry_after: Option<Duration>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum End {
    Reply(Box<Reply>),
    /// An error, by status or inside of an answer.
    Api(ApiError),
    Malformed(String),
    Cut(String),
    Stalled(Duration),
    NoFirstByte(Duration),
    /// No connection: the provider has seen nothing.
    Unreachable(String),
    /// The connection was lost before an answer.
    Lost(String),
    Stopped(Stopped),
}

/// How to send and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) wire: Wire,
    pub(crate) stream: Stream,
    pub(crate) timeouts: Timeouts,
    pub(crate) stop: &'a Stop,
}

/// Sends a request and reads its answer.
pub(crate) async fn exchange(request: RequestBuilder, terms: Terms<'_>) -> Exchange {
    let started = Instant::now();
    let mut head = Head::default();
    let (end, spend) = converse(request, terms, started, &mut head).await;
    let spend = match &end {
        End::Reply(reply) => Spend::Reported(reply.usage),
        _ => spend,
    };
    let retry_after = match &end {
        End::Api(error) => head.retry_after.or(error.retry_after),
        _ => None,
    };
    Exchange {
        end,
        status: head.status,
        request_id: head.request_id,
        spend,
        latency: started.elapsed(),
        first_byte: head.first_byte,
        retry_after,
    }
}

#[derive(Debug, Default)]
struct Head {
    status: Option<u16>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    first_byte: Option<Duration>,
}

/// How it ended, and what it took where that is not in the reply.
async fn converse(
    request: RequestBuilder,
    terms: Terms<'_>,
    started: Instant,
    head: &mut Head,
) -> (End, Spend) {
    let limit = terms.timeouts.first_byte;
    let sent = terms
        .stop
        .or(tokio::time::timeout(limit, request.send()))
        .await;
    let response = match sent {
        Err(stopped) => return (End::Stopped(stopped), Spend::Unknown),
        Ok(Err(_)) => return (End::NoFirstByte(limit), Spend::Unknown),
        Ok(Ok(Err(error))) if error.is_connect() || error.is_builder() => {
            return (End::Unreachable(causes(error)), Spend::Nothing);
        }
        Ok(Ok(Err(error))) => return (End::Lost(causes(error)), Spend::Unknown),
        Ok(Ok(Ok(response))) => response,
    };
    head.status = Some(response.status().as_u16());
    head.request_id = request_id(response.headers());
    head.retry_after = retry_after(response.headers(), SystemTime::now());
    if !response.status().is_success() {
        return (refusal(response, terms).await, Spend::Nothing);
    }
    let streamed = match response
        .headers()
        .get(CONTENT_TYPE)
        .map(|kind| kind.to_str())
    {
        Some(Ok(kind)) => is_event_stream(kind),
        _ => terms.stream == Stream::Yes,
    };
    let mut body = Body {
        response,
        terms,
        started,
        bytes: 0,
    };
    if streamed {
        read_stream(&mut body, head).await
    } else {
        read_plain(&mut body, head).await
    }
}

/// A body, chunk by chunk, within its limits.
struct Body<'a> {
    response: Response,
    terms: Terms<'a>,
    started: Instant,
    bytes: usize,
}

impl Body<'_> {
    /// The next chunk; `None` at the end.
    async fn next(&mut self, head: &mut Head) -> Result<Option<impl AsRef<[u8]> + use<>>, End> {
        let timeouts = self.terms.timeouts;
        let limit = match head.first_byte {
            Some(_) => timeouts.stall,
            None => timeouts.first_byte.saturating_sub(self.started.elapsed()),
        };
        let chunk = tokio::time::timeout(limit, self.response.chunk());
        let chunk = match self.terms.stop.or(chunk).await {
            Err(stopped) => return Err(End::Stopped(stopped)),
            Ok(Err(_)) if head.first_byte.is_some() => return Err(End::Stalled(limit)),
            Ok(Err(_)) => return Err(End::NoFirstByte(timeouts.first_byte)),
            Ok(Ok(Err(error))) => return Err(End::Cut(causes(error))),
            Ok(Ok(Ok(chunk))) => chunk,
        };
        if let Some(chunk) = &chunk {
            head.first_byte
                .get_or_insert_with(|| self.started.elapsed());
            self.bytes += chunk.len();
            if self.bytes > MAX_ANSWER_BYTES {
                let what = format!("the answer is longer than {MAX_ANSWER_BYTES} bytes");
                return Err(End::Malformed(what));
            }
        }
        Ok(chunk)
    }

    /// Takes the end of a body whose contents are complete.
    async fn tail(&mut self) {
        let _ = tokio::time::timeout(TAIL, self.response.chunk()).await;
    }
}

async fn read_plain(body: &mut Body<'_>, head: &mut Head) -> (End, Spend) {
    let mut whole = Vec::new();
    loop {
        match body.next(head).await {
            Ok(Some(chunk)) => whole.extend_from_slice(chunk.as_ref()),
            Ok(None) => break,
            Err(end) => return (end, Spend::Unknown),
        }
    }
    let end = match body.terms.wire.read(&whole) {
        Ok(reply) => End::Reply(Box::new(reply)),
        Err(_) if whole.is_empty() => End::Cut("the answer has no body".into()),
        Err(error) => end_of(error),
    };
    (end, Spend::Unknown)
}

async fn read_stream(body: &mut Body<'_>, head: &mut Head) -> (End, Spend) {
    let mut parser = sse::Parser::new();
    let mut reader = body.terms.wire.reader();
    let early = loop {
        let events = match body.next(head).await {
            Ok(Some(chunk)) => parser.push(chunk.as_ref()).map_err(ReadError::from),
            Ok(None) => break None,
            Err(end) => break Some(end),
        };
        match events.and_then(|events| take(&mut reader, &events)) {
            Err(error) => return (end_of(error), spent(&reader)),
            Ok(()) if reader.is_over() => {
                body.tail().await;
                break None;
            }
            Ok(()) => {}
        }
    };
    let spend = spent(&reader);
    if early.is_none() && !reader.is_over() {
        // The last event of a connection that was closed may be half an event.
        let last = parser.finish().ok().flatten();
        if last.is_some_and(|last| take(&mut reader, &[last]).is_err()) {
            return (
                End::Cut("the stream ended inside of an event".into()),
                spend,
            );
        }
    }
    if let Some(stopped @ End::Stopped(_)) = early {
        return (stopped, spend);
    }
    match (reader.finish(), early) {
        // Whatever happened after a complete answer does not matter.
        (Ok(reply), _) => (End::Reply(Box::new(reply)), spend),
        (Err(_), Some(end)) => (end, spend),
        (Err(error), None) => (end_of(error), spend),
    }
}

fn take(reader: &mut Reader, events: &[sse::Event]) -> Result<(), ReadError> {
    for event in events {
        // Some servers send empty events to keep a stream alive.
        if !reader.is_over() && !event.data.trim().is_empty() {
            reader.event(event)?;
        }
    }
    Ok(())
}

/// What an unfinished stream took, as far as it said.
fn spent(reader: &Reader) -> Spend {
    let usage = reader.so_far().usage.cut();
    if usage == Usage::default() {
        Spend::Unknown
    } else {
        Spend::Reported(usage)
    }
}

fn end_of(error: ReadError) -> End {
    match error {
        ReadError::Malformed(what) => End::Malformed(what),
        ReadError::Cut => End::Cut(error.to_string()),
        ReadError::Api(error) => End::Api(*error),
    }
}

/// Reads what came with a status other than success.
async fn refusal(mut response: Response, terms: Terms<'_>) -> End {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let left = MAX_REFUSAL_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(left)]);
            if body.len() == MAX_REFUSAL_BYTES {
                break;
            }
        }
    };
    let read = tokio::time::timeout(terms.timeouts.stall, read);
    // The status says enough, whatever becomes of the body.
    let _ = terms.stop.or(read).await;
    End::Api(ApiError::read(Some(status), &body))
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    ["request-id", "x-request-id", "x-generation-id"]
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok())
        .map(|id| id.chars().take(200).collect())
}

/// An error of the HTTP client with its causes, without the URL.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
