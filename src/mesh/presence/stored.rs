//! How ids and versions are stored by the mesh: as their texts, checked again when they are read.
//!
//! The model itself stays free of serde, which the host does not have.

use crate::model::{NodeId, RolloutId, Version};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

macro_rules! stored_as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

stored_as_text!(NodeId, RolloutId, Version);
