//! When to try again: backoff with jitter, and what the provider asks for.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// How to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// The provider's faults (failures, cut or malformed answers, stalls, lost connections) after
    /// which a call ends. Rate limits do not count; they are waited for until the deadline.
    pub most_faults: u32,
    /// The pause after the first fault; it doubles with each.
    pub first_pause: Duration,
    /// The longest pause, unless the provider asks for a longer one.
    pub longest_pause: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            most_faults: 6,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
        }
    }
}

impl RetrySettings {
    /// The pause before the retry of this number, counted from 0: between half and all of the
    /// doubled pause, so that callers who failed together do not come back together.
    pub fn pause(&self, retry: u32, asked: Option<Duration>) -> Duration {
        self.pause_at(retry, asked, random_share())
    }

    fn pause_at(&self, retry: u32, asked: Option<Duration>, share: f64) -> Duration {
        let doubled = self.first_pause.saturating_mul(2u32.saturating_pow(retry));
        let own = doubled.min(self.longest_pause).mul_f64(0.5 + share / 2.0);
        match asked {
            None => own,
            // Never earlier than asked for, and not all at the same instant.
            Some(asked) => asked
                .max(own)
                .saturating_add(self.first_pause.mul_f64(share)),
        }
    }
}

/// A number from 0 to 1. Without the system's randomness there is no jitter, which is no harm.
fn random_share() -> f64 {
    getrandom::u32().map_or(0.0, |number| f64::from(number) / f64::from(u32::MAX))
}

/// How long an answer's headers ask to wait: `retry-after-ms`, else `Retry-After` in seconds or as
/// an HTTP date (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>).
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str, unit: f64| {
        let amount: f64 = text(name)?.parse().ok()?;
        Duration::try_from_secs_f64(amount * unit).ok()
    };
    number("retry-after-ms", 1e-3)
        .or_else(|| number("retry-after", 1.0))
        .or_else(|| until_date(text("retry-after")?, now))
}

fn until_date(date: &str, now: SystemTime) -> Option<Duration> {
    let at = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    let at: SystemTime = at.into();
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn asked(pairs: &[(&'static str, &str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_static(name);
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
        // 1994-11-15 08:12:31 UTC, the date of RFC 9110's examples.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_887_151);
        retry_after(&headers, now)
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        assert_eq!(
            asked(&[("retry-after", "120")]),
            Some(Duration::from_secs(120))
        );
        assert_eq!(
            asked(&[("retry-after", "0.25")]),
            Some(Duration::from_millis(250))
        );
        let date = "Tue, 15 Nov 1994 08:13:01 GMT";
        assert_eq!(
            asked(&[("retry-after", date)]),
            Some(Duration::from_secs(30))
        );
        let past = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(asked(&[("retry-after", past)]), Some(Duration::ZERO));
        let both = [("retry-after", "2"), ("retry-after-ms", "1500")];
        assert_eq!(asked(&both), Some(Duration::from_millis(1500)));
        for wrong in ["", "soon", "-1", "NaN", "1e999"] {
            assert_eq!(asked(&[("retry-after", wrong)]), None, "{wrong}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_vary_by_half() {
        let settings = RetrySettings {
            most_faults: 9,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(10),
        };
        let pauses =
            |share| [0, 1, 2, 3, 4, 99].map(|n| settings.pause_at(n, None, share).as_secs_f64());
        assert_eq!(pauses(1.0), [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]);
        assert_eq!(pauses(0.0), [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]);
    }

    #[test]
    fn a_retry_is_never_earlier_than_asked_for() {
        let settings = RetrySettings::default();
        let asked = Some(Duration::from_secs(90));
        assert_eq!(settings.pause_at(0, asked, 0.0), Duration::from_secs(90));
        assert!(settings.pause_at(0, asked, 1.0) > Duration::from_secs(90));
        assert_eq!(
            settings.pause_at(20, Some(Duration::ZERO), 0.0),
            Duration::from_secs(15)
        );
    }
}
