//! Tests of the times of jobs: changes of daylight saving time, and machines that sleep.

use jiff::civil::date;
use jiff::tz::TimeZone;

use crate::schedule::{DueRun, JobSchedule};

/// A time in a time zone, in milliseconds since 1970.
fn at(zone: &str, day: i8, month: i8, hour: i8, minute: i8) -> i64 {
    let time = date(2026, month, day).at(hour, minute, 0, 0);
    let zone = TimeZone::get(zone).unwrap();
    time.to_zoned(zone).unwrap().timestamp().as_millisecond()
}

fn job(schedule: &str, zone: &str, jitter: u64) -> JobSchedule {
    JobSchedule::parse("job", schedule, zone, jitter).unwrap()
}

const BERLIN: &str = "Europe/Berlin";

#[test]
fn a_job_is_due_once_at_its_time_in_its_time_zone() {
    let daily = job("0 9 * * *", BERLIN, 0);
    let (before, nine) = (at(BERLIN, 15, 1, 8, 59), at(BERLIN, 15, 1, 9, 0));
    assert_eq!(
        daily.due_at(before, before).unwrap(),
        DueRun::Next(Some(nine))
    );
    assert_eq!(daily.due_at(nine, before).unwrap(), DueRun::At(nine));
    assert_eq!(
        daily.due_at(nine + 30_000, before).unwrap(),
        DueRun::At(nine)
    );
    let next = at(BERLIN, 16, 1, 9, 0);
    assert_eq!(daily.due_at(nine, nine).unwrap(), DueRun::Next(Some(next)));
    // Nine in Berlin is eight in UTC in winter and seven in summer.
    assert_eq!(nine, at("UTC", 15, 1, 8, 0));
    assert_eq!(at(BERLIN, 15, 7, 9, 0), at("UTC", 15, 7, 7, 0));
}

#[test]
fn runs_of_a_machine_that_slept_are_missed_and_the_last_of_them_stands_for_all() {
    let daily = job("0 9 * * *", BERLIN, 0);
    let (slept, woke) = (at(BERLIN, 10, 1, 12, 0), at(BERLIN, 15, 1, 7, 0));
    let last = at(BERLIN, 14, 1, 9, 0);
    assert_eq!(daily.due_at(woke, slept).unwrap(), DueRun::Missed(last));
    let next = at(BERLIN, 15, 1, 9, 0);
    assert_eq!(daily.due_at(woke, last).unwrap(), DueRun::Next(Some(next)));
}

/// Returns the times of a job's runs if it is checked every half minute.
fn runs(job: &JobSchedule, from: i64, to: i64) -> Vec<i64> {
    let (mut now, mut last, mut runs) = (from, from, Vec::new());
    while now < to {
        if let DueRun::At(time) | DueRun::Missed(time) = job.due_at(now, last).unwrap() {
            (last, runs) = (time, [runs, vec![now]].concat());
        }
        now += 30_000;
    }
    runs
}

#[test]
fn a_job_runs_once_in_each_night_in_which_clocks_change() {
    let nightly = job("30 2 * * *", BERLIN, 0);
    // Half past two does not exist on March 29, and comes twice on October 25.
    for (day, month) in [(29, 3), (25, 10)] {
        let (from, to) = (
            at(BERLIN, day - 1, month, 12, 0),
            at(BERLIN, day, month, 12, 0),
        );
        let runs = runs(&nightly, from, to);
        assert_eq!(runs.len(), 1, "{day}.{month}.: {runs:?}");
    }
    // An hourly job runs in each of the 23 and 25 hours of these days.
    let hourly = job("15 * * * *", BERLIN, 0);
    for (day, month, n) in [(29, 3, 23), (25, 10, 25), (15, 7, 24)] {
        let (from, to) = (
            at(BERLIN, day, month, 0, 0),
            at(BERLIN, day + 1, month, 0, 0),
        );
        assert_eq!(runs(&hourly, from, to).len(), n, "{day}.{month}.");
    }
}

#[test]
fn a_delay_is_within_its_bounds_the_same_at_every_look_and_loses_no_run() {
    let spread = job("*/5 * * * *", "UTC", 240);
    let (from, to) = (at("UTC", 15, 1, 0, 1), at("UTC", 15, 1, 4, 0));
    let times = runs(&spread, from, to);
    assert!(times.len() >= 46, "{}", times.len());
    let delays: std::collections::BTreeSet<i64> = times.iter().map(|time| time % 300_000).collect();
    assert!(delays.len() > 5, "{delays:?}");
    assert!(
        delays.iter().all(|delay| *delay <= 240_000 + 30_000),
        "{delays:?}"
    );
    assert_eq!(runs(&spread, from, to), times);
}

#[test]
fn a_schedule_or_a_time_zone_that_is_none_is_an_error_that_names_the_job() {
    for (schedule, zone) in [
        ("61 * * * *", "UTC"),
        ("", "UTC"),
        ("* * * * *", "Nowhere/City"),
    ] {
        let error = JobSchedule::parse("job", schedule, zone, 0).err().unwrap();
        assert!(error.message().contains("job `job`"), "{error:?}");
    }
    // February 30 never comes.
    let never = job("0 0 30 2 *", "UTC", 0);
    assert_eq!(never.due_at(0, 0).unwrap(), DueRun::Next(None));
}
