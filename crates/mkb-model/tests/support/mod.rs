//! A scripted HTTP server on loopback, and clients for it.

#![allow(
    dead_code,
    missing_docs,
    reason = "each test program uses a part of it"
)]

pub mod dialect;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mkb_model::Cancel;
use mkb_model::breaker::BreakerSettings;
use mkb_model::client::{Call, Client, Hub, HubOptions};
use mkb_model::config::Config;
use mkb_model::key::Keys;
use mkb_model::prices::Prices;
use mkb_model::protocol::Message;
use mkb_model::retry::RetrySettings;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A key as OpenAI's look, with characters that formats escape.
pub const KEY: &str = "sk-test/0123+4567_89ab";

/// What a client sent.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: serde_json::Value,
}

/// What the server answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A status, headers and a body with its length.
    Plain(u16, Vec<(&'static str, String)>, String),
    /// Chunks of server-sent events, then how the stream ends.
    Stream(Vec<Vec<u8>>, Ending),
    /// The connection is closed without a word.
    Hangup,
    /// Nothing comes at all.
    Silence,
    /// A body that is shorter than its length says.
    Short(String),
}

/// How a stream ends.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// As it should.
    Whole,
    /// The connection is closed in the middle.
    Cut,
    /// Nothing more comes.
    Stall,
}

impl Answer {
    pub fn ok(body: impl Into<String>) -> Self {
        Self::status(200, body)
    }

    pub fn status(status: u16, body: impl Into<String>) -> Self {
        let json = ("content-type", "application/json".to_owned());
        Self::Plain(status, vec![json], body.into())
    }

    pub fn with(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Plain(status, mut headers, body) => {
                headers.push((name, value.to_owned()));
                Self::Plain(status, headers, body)
            }
            other => other,
        }
    }

    /// A stream whose bytes are cut into chunks of a size.
    pub fn stream(text: &str, chunk: usize, ending: Ending) -> Self {
        Self::Stream(
            text.as_bytes().chunks(chunk).map(<[u8]>::to_vec).collect(),
            ending,
        )
    }
}

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection for S {}

type Script = dyn Fn(usize, &Received) -> Answer + Send + Sync;

/// A server that answers by a script, in the order in which requests come.
pub struct Server {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    /// The n-th request gets the n-th answer, all later ones the last.
    pub fn of(answers: Vec<Answer>) -> Self {
        Self::by(move |place, _| answers[place.min(answers.len() - 1)].clone())
    }

    pub fn by(script: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::over(None, script)
    }

    /// Over TLS, if there is a side of it.
    pub fn over(
        tls: Option<TlsAcceptor>,
        script: impl Fn(usize, &Received) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (script, all): (Arc<Script>, _) = (Arc::new(script), received.clone());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, all, tls) = (script.clone(), all.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, script, all).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, script, all).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            received,
            runtime: Some(runtime),
        }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

async fn serve(mut stream: impl Connection, script: Arc<Script>, all: Arc<Mutex<Vec<Received>>>) {
    let mut buffer = Vec::new();
    while let Some(received) = read_request(&mut stream, &mut buffer).await {
        let place = {
            let mut all = all.lock().unwrap();
            all.push(received.clone());
            all.len() - 1
        };
        let kept = write_answer(&mut stream, script(place, &received)).await;
        if !matches!(kept, Ok(true)) {
            return;
        }
    }
}

async fn read_request(stream: &mut impl Connection, buffer: &mut Vec<u8>) -> Option<Received> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers
        .get("content-length")
        .map_or(0, |text| text.parse().unwrap());
    while buffer.len() < head_end + length {
        more(stream, buffer).await?;
    }
    let body = serde_json::from_slice(&buffer[head_end..head_end + length]).unwrap_or_default();
    buffer.drain(..head_end + length);
    Some(Received {
        path,
        headers,
        body,
    })
}

async fn more(stream: &mut impl Connection, buffer: &mut Vec<u8>) -> Option<()> {
    let mut block = [0; 16 << 10];
    let read = stream
        .read(&mut block)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    buffer.extend_from_slice(&block[..read]);
    Some(())
}

