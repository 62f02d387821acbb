//! Parses quiet hours: a range of the day in a time zone, which may cross midnight.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use rind_sdk::types::Error;

/// Hours of the day in which no turn is run.
pub(crate) struct QuietHours {
    /// Start (inclusive) and end (exclusive) of the quiet hours; `None` if none are configured.
    hours: Option<(Time, Time)>,
    zone: TimeZone,
}

impl QuietHours {
    /// Parses a range such as `22:00-07:00`. An empty text means no quiet hours.
    pub(crate) fn parse(text: &str, zone: &str) -> Result<Self, Error> {
        // Use the bundled time zones: the plugin cannot see those of the file system.
        let zone = TimeZoneDatabase::bundled()
            .get(zone)
            .map_err(|error| Error::InvalidInput(format!("`timezone`: {error}")))?;
        let hours = match text.split_once('-') {
            Some((from, to)) => Some((parse_time(from)?, parse_time(to)?)),
            None => None,
        };
        Ok(Self { hours, zone })
    }

    /// Whether a time, in milliseconds since 1970, is in the quiet hours.
    pub(crate) fn is_quiet_at(&self, ms: u64) -> Result<bool, Error> {
        let Some((from, to)) = self.hours else {
            return Ok(false);
        };
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        let now = Timestamp::from_millisecond(ms)
            .map_err(|error| Error::Failed(format!("the clock: {error}")))?;
        let time = now.to_zoned(self.zone.clone()).time();
        Ok(match from <= to {
            true => from <= time && time < to,
            false => from <= time || time < to,
        })
    }
}

fn parse_time(text: &str) -> Result<Time, Error> {
    let invalid = || Error::InvalidInput(format!("`quiet`: `{text}` is not a time such as 22:00"));
    let (hour, minute) = text.trim().split_once(':').ok_or_else(invalid)?;
    let (hour, minute) = (hour.parse(), minute.parse());
    let (hour, minute): (i8, i8) = (hour.map_err(|_| invalid())?, minute.map_err(|_| invalid())?);
    Time::new(hour, minute, 0, 0).map_err(|_| invalid())
}
