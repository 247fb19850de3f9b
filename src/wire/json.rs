//! A reader over a parsed JSON value that remembers where it is, so that a refusal can say
//! `resources[3].mode: expected text, found a number`.
//!
//! The parser is miniserde's: it bounds neither nesting nor size, but it neither recurses when it
//! parses nor when it drops; whoever calls bounds the bytes first (`limits`).

use miniserde::json::{Number, Object, Value};
use std::fmt;

/// A place in a document and what was wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// For example `resources[3].mode`; empty for the document itself.
    pub path: String,
    /// What the reader wanted.
    pub expected: String,
    /// What stood there.
    pub found: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the document" } else { &self.path };
        write!(f, "{path}: expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for Wrong {}

/// One value and the path to it.
#[derive(Clone, Debug)]
pub struct At<'a> {
    value: &'a Value,
    path: String,
}

/// Parses a text; the error has no place because the parser tells none.
pub fn parse(text: &str) -> Result<Value, Wrong> {
    miniserde::json::from_str(text).map_err(|_| Wrong {
        path: String::new(),
        expected: "JSON".into(),
        found: if text.trim().is_empty() { "nothing".into() } else { "text that is no JSON".into() },
    })
}

impl<'a> At<'a> {
    /// The whole document.
    pub fn root(value: &'a Value) -> Self {
        At { value, path: String::new() }
    }

    /// An error at this place.
    pub fn wrong(&self, expected: impl Into<String>) -> Wrong {
        Wrong { path: self.path.clone(), expected: expected.into(), found: describe(self.value) }
    }

    fn object(&self) -> Result<&'a Object, Wrong> {
        match self.value {
            Value::Object(object) => Ok(object),
            _ => Err(self.wrong("an object")),
        }
    }

    /// The field of this name, if it is there and not `null`.
    pub fn optional(&self, name: &str) -> Result<Option<At<'a>>, Wrong> {
        let found = self.object()?.get(name);
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Ok(found.filter(|value| !matches!(value, Value::Null)).map(|value| At { value, path }))
    }

    /// The field of this name; an error if it is missing or `null`.
    pub fn field(&self, name: &str) -> Result<At<'a>, Wrong> {
        self.optional(name)?.ok_or_else(|| Wrong {
            path: if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) },
            expected: "a value".into(),
            found: "nothing".into(),
        })
    }

    /// The items of an array.
    pub fn items(&self) -> Result<Vec<At<'a>>, Wrong> {
        match self.value {
            Value::Array(array) => Ok(array
                .iter()
                .enumerate()
                .map(|(i, value)| At { value, path: format!("{}[{i}]", self.path) })
                .collect()),
            _ => Err(self.wrong("an array")),
        }
    }

    /// A text.
    pub fn text(&self) -> Result<&'a str, Wrong> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong("text")),
        }
    }

    /// A text that parses as `T`; `what` names it in the error.
    pub fn parsed<T: std::str::FromStr>(&self, what: &str) -> Result<T, Wrong> {
        self.text()?.parse().map_err(|_| self.wrong(what))
    }

    /// A whole number from zero on.
    pub fn number(&self) -> Result<u64, Wrong> {
        match self.value {
            Value::Number(Number::U64(number)) => Ok(*number),
            Value::Number(Number::I64(number)) if *number >= 0 => Ok(number.unsigned_abs()),
            _ => Err(self.wrong("a whole number from 0 on")),
        }
    }

    /// True or false.
    pub fn flag(&self) -> Result<bool, Wrong> {
        match self.value {
            Value::Bool(flag) => Ok(*flag),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// The names of an object's fields.
    pub fn names(&self) -> Result<Vec<&'a str>, Wrong> {
        Ok(self.object()?.keys().map(String::as_str).collect())
    }

    /// Where this value stands.
    pub fn path(&self) -> &str {
        &self.path
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(Number::U64(number)) => number.to_string(),
        Value::Number(Number::I64(number)) => number.to_string(),
        Value::Number(Number::F64(number)) => number.to_string(),
        Value::String(text) => format!("'{}'", super::limits::cut(text, 64)),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, read: impl Fn(At<'_>) -> Result<(), Wrong>) -> String {
        match parse(text) {
            Err(wrong) => wrong.to_string(),
            Ok(value) => read(At::root(&value)).unwrap_err().to_string(),
        }
    }

    #[test]
    fn errors_name_the_place() {
        let read = |at: At<'_>| {
            for item in at.field("a")?.items()? {
                item.field("b")?.number()?;
            }
            Ok(())
        };
        assert_eq!(said("", read), "the document: expected JSON, found nothing");
        assert_eq!(said("{", read), "the document: expected JSON, found text that is no JSON");
        assert_eq!(said("null", read), "the document: expected an object, found null");
        assert_eq!(said("{}", read), "a: expected a value, found nothing");
        assert_eq!(said(r#"{"a":{}}"#, read), "a: expected an array, found an object");
        assert_eq!(
            said(r#"{"a":[{"b":1},{"b":-1}]}"#, read),
            "a[1].b: expected a whole number from 0 on, found -1"
        );
        assert_eq!(said(r#"{"a":[{"b":null}]}"#, read), "a[0].b: expected a value, found nothing");
    }

    #[test]
    fn deep_nesting_neither_overflows_nor_hangs() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        if let Ok(value) = parse(&deep) {
            assert!(At::root(&value).text().is_err());
        }
    }
}
