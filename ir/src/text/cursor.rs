//! Walking over tokens: the pieces every part of the grammar is made of.

use super::ParseError;
use super::lexer::{Kind, Token, tokens};
use crate::{DType, Shape};
use std::str::FromStr;

/// Tokens and the position of the next one.
pub(super) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Result<Self, ParseError> {
        Ok(Self { tokens: tokens(text)?, next: 0 })
    }

    /// The next token; the last one is [`Kind::End`] and stays.
    pub fn peek(&self) -> Token<'a> {
        self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    pub fn error<T>(&self, expected: impl Into<String>) -> Result<T, ParseError> {
        Err(self.peek().error(expected))
    }

    fn advance_if(&mut self, kind: Kind<'_>) -> bool {
        let found = self.peek().kind == kind;
        self.next += usize::from(found);
        found
    }

    /// Takes a punctuation character if it is next.
    pub fn eat(&mut self, c: char) -> bool {
        self.advance_if(Kind::Punctuation(c))
    }

    /// Whether a punctuation character is next.
    pub fn at(&self, c: char) -> bool {
        self.peek().kind == Kind::Punctuation(c)
    }

    pub fn punctuation(&mut self, c: char) -> Result<(), ParseError> {
        if self.eat(c) { Ok(()) } else { self.error(format!("`{c}`")) }
    }

    pub fn arrow(&mut self) -> Result<(), ParseError> {
        if self.advance_if(Kind::Arrow) { Ok(()) } else { self.error("`->`") }
    }

    /// Takes a word if it is next.
    pub fn eat_word(&mut self, word: &str) -> bool {
        self.advance_if(Kind::Word(word))
    }

    pub fn word(&mut self, word: &str) -> Result<(), ParseError> {
        if self.eat_word(word) { Ok(()) } else { self.error(format!("`{word}`")) }
    }

    /// A word that names or spells a value, such as an operation, an element type or a number.
    pub fn value<T: FromStr>(&mut self, what: &str) -> Result<T, ParseError> {
        if let Kind::Word(word) = self.peek().kind
            && let Ok(value) = word.parse()
        {
            self.next += 1;
            return Ok(value);
        }
        self.error(what)
    }

    /// A word followed by a value: `axis 1`.
    pub fn field<T: FromStr>(&mut self, name: &str, what: &str) -> Result<T, ParseError> {
        self.word(name)?;
        self.value(what)
    }

    /// The text between quotes.
    pub fn quoted(&mut self, what: &str) -> Result<&'a str, ParseError> {
        let Kind::Quoted(text) = self.peek().kind else { return self.error(what) };
        self.next += 1;
        Ok(text)
    }

    /// A sigil and a number: `%3`, `$0`, `@1`.
    pub fn reference(&mut self, sigil: char) -> Result<u32, ParseError> {
        self.punctuation(sigil)?;
        self.value("a number")
    }

    /// A sigil and exactly this number: definitions are numbered in order.
    pub fn definition(&mut self, sigil: char, number: usize) -> Result<(), ParseError> {
        let token = self.peek();
        match self.reference(sigil) {
            Ok(found) if found as usize == number => Ok(()),
            _ => Err(token.error(format!("`{sigil}{number}` (definitions are numbered in order)"))),
        }
    }

    /// Items separated by commas, at least one.
    pub fn separated<T, C: Extend<T> + Default>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<C, ParseError> {
        let mut items = C::default();
        loop {
            items.extend([item(self)?]);
            if !self.eat(',') {
                return Ok(items);
            }
        }
    }

    /// Items separated by commas between two delimiters, maybe none.
    pub fn list<T, C: Extend<T> + Default>(
        &mut self,
        delimiters: [char; 2],
        item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<C, ParseError> {
        self.punctuation(delimiters[0])?;
        if self.eat(delimiters[1]) {
            return Ok(C::default());
        }
        let items = self.separated(item)?;
        if self.eat(delimiters[1]) { Ok(items) } else { self.error(format!("`,` or `{}`", delimiters[1])) }
    }

    /// Numbers in brackets: `[1, 2]`.
    pub fn numbers<T: FromStr, C: Extend<T> + Default>(&mut self, what: &str) -> Result<C, ParseError> {
        self.list(['[', ']'], |cursor| cursor.value(what))
    }

    /// A word followed by numbers in brackets: `shape [2, 3]`.
    pub fn numbers_field<T: FromStr, C: Extend<T> + Default>(
        &mut self,
        name: &str,
        what: &str,
    ) -> Result<C, ParseError> {
        self.word(name)?;
        self.numbers(what)
    }

    pub fn dtype(&mut self) -> Result<DType, ParseError> {
        self.value("an element type")
    }

    pub fn shape(&mut self) -> Result<Shape, ParseError> {
        Ok(Shape(self.numbers("an extent")?))
    }

    /// Nothing may follow.
    pub fn end(&self) -> Result<(), ParseError> {
        if self.peek().kind == Kind::End { Ok(()) } else { self.error("the end of the text") }
    }
}
