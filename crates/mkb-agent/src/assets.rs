//! The scripts that an agent finds in `/tests`.

/// Submits a snapshot of `/app/kernel.py` and waits for the report.
pub const TEST_SH: &str = include_str!("../assets/test.sh");

/// A prompt that opens with the minutes used and left.
pub const CLOCK_SH: &str = include_str!("../assets/clock.sh");

/// Both, as [`AttemptConfig::tests`](crate::AttemptConfig::tests) takes them.
pub fn tests() -> Vec<(String, Vec<u8>)> {
    [("test.sh", TEST_SH), ("clock.sh", CLOCK_SH)]
        .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
        .into()
}
