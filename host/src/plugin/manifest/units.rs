//! Sizes and durations in the notation of manifests.
//!
//! For example:
//!
//! ```text
//! 64MiB    ->  67108864 bytes
//! 64MB     ->  error: not a size like "64MiB" (B, KiB, MiB, GiB)
//! 500ms    ->  500 milliseconds
//! 5s       ->  5000 milliseconds
//! 1m       ->  error: not a time like "5s" or "500ms"
//! ```

/// Sizes such as `"64MiB"`: a number and one of B, KiB, MiB, GiB.
pub(super) mod bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    const BYTE_SIZE_UNITS: [(&str, u64); 4] = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("B", 1),
    ];

    pub(in crate::plugin::manifest) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = BYTE_SIZE_UNITS.iter().find_map(|(unit, factor)| {
            let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            number.checked_mul(*factor)
        });
        match parsed {
            Some(0) => Err(D::Error::custom("a size of 0 leaves no room for anything")),
            Some(bytes) => Ok(Some(bytes)),
            None => Err(D::Error::custom(format!(
                "`{text}` is not a size like \"64MiB\" (B, KiB, MiB, GiB)"
            ))),
        }
    }

    pub(in crate::plugin::manifest) fn serialize<S: Serializer>(
        value: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = value.map(|bytes| format!("{bytes}B"));
        text.serialize(serializer)
    }
}

/// Durations such as `"5s"` or `"500ms"`.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(in crate::plugin::manifest) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let millis = match text.strip_suffix("ms") {
            Some(number) => number.trim().parse::<u64>().ok(),
            None => text
                .strip_suffix('s')
                .and_then(|number| number.trim().parse::<u64>().ok()?.checked_mul(1000)),
        };
        match millis {
            Some(0) => Err(D::Error::custom(
                "a time of 0 would stop every call before it starts",
            )),
            Some(millis) => Ok(Some(Duration::from_millis(millis))),
            None => Err(D::Error::custom(format!(
                "`{text}` is not a time like \"5s\" or \"500ms\""
            ))),
        }
    }

    pub(in crate::plugin::manifest) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = value.map(|time| format!("{}ms", time.as_millis()));
        text.serialize(serializer)
    }
}
