//! Processor time, which other work on the machine does not lengthen as it does elapsed time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What the calling thread spends on `work`, the least of three times.
pub fn processor_time(mut work: impl FnMut()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let once = || {
        let start = now();
        work();
        now() - start
    };
    std::iter::repeat_with(once)
        .take(3)
        .min()
        .unwrap_or_default()
}
