//! How fast a process calls one provider: requests and tokens a minute, first come, first served.
//!
//! [`Limiter`] is shared by everything that calls a provider. [`Bucket`] is the arithmetic alone, for
//! a clock of the caller's.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A bucket of tokens that fills at a steady rate.
///
/// A request larger than the bucket is let through when the bucket is full, and leaves a debt that
/// those after it wait for.
#[derive(Clone, Debug)]
pub struct Bucket {
    capacity: f64,
    per_second: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub fn new(capacity: f64, per_second: f64, now: Instant) -> Self {
        Self {
            capacity,
            per_second,
            level: capacity,
            at: now,
        }
    }

    /// Requests, at most `rpm` in any minute: spaced evenly, with a second's worth at once.
    pub fn of_requests(rpm: u32, now: Instant) -> Self {
        let rpm = f64::from(rpm.max(1));
        let burst = (rpm / 60.0).floor().max(1.0);
        Self::new(burst, (rpm - burst + 1.0) / 60.0, now)
    }

    /// Tokens, `tpm` a minute in the long run: with ten seconds' worth at once, and one request over
    /// it.
    pub fn of_tokens(tpm: u64, now: Instant) -> Self {
        // Limits of tokens are far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let tpm = tpm.max(1) as f64;
        Self::new(tpm / 6.0, tpm / 60.0, now)
    }

    /// How long until `amount` may be taken.
    pub fn wait(&mut self, amount: f64, now: Instant) -> Duration {
        self.fill(now);
        let missing = amount.min(self.capacity) - self.level;
        if missing <= 1e-9 {
            return Duration::ZERO;
        }
        // Rounded up to a millisecond: timers are no finer, and must not come too early.
        Duration::from_millis((missing / self.per_second * 1e3).ceil() as u64)
    }

    /// Takes an amount, into debt where it must.
    pub fn take(&mut self, amount: f64, now: Instant) {
        self.fill(now);
        self.level -= amount;
    }

    /// Gives an amount back, or takes more where it is negative.
    pub fn give_back(&mut self, amount: f64, now: Instant) {
        self.fill(now);
        self.level = (self.level + amount).min(self.capacity);
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.capacity);
        self.at = self.at.max(now);
    }
}

/// The limits of one provider, for all who call it.
#[derive(Debug)]
pub struct Limiter {
    /// Held by whoever is next; the others queue for it in order.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    not_before: Option<Instant>,
}

/// The right to send one request. What it really took is told by [`Permit::settle`]; dropped
/// without, the estimate stands.
#[derive(Debug)]
#[must_use]
pub struct Permit<'a> {
    limiter: &'a Limiter,
    estimate: u64,
}

impl Limiter {
    /// Limits a minute; `None` is unlimited.
    pub fn new(rpm: Option<u32>, tpm: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            turn: tokio::sync::Mutex::new(()),
            state: Mutex::new(State {
                requests: rpm.map(|rpm| Bucket::of_requests(rpm, now)),
                tokens: tpm.map(|tpm| Bucket::of_tokens(tpm, now)),
                not_before: None,
            }),
            changed: Notify::new(),
        }
    }

    /// Waits for the right to send a request of about so many tokens. Those who wait are served in
    /// the order in which they came; one that stops waiting (its future is dropped) takes nothing.
    pub async fn acquire(&self, estimate: u64) -> Permit<'_> {
        let _turn = self.turn.lock().await;
        loop {
            let changed = self.changed.notified();
            let wait = self.try_take(estimate, Instant::now());
            match wait {
                None => {
                    return Permit {
                        limiter: self,
                        estimate,
                    };
                }
                Some(wait) => {
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = changed => {}
                    }
                }
            }
        }
    }

    /// Lets nobody through for a while: the provider has asked for it.
    pub fn pause(&self, pause: Duration) {
        let until = Instant::now().checked_add(pause);
        let mut state = self.lock();
        state.not_before = state.not_before.max(until);
    }

    /// Whether the provider has asked for a pause that is not over.
    pub fn is_paused(&self) -> bool {
        self.lock()
            .not_before
            .is_some_and(|until| until > Instant::now())
    }

    fn try_take(&self, estimate: u64, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        let tokens = amount(estimate);
        let paused = state
            .not_before
            .map(|until| until.saturating_duration_since(now));
        let requests = state.requests.as_mut().map(|bucket| bucket.wait(1.0, now));
        let of_tokens = state.tokens.as_mut().map(|bucket| bucket.wait(tokens, now));
        let wait = [paused, requests, of_tokens].into_iter().flatten().max();
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Some(wait);
        }
        if let Some(bucket) = &mut state.requests {
            bucket.take(1.0, now);
        }
        if let Some(bucket) = &mut state.tokens {
            bucket.take(tokens, now);
        }
        None
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Says how many tokens the request really took.
    pub fn settle(self, tokens: u64) {
        let now = Instant::now();
        if let Some(bucket) = &mut self.limiter.lock().tokens {
            bucket.give_back(amount(self.estimate) - amount(tokens), now);
        }
        self.limiter.changed.notify_waiters();
    }
}

