//! How a call can end, told apart by whose doing it is.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::Scrubber;
use crate::protocol::{ApiError, Reply};

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum CallOutcome {
    /// The model answered with text. [`Reply::finish`] says whether it came to its end.
    Answered(Reply),
    /// The model or a filter refused.
    Refused {
        /// Who.
        by: Refuser,
        /// What was answered, if anything was.
        reply: Option<Reply>,
        /// What was said about it.
        message: String,
    },
    /// The model answered without any text: it only reasoned, only called a tool, or ended at once.
    Empty(Reply),
    /// The conversation does not fit into the model's context.
    ContextOverflow(ApiError),
    /// The provider answered what is no answer, each time.
    Malformed {
        /// What is wrong with it.
        what: String,
    },
    /// The provider's answer ended before its end, each time.
    CutStream {
        /// How.
        what: String,
    },
    /// The provider's answer stopped coming, each time.
    Stalled {
        /// How long nothing came.
        silence: Duration,
    },
    /// The provider's rate limit outlasts the deadline.
    RateLimited {
        /// What it said.
        message: String,
    },
    /// The provider cannot be reached, fails, or is overloaded.
    ProviderDown {
        /// What happened last.
        message: String,
    },
    /// The key is wrong, may not do this, or has no credit left.
    KeyRejected(ApiError),
    /// The provider does not take the request.
    WrongRequest(ApiError),
    /// The caller's deadline came first.
    Deadline {
        /// What was going on.
        doing: Doing,
    },
    /// The caller cancelled it.
    Cancelled,
}

/// Who refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// The model itself.
    Model,
    /// A filter of the provider.
    Filter,
}

/// What a call was doing when its deadline came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The provider was answering.
    Answering,
    /// Nothing of an answer had come yet.
    WaitingForAnswer,
    /// It waited for its turn under the limits of requests and tokens a minute.
    WaitingForTurn,
}

/// A [`CallOutcome`] without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum OutcomeKind {
    Answered,
    Refused,
    Empty,
    ContextOverflow,
    Malformed,
    CutStream,
    Stalled,
    RateLimited,
    ProviderDown,
    KeyRejected,
    WrongRequest,
    Deadline,
    Cancelled,
}

