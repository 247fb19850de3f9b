//! Values of `model` as text in the mesh's own JSON (stored records, operator API), through their
//! `Display` and `FromStr`: one spelling, checked whenever it is read.
//!
//! For `#[serde(with = "text")]`; never used for what nodes send (`wire` has its own codec).

use serde::{Deserialize, Deserializer, Serializer};
use std::fmt::Display;
use std::str::FromStr;

/// Writes the value as text.
pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads the value from text.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr,
    T::Err: Display,
    D: Deserializer<'de>,
{
    let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// The same for values that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Display, FromStr, Serializer};

    /// Writes text or null.
    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    /// Reads text or null.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
        }
    }
}

/// [`Facts`](crate::model::Facts) in the mesh's JSON.
#[derive(serde::Serialize, Deserialize)]
#[serde(remote = "crate::model::Facts")]
pub struct FactsText {
    architecture: String,
    package_format: String,
    distribution: String,
    kernel: String,
}
