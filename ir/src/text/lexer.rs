//! Characters to tokens.

use super::ParseError;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// A name or a number.
    Word(&'a str),
    /// Text between double quotes.
    Quoted(&'a str),
    /// One of the characters of [`PUNCTUATION`].
    Punctuation(char),
    /// `->`.
    Arrow,
    /// After the last token.
    End,
}

/// A token and where it starts, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind<'a>,
    pub line: usize,
    pub column: usize,
}

/// Characters that are tokens of their own.
const PUNCTUATION: &str = "(){}[],:=+%$@?";

impl Token<'_> {
    /// The error that something else should stand here.
    pub fn error(&self, expected: impl Into<String>) -> ParseError {
        let found = match self.kind {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Quoted(text) => format!("`\"{text}\"`"),
            Kind::Punctuation(c) => format!("`{c}`"),
            Kind::Arrow => "`->`".into(),
            Kind::End => "the end of the text".into(),
        };
        ParseError { line: self.line, column: self.column, expected: expected.into(), found }
    }
}

/// Splits a text into tokens, the last of which is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = Vec::new();
    let mut line = 1;
    for (index, content) in text.lines().enumerate() {
        line = index + 1;
        line_tokens(content, line, &mut tokens)?;
    }
    let column = text.lines().last().map_or(0, |last| last.chars().count()) + 1;
    tokens.push(Token { kind: Kind::End, line, column });
    Ok(tokens)
}

fn line_tokens<'a>(content: &'a str, line: usize, tokens: &mut Vec<Token<'a>>) -> Result<(), ParseError> {
    let mut rest = content;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            break;
        }
        let (kind, length) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if rest.starts_with("->") {
            (Some(Kind::Arrow), 2)
        } else if PUNCTUATION.contains(first) {
            (Some(Kind::Punctuation(first)), 1)
        } else if let Some(text) = rest.strip_prefix('"') {
            match text.find('"') {
                Some(end) => (Some(Kind::Quoted(&text[..end])), end + 2),
                None => {
                    return Err(unexpected(
                        line,
                        column,
                        "a closing `\"` on the same line",
                        "the end of the line",
                    ));
                }
            }
        } else {
            match word_length(rest) {
                0 => return Err(unexpected(line, column, "a token", &format!("`{first}`"))),
                length => (Some(Kind::Word(&rest[..length])), length),
            }
        };
        tokens.extend(kind.map(|kind| Token { kind, line, column }));
        column += rest[..length].chars().count();
        rest = &rest[length..];
    }
    Ok(())
}

fn unexpected(line: usize, column: usize, expected: &str, found: &str) -> ParseError {
    ParseError { line, column, expected: expected.into(), found: found.into() }
}

/// Bytes of the name or number a text starts with: letters, digits, `_` and `.` after an optional
/// `-`, and the sign of a number's exponent.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let start = usize::from(bytes[0] == b'-');
    let is_number = bytes.get(start).is_some_and(u8::is_ascii_digit);
    let mut length = start;
    while let Some(&byte) = bytes.get(length) {
        let exponent = is_number && matches!(byte, b'+' | b'-') && bytes[length - 1] == b'e';
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') || exponent && length > start) {
            break;
        }
        length += 1;
    }
    if length == start { 0 } else { length }
}
