//! Ending calls early: by hand, or at a deadline.

use std::time::Instant;

use tokio::sync::watch;

/// Cancels every call that it was given to. Clones cancel together.
#[derive(Clone, Debug)]
pub struct Cancel {
    cancelled: watch::Sender<bool>,
}

impl Default for Cancel {
    fn default() -> Self {
        Self {
            cancelled: watch::Sender::new(false),
        }
    }
}

impl Cancel {
    /// One that is not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, for good.
    pub fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    async fn wait(&self) {
        let mut changes = self.cancelled.subscribe();
        // The sender lives as long as `self`.
        let _ = changes.wait_for(|cancelled| *cancelled).await;
    }
}

/// What ended waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Cancelled,
    Deadline,
}

/// When to stop waiting for anything.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) deadline: Instant,
    pub(crate) cancel: Cancel,
}

impl Stop {
    /// Waits for something, but no longer than until the stop.
    pub(crate) async fn or<T>(&self, something: impl Future<Output = T>) -> Result<T, Stopped> {
        // A timer may fire a little late; what has passed is over at once.
        if !self.cancel.is_cancelled() && Instant::now() >= self.deadline {
            return Err(Stopped::Deadline);
        }
        tokio::select! {
            biased;
            () = self.cancel.wait() => Err(Stopped::Cancelled),
            () = tokio::time::sleep_until(self.deadline.into()) => Err(Stopped::Deadline),
            something = something => Ok(something),
        }
    }
}
