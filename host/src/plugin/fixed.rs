//! Fixed clock and random numbers for guests in tests, so that a test case behaves the same in
//! every run.
//!
//! The monotonic clock stays real, because guests use it to wait. Start from
//! [`FixedClockAndRandomSeed`].

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand_core::TryRng;
use wasmtime_wasi::{HostWallClock, WasiCtxBuilder};

/// Default time of guests, in seconds since 1970: the beginning of 2026.
const DEFAULT_GUEST_UNIX_TIME_SECONDS: u64 = 1_767_225_600;

/// Step of the generator `SplitMix64`, which turns any seed into well-mixed numbers.
const SPLITMIX64_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Wall clock and random numbers that guests get. Each call in a session has its own sequence of
/// random numbers, regardless of earlier calls to the same instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedClockAndRandomSeed {
    /// Time since 1970 that every reading of the wall clock returns.
    now: Duration,
    seed: u64,
}

impl Default for FixedClockAndRandomSeed {
    fn default() -> Self {
        Self {
            now: Duration::from_secs(DEFAULT_GUEST_UNIX_TIME_SECONDS),
            seed: 0,
        }
    }
}

impl FixedClockAndRandomSeed {
    /// Creates a clock that shows `clock`, an RFC 3339 time, and random numbers with this seed. A
    /// missing value is replaced by its default.
    ///
    /// # Errors
    /// The text is not a time, or is a time before 1970.
    pub fn with_clock_and_seed(clock: Option<&str>, seed: Option<u64>) -> Result<Self, String> {
        let default = Self::default();
        let now = clock.map_or(Ok(default.now), |text| {
            let wrong =
                || format!("`{text}` is not a time since 1970: write it as `2026-01-31T12:00:00Z`");
            let time: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
            let since = time.as_duration();
            Duration::try_from(since).map_err(|_| wrong())
        })?;
        Ok(Self {
            now,
            seed: seed.unwrap_or(default.seed),
        })
    }

    /// Installs the fixed clock and random numbers in the guest's WASI context.
    pub(super) fn install_in_guest(
        self,
        wasi: &mut WasiCtxBuilder,
        numbers: &SeededRandomGenerator,
    ) {
        wasi.wall_clock(FixedClock(self.now))
            .secure_random(numbers.clone())
            .insecure_random(numbers.clone())
            .insecure_random_seed(u128::from(self.seed));
    }
}

struct FixedClock(Duration);

impl HostWallClock for FixedClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}

/// Number of calls of a plugin in one session, over all of the plugin's instances.
#[derive(Debug, Default)]
pub(super) struct PluginCallCount(AtomicU64);

/// Generator of the reproducible random numbers of one instance (`SplitMix64`).
#[derive(Clone, Debug, Default)]
pub(super) struct SeededRandomGenerator(Arc<AtomicU64>);

impl SeededRandomGenerator {
    /// Starts the sequence of random numbers of the next call.
    pub(super) fn start_random_sequence_of_call(
        &self,
        world: FixedClockAndRandomSeed,
        calls: &PluginCallCount,
    ) {
        let number = calls.0.fetch_add(1, Ordering::Relaxed);
        self.0
            .store(mix_bits(world.seed ^ mix_bits(number)), Ordering::Relaxed);
    }

    fn next(&self) -> u64 {
        mix_bits(self.0.fetch_add(SPLITMIX64_STEP, Ordering::Relaxed))
    }
}

fn mix_bits(number: u64) -> u64 {
    let mixed = number.wrapping_add(SPLITMIX64_STEP);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl TryRng for SeededRandomGenerator {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let [a, b, c, d, ..] = self.next().to_le_bytes();
        Ok(u32::from_le_bytes([a, b, c, d]))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for part in bytes.chunks_mut(size_of::<u64>()) {
            let number = self.next().to_le_bytes();
            part.iter_mut()
                .zip(number)
                .for_each(|(byte, from)| *byte = from);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_call_depend_on_the_seed_and_its_number_alone() {
        let numbers_of = |world: FixedClockAndRandomSeed, n_before: usize, n_instances: usize| {
            let calls = PluginCallCount::default();
            let mut all: Vec<SeededRandomGenerator> = (0..n_instances)
                .map(|_| SeededRandomGenerator::default())
                .collect();
            let mut bytes = [0; 20];
            for n in 0..=n_before {
                let instance = &mut all[n % n_instances];
                instance.start_random_sequence_of_call(world, &calls);
                instance.try_fill_bytes(&mut bytes).unwrap();
            }
            bytes
        };
        let world = FixedClockAndRandomSeed::default();
        assert_eq!(numbers_of(world, 3, 1), numbers_of(world, 3, 4));
        assert_ne!(numbers_of(world, 3, 1), numbers_of(world, 2, 1));
        let other = FixedClockAndRandomSeed::with_clock_and_seed(None, Some(1)).unwrap();
        assert_ne!(numbers_of(world, 0, 1), numbers_of(other, 0, 1));
    }

    #[test]
    fn a_clock_is_a_time_from_1970_on() {
        let world =
            FixedClockAndRandomSeed::with_clock_and_seed(Some("1970-01-01T00:01:00+00:00"), None)
                .unwrap();
        assert_eq!(FixedClock(world.now).now(), Duration::from_secs(60));
        for text in ["", "noon", "2026-01-01", "1969-12-31T23:59:59Z"] {
            assert!(
                FixedClockAndRandomSeed::with_clock_and_seed(Some(text), None).is_err(),
                "{text}"
            );
        }
    }
}
