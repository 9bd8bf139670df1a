//! Splits the text into tokens; knows no grammar.

use super::ParseError;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A mnemonic, keyword, directive or special register: letters, digits, `_`, `$`, `.`.
    Word,
    /// `%name`, the text without the percent sign.
    Register,
    /// `@name` of a kernel, the text without the at sign.
    Symbol,
    /// Begins with a digit.
    Number,
    /// Between double quotes, escapes not yet undone.
    String,
    /// One of `[ ] { } ( ) , : | + - ! @`.
    Punct(u8),
    /// End of a line.
    Newline,
    /// End of the text.
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub line: u32,
    pub column: u32,
}

impl Token<'_> {
    /// An error at this token.
    pub fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError {
            line: self.line,
            column: self.column,
            message: message.into(),
        }
    }

    /// The token in words, shortened, for messages.
    pub fn describe(&self) -> String {
        let short: String = self.text.chars().take(40).collect();
        match self.kind {
            Kind::Word | Kind::Number => format!("`{short}`"),
            Kind::Register => format!("`%{short}`"),
            Kind::Symbol => format!("`@{short}`"),
            Kind::String => "a string".into(),
            Kind::Punct(c) => format!("`{}`", c as char),
            Kind::Newline => "the end of the line".into(),
            Kind::End => "the end of the text".into(),
        }
    }
}

/// The rest of a text, read token by token.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

const fn starts_name(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'.')
}

const fn continues_name(c: u8) -> bool {
    starts_name(c) || c.is_ascii_digit()
}

/// Whether a text is a name as registers, parameters and kernels have them.
pub(crate) fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&c| starts_name(c)) && bytes.iter().all(|&c| continues_name(c))
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Lexer {
            text,
            at: 0,
            line: 1,
            line_start: 0,
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.byte(0).is_some_and(&keep) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// The next token.
    pub fn next(&mut self) -> Result<Token<'a>, ParseError> {
        self.take_while(|c| matches!(c, b' ' | b'\t' | b'\r'));
        if self.byte(0) == Some(b'#') {
            self.take_while(|c| c != b'\n');
        }
        let mut token = Token {
            kind: Kind::End,
            text: "",
            line: self.line,
            column: u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX),
        };
        let Some(c) = self.byte(0) else {
            return Ok(token);
        };
        match c {
            b'\n' => {
                self.at += 1;
                self.line = self.line.saturating_add(1);
                self.line_start = self.at;
                token.kind = Kind::Newline;
            }
            b'%' | b'@' if self.byte(1).is_some_and(starts_name) => {
                self.at += 1;
                token.kind = if c == b'%' {
                    Kind::Register
                } else {
                    Kind::Symbol
                };
                token.text = self.take_while(continues_name);
            }
            b'"' => {
                token.kind = Kind::String;
                token.text = self.string(&token)?;
            }
            b'[' | b']' | b'{' | b'}' | b'(' | b')' | b',' | b':' | b'|' | b'+' | b'-' | b'!'
            | b'@' => {
                self.at += 1;
                token.kind = Kind::Punct(c);
            }
            _ if c.is_ascii_digit() => {
                token.kind = Kind::Number;
                token.text = self.number();
            }
            _ if starts_name(c) => {
                token.kind = Kind::Word;
                token.text = self.take_while(continues_name);
            }
            _ => {
                let found = self.text[self.at..].chars().next().unwrap_or('?');
                return Err(token.error(format!("unexpected character {found:?}")));
            }
        }
        Ok(token)
    }

    /// A number as written; a decimal exponent may have a sign.
    fn number(&mut self) -> &'a str {
        let start = self.at;
        self.take_while(|c| c.is_ascii_alphanumeric() || c == b'.' || c == b'_');
        let text = &self.text[start..self.at];
        let prefixed = text.len() > 1
            && text.starts_with('0')
            && matches!(text.as_bytes()[1] | 0x20, b'x' | b'f' | b'd' | b'h');
        if !prefixed && text.ends_with(['e', 'E']) && matches!(self.byte(0), Some(b'+' | b'-')) {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        &self.text[start..self.at]
    }

    /// The inside of a string; leaves the lexer after the closing quote.
    fn string(&mut self, open: &Token<'_>) -> Result<&'a str, ParseError> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.byte(0) {
                None | Some(b'\n') => {
                    return Err(open.error("the string is not closed on its line"));
                }
                Some(b'"') => break,
                // The escaped character may be the first of several bytes; the rest follow as plain text.
                Some(b'\\') if self.byte(1).is_some_and(|c| c != b'\n') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        let text = &self.text[start..self.at];
        self.at += 1;
        Ok(text)
    }
}

/// Undoes the escapes of a string token.
pub(super) fn unescape(token: &Token<'_>) -> Result<String, ParseError> {
    let mut out = String::with_capacity(token.text.len());
    let mut rest = token.text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('"') => out.push('"'),
            Some('\\') => out.push('\\'),
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                match u8::from_str_radix(&digits, 16) {
                    Ok(code @ 0..=0x7f) if digits.len() == 2 && !digits.starts_with('+') => {
                        out.push(code as char);
                    }
                    _ => {
                        return Err(token.error(
                            "`\\x` takes two hexadecimal digits up to 7f; \
                             write other characters as they are",
                        ));
                    }
                }
            }
            _ => return Err(token.error("unknown escape; there are \\n \\t \\\" \\\\ \\xHH")),
        }
    }
    Ok(out)
}

/// A text with its escapes, between double quotes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\x{:02x}", c as u32)),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