/// Whether the connection may be used again.
async fn write_answer(stream: &mut impl Connection, answer: Answer) -> std::io::Result<bool> {
    match answer {
        Answer::Plain(status, headers, body) => {
            let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            stream
                .write_all(format!("{head}\r\n{body}").as_bytes())
                .await?;
            Ok(true)
        }
        Answer::Stream(chunks, ending) => {
            stream.write_all(STREAM_HEAD).await?;
            for chunk in chunks {
                stream
                    .write_all(format!("{:x}\r\n", chunk.len()).as_bytes())
                    .await?;
                stream.write_all(&chunk).await?;
                stream.write_all(b"\r\n").await?;
                stream.flush().await?;
            }
            match ending {
                Ending::Whole => stream.write_all(b"0\r\n\r\n").await?,
                Ending::Cut => return Ok(false),
                Ending::Stall => until_closed(stream).await,
            }
            Ok(true)
        }
        Answer::Hangup => Ok(false),
        Answer::Silence => {
            until_closed(stream).await;
            Ok(false)
        }
        Answer::Short(body) => {
            let head = format!(
                "HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n",
                body.len() + 100
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await?;
            Ok(false)
        }
    }
}

const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

async fn until_closed(stream: &mut impl Connection) {
    let mut block = [0; 1024];
    while matches!(stream.read(&mut block).await, Ok(read) if read > 0) {}
}

/// Rates of the test's model, in US dollars for a million tokens.
pub const RATES: &str =
    "input = 1\ncache_read = 0.1\ncache_write = 1.25\ncache_write_long = 2\noutput = 10\n";

/// How the tests' hub differs from the usual one.
#[derive(Clone, Debug)]
pub struct Setup {
    pub retry: RetrySettings,
    pub breaker: BreakerSettings,
    pub timeouts: &'static str,
    pub stream: bool,
    pub rpm: Option<u32>,
    pub rates: &'static str,
    pub reasoning: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            retry: RetrySettings {
                most_faults: 3,
                first_pause: Duration::from_millis(1),
                longest_pause: Duration::from_millis(10),
            },
            // The breaker has tests of its own.
            breaker: BreakerSettings {
                faults: 1000,
                ..BreakerSettings::default()
            },
            timeouts: "connect_s = 20, first_byte_s = 60, stall_s = 60",
            stream: true,
            rpm: None,
            rates: RATES,
            reasoning: "",
        }
    }
}

impl Setup {
    pub fn plain() -> Self {
        Self {
            stream: false,
            ..Self::default()
        }
    }

    /// A client of a server that speaks a protocol.
    pub fn client(&self, protocol: &str, address: SocketAddr) -> Client {
        self.client_at(protocol, &format!("http://{address}/v1"))
    }

    pub fn client_at(&self, protocol: &str, base_url: &str) -> Client {
        let Self {
            timeouts,
            stream,
            reasoning,
            ..
        } = self;
        let text = format!(
            r#"
            [providers.scripted]
            protocol = "{protocol}"
            base_url = "{base_url}"
            key_env = "SCRIPTED_KEY"
            timeouts = {{ {timeouts} }}

            [models."scripted/m"]
            settings = {{ stream = {stream}, max_output_tokens = 64 {reasoning} }}
            "#
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.toml");
        std::fs::write(&path, text).unwrap();
        let price = format!(
            "[[price]]\nmodel = \"scripted/m\"\ndate = \"2026-01-01\"\nsource = \"the test\"\n{}",
            self.rates
        );
        let hub = Hub::new(HubOptions {
            keys: Keys::of_pairs([("SCRIPTED_KEY", KEY)]),
            prices: Prices::parse(&price, "test").unwrap(),
            rpm: self.rpm,
            tpm: None,
            retry: self.retry,
            breaker: self.breaker,
        })
        .unwrap();
        hub.client(
            Config::with_file(&path)
                .unwrap()
                .model("scripted/m")
                .unwrap(),
        )
        .unwrap()
    }

    /// Calls a scripted server once.
    pub fn call(&self, protocol: &str, answers: Vec<Answer>) -> (Call, Vec<Received>) {
        let server = Server::of(answers);
        let client = self.client(protocol, server.address);
        let call = ask(&client, minutes(2), &Cancel::new());
        (call, server.received())
    }
}

pub fn minutes(minutes: u64) -> Instant {
    Instant::now() + Duration::from_secs(60 * minutes)
}

pub fn ask(client: &Client, deadline: Instant, cancel: &Cancel) -> Call {
    let request = client.request(Some("Be short.".into()), vec![Message::user("1+1?")]);
    client.call(&request, deadline, cancel)
}