#[allow(clippy::cast_precision_loss)]
fn amount(tokens: u64) -> f64 {
    tokens as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    async fn at_seconds(start: Instant, limiter: &Limiter, estimate: u64) -> u64 {
        limiter.acquire(estimate).await.settle(estimate);
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_spaced_and_served_in_order() {
        let limiter = Arc::new(Limiter::new(Some(30), None));
        let start = Instant::now();
        let mut calls = Vec::new();
        for _ in 0..5 {
            let limiter = limiter.clone();
            calls.push(tokio::spawn(
                async move { at_seconds(start, &limiter, 0).await },
            ));
            tokio::task::yield_now().await;
        }
        let mut times = Vec::new();
        for call in calls {
            times.push(call.await.unwrap());
        }
        assert_eq!(times, [0, 2, 4, 6, 8]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_gives_up_waiting_holds_nobody_up() {
        let limiter = Limiter::new(Some(1), None);
        let start = Instant::now();
        limiter.acquire(0).await.settle(0);
        let given_up = tokio::time::timeout(Duration::from_secs(5), limiter.acquire(0)).await;
        assert!(given_up.is_err());
        assert_eq!(at_seconds(start, &limiter, 0).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_that_were_not_used_are_given_back() {
        let limiter = Limiter::new(None, Some(60_000));
        let start = Instant::now();
        // 10,000 at once; 20,000 leave a debt of 10,000, of which 15,000 come back.
        let large = limiter.acquire(20_000).await;
        large.settle(5_000);
        assert_eq!(at_seconds(start, &limiter, 5_000).await, 0);
        assert_eq!(at_seconds(start, &limiter, 3_000).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_beyond_the_estimate_are_waited_for() {
        let limiter = Limiter::new(None, Some(60_000));
        let start = Instant::now();
        limiter.acquire(1).await.settle(40_000);
        assert_eq!(at_seconds(start, &limiter, 1_000).await, 31);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_everybody() {
        let limiter = Limiter::new(None, None);
        let start = Instant::now();
        limiter.pause(Duration::from_secs(7));
        limiter.pause(Duration::from_secs(3));
        assert_eq!(at_seconds(start, &limiter, 0).await, 7);
    }

    proptest! {
        #[test]
        fn no_minute_has_more_requests_than_allowed(
            rpm in 1u32..500,
            gaps in prop::collection::vec(0u64..3_000, 1..400),
        ) {
            let start = Instant::now();
            let mut bucket = Bucket::of_requests(rpm, start);
            let mut now = start;
            let mut times = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                let wait = bucket.wait(1.0, now);
                now += wait;
                prop_assert!(bucket.wait(1.0, now).is_zero());
                bucket.take(1.0, now);
                times.push(now - start);
            }
            let minute = Duration::from_secs(60);
            for (place, time) in times.iter().enumerate() {
                let within = times[place..].iter().take_while(|t| **t - *time < minute).count();
                prop_assert!(within <= rpm as usize, "{within} of {rpm}");
            }
        }
    }
}
