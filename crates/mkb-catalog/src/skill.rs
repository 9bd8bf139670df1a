//! The attachment that carries what one attempt learned to another, and its digest.

use crate::fingerprint::sha256_hex;

/// What stands above an attached skill: a second-level heading, an empty line, one sentence, an
/// empty line.
const SKILL_HEADING: &str = "## Notes from an earlier attempt\n\nThey were distilled while working \
                             on the same problem in a different kernel DSL.\n\n";

/// The same for the control that transfers within one DSL.
const SAME_DSL_HEADING: &str = "## Notes from an earlier attempt\n\nThey were distilled while \
                                working on the same problem in the same kernel DSL.\n\n";

/// The same for the control that attaches source code.
const CODE_HEADING: &str = "## Source code from an earlier attempt\n\nIt was written while working \
                            on the same problem in a different kernel DSL.\n\n";

/// What an attachment says of where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A skill learned in another DSL.
    OtherDsl,
    /// A skill learned in the same DSL.
    SameDsl,
    /// A kernel written in another DSL.
    Code,
}

/// The attachment made of the text that a source attempt left: the heading, then that text with
/// bad UTF-8 replaced and CR and CRLF as LF. `None` where the text is blank: nothing is
/// transferred.
pub fn attachment(origin: Origin, text: &[u8]) -> Option<String> {
    let text = normalized(text);
    if is_blank(&text) {
        return None;
    }
    let heading = match origin {
        Origin::OtherDsl => SKILL_HEADING,
        Origin::SameDsl => SAME_DSL_HEADING,
        Origin::Code => CODE_HEADING,
    };
    Some(match origin {
        Origin::Code => format!("{heading}```python\n{text}\n```\n"),
        _ => format!("{heading}{text}"),
    })
}

/// The digest that ties a skill trial to what it was given: sha256 over the attachment's bytes.
pub fn digest(attachment: &str) -> String {
    sha256_hex(attachment.as_bytes())
}

/// Whether an attachment of any implementation carries exactly this text: it is a second-level
/// heading, an empty line, one sentence, an empty line, and then the text.
pub fn carries(attachment: &[u8], text: &[u8]) -> bool {
    let attachment = normalized(attachment);
    let mut parts = attachment.splitn(3, "\n\n");
    let (Some(heading), Some(sentence), Some(body)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    heading.starts_with("## ")
        && !heading.contains('\n')
        && !sentence.is_empty()
        && !sentence.contains('\n')
        && body == normalized(text)
}

/// Text as Python reads it with `errors="replace"` and universal newlines.
pub fn normalized(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .replace("\r\n", "\n")
        .replace('\r', "\n")
}

/// Whether nothing but white space is there, as Python's `str.strip` sees it.
pub fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn newlines_and_bad_bytes_come_out_as_python_reads_them() {
        // bytes.decode(errors="replace") with universal newlines, by Python 3.11.
        let cases: [(&[u8], &str); 6] = [
            (b"a\r\nb\rc\n", "a\nb\nc\n"),
            (b"a\r\r\nb", "a\n\nb"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            (b"\xe2\x82(", "\u{fffd}("),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(normalized(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_blank_text_transfers_nothing() {
        for text in ["", " \n\t\n", "\u{1f}\u{a0}\u{2003}\r\n"] {
            assert_eq!(
                attachment(Origin::OtherDsl, text.as_bytes()),
                None,
                "{text:?}"
            );
        }
        assert!(attachment(Origin::OtherDsl, "\u{200b}".as_bytes()).is_some());
    }

    #[test]
    fn an_attachment_is_a_heading_a_sentence_and_the_text() {
        let text = attachment(Origin::OtherDsl, b"One pass: 1.3x.\n").expect("not blank");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("## "));
        assert_eq!((lines[1], lines[3]), ("", ""));
        assert!(lines[2].contains("same problem in a different kernel DSL"));
        assert_eq!(lines[4..], ["One pass: 1.3x."]);
    }

    #[test]
    fn a_foreign_heading_is_known_by_its_form() {
        let foreign = b"## Other words\n\nAnother sentence.\n\nText.\n\nMore.\n";
        assert!(carries(foreign, b"Text.\r\n\r\nMore.\r\n"));
        assert!(!carries(foreign, b"Text.\n"));
        assert!(!carries(b"Text.\n\nMore.\n\nText.\n", b"Text.\n"));
    }

    proptest! {
        #[test]
        fn every_attachment_carries_its_text(text in "\\PC{1,200}\n") {
            prop_assume!(!is_blank(&text));
            let made = attachment(Origin::OtherDsl, text.as_bytes()).expect("not blank");
            prop_assert!(carries(made.as_bytes(), text.as_bytes()));
        }
    }
}
