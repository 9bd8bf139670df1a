//! Text that comes from a submission, made harmless to a terminal.

/// The text with every control character but line feed and tab shown as an escape, those of
/// Unicode that reorder or hide text too.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if c.is_control() || hides(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Direction overrides, zero-width characters and tags.
fn hides(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_lose_their_power_and_plain_text_stays() {
        assert_eq!(harmless("ok: 1.5 ×\n\tnext"), "ok: 1.5 ×\n\tnext");
        assert_eq!(harmless("\x1b[2J\x07"), "\\u{1b}[2J\\u{7}");
        assert_eq!(harmless("a\u{202e}b\u{9b}c"), "a\\u{202e}b\\u{9b}c");
    }
}