impl OutcomeKind {
    /// Its name in ledgers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::ContextOverflow => "context_overflow",
            Self::Malformed => "malformed",
            Self::CutStream => "cut_stream",
            Self::Stalled => "stalled",
            Self::RateLimited => "rate_limited",
            Self::ProviderDown => "provider_down",
            Self::KeyRejected => "key_rejected",
            Self::WrongRequest => "wrong_request",
            Self::Deadline => "deadline",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whose doing it is.
    pub fn doing_of(self) -> DoingOf {
        match self {
            Self::Answered | Self::Refused | Self::Empty => DoingOf::Model,
            Self::ContextOverflow => DoingOf::Conversation,
            Self::Malformed
            | Self::CutStream
            | Self::Stalled
            | Self::RateLimited
            | Self::ProviderDown => DoingOf::Provider,
            Self::KeyRejected | Self::WrongRequest => DoingOf::Configuration,
            Self::Deadline | Self::Cancelled => DoingOf::Caller,
        }
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose doing an outcome is. Only the model's counts for or against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoingOf {
    /// The model's.
    Model,
    /// The conversation has become too long.
    Conversation,
    /// The provider's.
    Provider,
    /// The key or the settings are wrong; every call will end so.
    Configuration,
    /// The caller's own limit.
    Caller,
}

impl CallOutcome {
    /// Without the contents.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Self::Answered(_) => OutcomeKind::Answered,
            Self::Refused { .. } => OutcomeKind::Refused,
            Self::Empty(_) => OutcomeKind::Empty,
            Self::ContextOverflow(_) => OutcomeKind::ContextOverflow,
            Self::Malformed { .. } => OutcomeKind::Malformed,
            Self::CutStream { .. } => OutcomeKind::CutStream,
            Self::Stalled { .. } => OutcomeKind::Stalled,
            Self::RateLimited { .. } => OutcomeKind::RateLimited,
            Self::ProviderDown { .. } => OutcomeKind::ProviderDown,
            Self::KeyRejected(_) => OutcomeKind::KeyRejected,
            Self::WrongRequest(_) => OutcomeKind::WrongRequest,
            Self::Deadline { .. } => OutcomeKind::Deadline,
            Self::Cancelled => OutcomeKind::Cancelled,
        }
    }

    /// What the model answered, if it did.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Answered(reply) | Self::Empty(reply) => Some(reply),
            Self::Refused { reply, .. } => reply.as_ref(),
            _ => None,
        }
    }

    /// Takes keys out of everything that came from the provider.
    pub(crate) fn scrubbed(self, scrubber: &Scrubber) -> Self {
        let text = |text: String| scrubber.scrub(&text);
        let error = |error: ApiError| ApiError {
            message: text(error.message),
            code: error.code.map(text),
            ..error
        };
        let reply = |reply: Reply| Reply {
            text: text(reply.text),
            reasoning: reply.reasoning.map(text),
            tool_calls: reply
                .tool_calls
                .into_iter()
                .map(|mut call| {
                    call.name = text(call.name);
                    call.arguments = text(call.arguments);
                    call
                })
                .collect(),
            finish: match reply.finish {
                crate::protocol::Finish::Other(word) => crate::protocol::Finish::Other(text(word)),
                finish => finish,
            },
            model: reply.model.map(text),
            id: reply.id.map(text),
            upstream: reply.upstream.map(text),
            ..reply
        };
        match self {
            Self::Answered(answer) => Self::Answered(reply(answer)),
            Self::Empty(answer) => Self::Empty(reply(answer)),
            Self::Refused {
                by,
                reply: answer,
                message,
            } => Self::Refused {
                by,
                reply: answer.map(reply),
                message: text(message),
            },
            Self::ContextOverflow(fault) => Self::ContextOverflow(error(fault)),
            Self::KeyRejected(fault) => Self::KeyRejected(error(fault)),
            Self::WrongRequest(fault) => Self::WrongRequest(error(fault)),
            Self::Malformed { what } => Self::Malformed { what: text(what) },
            Self::CutStream { what } => Self::CutStream { what: text(what) },
            Self::RateLimited { message } => Self::RateLimited {
                message: text(message),
            },
            Self::ProviderDown { message } => Self::ProviderDown {
                message: text(message),
            },
            same @ (Self::Stalled { .. } | Self::Deadline { .. } | Self::Cancelled) => same,
        }
    }
}

impl fmt::Display for CallOutcome {
    /// One line for a person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(_) => f.write_str("the model answered"),
            Self::Refused {
                by: Refuser::Model,
                message,
                ..
            } => write!(f, "the model refused: {message}"),
            Self::Refused { message, .. } => {
                write!(f, "a filter of the provider refused: {message}")
            }
            Self::Empty(_) => f.write_str("the model answered without any text"),
            Self::ContextOverflow(error) | Self::KeyRejected(error) | Self::WrongRequest(error) => {
                error.fmt(f)
            }
            Self::Malformed { what } => {
                write!(f, "the provider answered what is no answer: {what}")
            }
            Self::CutStream { what } => write!(f, "the provider's answer was cut: {what}"),
            Self::Stalled { silence } => write!(
                f,
                "the provider's answer stopped coming for {:.1} s",
                silence.as_secs_f64()
            ),
            Self::RateLimited { message } => {
                write!(
                    f,
                    "rate limited beyond the deadline: {message}; lower --rpm or --tpm, or run fewer attempts at a time"
                )
            }
            Self::ProviderDown { message } => write!(f, "the provider is down: {message}"),
            Self::Deadline { doing } => f.write_str(match doing {
                Doing::Answering => "the deadline came while the provider was answering",
                Doing::WaitingForAnswer => "the deadline came before the provider answered",
                Doing::WaitingForTurn => {
                    "the deadline came while the call waited for its turn under --rpm and --tpm"
                }
            }),
            Self::Cancelled => f.write_str("the call was cancelled"),
        }
    }
}
