//! A circuit breaker for each provider: while it is down, calls wait instead of failing one by one.
//!
//! After a number of consecutive faults nobody is let through for a while; then one call is, as a
//! probe. If it succeeds everybody goes on, if not the pause doubles, up to a limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Consecutive faults after which it opens.
    pub faults: u32,
    /// How long it stays open at first.
    pub pause: Duration,
    /// The longest that it stays open before the next probe.
    pub longest_pause: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            faults: 8,
            pause: Duration::from_secs(2),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// A provider's breaker, for all who call it.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    faults: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    pause: Duration,
    probing: bool,
    fault: String,
}

/// The right to call. Without a report, a probe's right passes to the next.
#[derive(Debug)]
#[must_use]
pub struct Admission<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

enum Next {
    Go { probe: bool },
    WaitUntil(Instant),
    WaitForProbe,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    /// Waits until the provider may be called.
    pub async fn admit(&self) -> Admission<'_> {
        let mut changes = self.changes.subscribe();
        loop {
            match self.next() {
                Next::Go { probe } => {
                    return Admission {
                        breaker: self,
                        probe,
                    };
                }
                Next::WaitUntil(until) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(until) => {}
                        _ = changes.changed() => {}
                    }
                }
                Next::WaitForProbe => {
                    // The sender lives as long as `self`.
                    let _ = changes.changed().await;
                }
            }
        }
    }

    /// The fault that opened it, while it is open.
    pub fn open_because(&self) -> Option<String> {
        self.lock().open.as_ref().map(|open| open.fault.clone())
    }

    fn next(&self) -> Next {
        let mut state = self.lock();
        match &mut state.open {
            None => Next::Go { probe: false },
            Some(open) if open.probing => Next::WaitForProbe,
            Some(open) if open.until > Instant::now() => Next::WaitUntil(open.until),
            Some(open) => {
                open.probing = true;
                Next::Go { probe: true }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission<'_> {
    /// The provider answered, if only to refuse.
    pub fn alive(mut self) {
        let mut state = self.breaker.lock();
        if self.probe || state.open.is_none() {
            *state = State::default();
        }
        drop(state);
        self.done();
    }

    /// The provider failed.
    pub fn fault(mut self, fault: &str) {
        let settings = self.breaker.settings;
        let mut state = self.breaker.lock();
        state.faults = state.faults.saturating_add(1);
        let faults = state.faults;
        let pause = match &state.open {
            Some(open) if self.probe => Some((open.pause * 2).min(settings.longest_pause)),
            // What was sent before it opened says nothing new.
            Some(_) => None,
            None => (faults >= settings.faults).then_some(settings.pause),
        };
        if let Some(pause) = pause {
            state.open = Some(Open {
                until: Instant::now() + pause,
                pause,
                probing: false,
                fault: fault.to_owned(),
            });
        }
        drop(state);
        self.done();
    }

    fn done(&mut self) {
        self.probe = false;
        self.breaker.changes.send_replace(());
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.probe {
            if let Some(open) = &mut self.breaker.lock().open {
                open.probing = false;
            }
            self.breaker.changes.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn breaker() -> Breaker {
        Breaker::new(BreakerSettings {
            faults: 2,
            pause: Duration::from_secs(4),
            longest_pause: Duration::from_secs(10),
        })
    }

    async fn fail(breaker: &Breaker) {
        breaker.admit().await.fault("HTTP 500");
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_between_faults_keeps_it_closed() {
        let breaker = breaker();
        let start = Instant::now();
        for _ in 0..3 {
            fail(&breaker).await;
            breaker.admit().await.alive();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(breaker.open_because(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_longest_until_a_probe_succeeds() {
        let breaker = breaker();
        let start = Instant::now();
        fail(&breaker).await;
        fail(&breaker).await;
        assert_eq!(breaker.open_because().as_deref(), Some("HTTP 500"));
        let mut times = Vec::new();
        for _ in 0..4 {
            fail(&breaker).await;
            times.push(start.elapsed().as_secs());
        }
        assert_eq!(times, [4, 12, 22, 32]);
        breaker.admit().await.alive();
        assert_eq!(start.elapsed().as_secs(), 42);
        breaker.admit().await.alive();
        assert_eq!(start.elapsed().as_secs(), 42);
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_goes_first_and_the_others_follow_its_success() {
        let breaker = Arc::new(breaker());
        fail(&breaker).await;
        fail(&breaker).await;
        let flying = Arc::new(AtomicU32::new(0));
        let mut calls = Vec::new();
        for _ in 0..20 {
            let (breaker, flying) = (breaker.clone(), flying.clone());
            calls.push(tokio::spawn(async move {
                let admission = breaker.admit().await;
                flying.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                let together = flying.load(Ordering::SeqCst);
                admission.alive();
                together
            }));
        }
        let mut seen = Vec::new();
        for call in calls {
            seen.push(call.await.unwrap());
        }
        seen.sort_unstable();
        let mut expected = vec![20; 20];
        expected[0] = 1;
        assert_eq!(seen, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_passes_its_right_on() {
        let breaker = breaker();
        fail(&breaker).await;
        fail(&breaker).await;
        drop(breaker.admit().await);
        breaker.admit().await.alive();
        assert_eq!(breaker.open_because(), None);
    }
}
