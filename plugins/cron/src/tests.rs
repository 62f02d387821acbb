//! Tests of the times of jobs: changes of daylight saving time, and machines that sleep.

use jiff::civil::date;
use jiff::tz::TimeZone;

use crate::schedule::{DueJobRunResult, JobSchedule};

/// A time in a time zone, in milliseconds since 1970.
fn unix_ms_in_zone(zone: &str, day: i8, month: i8, hour: i8, minute: i8) -> i64 {
    let time = date(2026, month, day).at(hour, minute, 0, 0);
    let zone = TimeZone::get(zone).unwrap();
    time.to_zoned(zone).unwrap().timestamp().as_millisecond()
}

fn job_schedule(schedule: &str, zone: &str, jitter: u64) -> JobSchedule {
    JobSchedule::parse("job", schedule, zone, jitter).unwrap()
}

const BERLIN: &str = "Europe/Berlin";

#[test]
fn a_job_is_due_once_at_its_time_in_its_time_zone() {
    let daily = job_schedule("0 9 * * *", BERLIN, 0);
    let (before, nine) = (
        unix_ms_in_zone(BERLIN, 15, 1, 8, 59),
        unix_ms_in_zone(BERLIN, 15, 1, 9, 0),
    );
    assert_eq!(
        daily.find_due_run(before, before).unwrap(),
        DueJobRunResult::Next(Some(nine))
    );
    assert_eq!(
        daily.find_due_run(nine, before).unwrap(),
        DueJobRunResult::At(nine)
    );
    assert_eq!(
        daily.find_due_run(nine + 30_000, before).unwrap(),
        DueJobRunResult::At(nine)
    );
    let next = unix_ms_in_zone(BERLIN, 16, 1, 9, 0);
    assert_eq!(
        daily.find_due_run(nine, nine).unwrap(),
        DueJobRunResult::Next(Some(next))
    );
    // Nine in Berlin is eight in UTC in winter and seven in summer.
    assert_eq!(nine, unix_ms_in_zone("UTC", 15, 1, 8, 0));
    assert_eq!(
        unix_ms_in_zone(BERLIN, 15, 7, 9, 0),
        unix_ms_in_zone("UTC", 15, 7, 7, 0)
    );
}

#[test]
fn after_sleep_only_the_last_missed_run_is_made() {
    let daily = job_schedule("0 9 * * *", BERLIN, 0);
    let (slept, woke) = (
        unix_ms_in_zone(BERLIN, 10, 1, 12, 0),
        unix_ms_in_zone(BERLIN, 15, 1, 7, 0),
    );
    let last = unix_ms_in_zone(BERLIN, 14, 1, 9, 0);
    assert_eq!(
        daily.find_due_run(woke, slept).unwrap(),
        DueJobRunResult::Missed(last)
    );
    let next = unix_ms_in_zone(BERLIN, 15, 1, 9, 0);
    assert_eq!(
        daily.find_due_run(woke, last).unwrap(),
        DueJobRunResult::Next(Some(next))
    );
}

/// Returns the times of a job's runs if it is checked every half minute.
fn due_runs_between(job: &JobSchedule, from: i64, to: i64) -> Vec<i64> {
    let (mut now, mut last, mut runs) = (from, from, Vec::new());
    while now < to {
        if let DueJobRunResult::At(time) | DueJobRunResult::Missed(time) =
            job.find_due_run(now, last).unwrap()
        {
            (last, runs) = (time, [runs, vec![now]].concat());
        }
        now += 30_000;
    }
    runs
}

#[test]
fn a_job_runs_once_in_each_night_in_which_clocks_change() {
    let nightly = job_schedule("30 2 * * *", BERLIN, 0);
    // Half past two does not exist on March 29, and comes twice on October 25.
    for (day, month) in [(29, 3), (25, 10)] {
        let (from, to) = (
            unix_ms_in_zone(BERLIN, day - 1, month, 12, 0),
            unix_ms_in_zone(BERLIN, day, month, 12, 0),
        );
        let runs = due_runs_between(&nightly, from, to);
        assert_eq!(runs.len(), 1, "{day}.{month}.: {runs:?}");
    }
    // An hourly job runs in each of the 23 and 25 hours of these days.
    let hourly = job_schedule("15 * * * *", BERLIN, 0);
    for (day, month, n) in [(29, 3, 23), (25, 10, 25), (15, 7, 24)] {
        let (from, to) = (
            unix_ms_in_zone(BERLIN, day, month, 0, 0),
            unix_ms_in_zone(BERLIN, day + 1, month, 0, 0),
        );
        assert_eq!(
            due_runs_between(&hourly, from, to).len(),
            n,
            "{day}.{month}."
        );
    }
}

#[test]
fn a_delay_is_bounded_stable_and_loses_no_run() {
    let spread = job_schedule("*/5 * * * *", "UTC", 240);
    let (from, to) = (
        unix_ms_in_zone("UTC", 15, 1, 0, 1),
        unix_ms_in_zone("UTC", 15, 1, 4, 0),
    );
    let times = due_runs_between(&spread, from, to);
    assert!(times.len() >= 46, "{}", times.len());
    let delays: std::collections::BTreeSet<i64> = times.iter().map(|time| time % 300_000).collect();
    assert!(delays.len() > 5, "{delays:?}");
    assert!(
        delays.iter().all(|delay| *delay <= 240_000 + 30_000),
        "{delays:?}"
    );
    assert_eq!(due_runs_between(&spread, from, to), times);
}

#[test]
fn an_invalid_schedule_or_time_zone_is_an_error_that_names_the_job() {
    for (schedule, zone) in [
        ("61 * * * *", "UTC"),
        ("", "UTC"),
        ("* * * * *", "Nowhere/City"),
    ] {
        let error = JobSchedule::parse("job", schedule, zone, 0).err().unwrap();
        assert!(error.message().contains("job `job`"), "{error:?}");
    }
    // February 30 never comes.
    let never = job_schedule("0 0 30 2 *", "UTC", 0);
    assert_eq!(
        never.find_due_run(0, 0).unwrap(),
        DueJobRunResult::Next(None)
    );
}
