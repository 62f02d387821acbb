//! Tests of the deadlines of calls that wait for other calls or for the user.

use std::pin::pin;

use super::*;
use crate::lock::lock_ignoring_poison;

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn waiting_for_another_call_does_not_use_up_the_deadline() {
    let call = pin!(async {
        wait_in_call_queue(tokio::time::sleep(SHORT * 6), None).await;
        Ok("done")
    });
    assert_eq!(
        run_call_with_deadline(SHORT, Instant::now(), call).await,
        Ok("done")
    );
}

#[tokio::test]
async fn waiting_for_the_user_suspends_the_deadline() {
    let inner = pin!(async {
        wait_with_paused_deadline(tokio::time::sleep(SHORT * 6)).await;
        Ok("done")
    });
    let outer = pin!(async { run_call_with_deadline(SHORT, Instant::now(), inner).await });
    assert_eq!(
        run_call_with_deadline(SHORT, Instant::now(), outer).await,
        Ok("done")
    );
}

#[tokio::test]
async fn work_after_a_wait_has_the_full_deadline_and_no_more() {
    let call = pin!(async {
        wait_in_call_queue(tokio::time::sleep(SHORT * 2), None).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok(())
    });
    let started = Instant::now();
    assert_eq!(
        run_call_with_deadline(SHORT, Instant::now(), call).await,
        Err(Failure::Deadline(SHORT))
    );
    assert!(started.elapsed() >= SHORT * 3);
}

#[tokio::test]
async fn a_wait_of_a_nested_call_also_pauses_the_deadline_of_the_call_around_it() {
    let inner = || async {
        wait_in_call_queue(tokio::time::sleep(SHORT * 6), None).await;
        Ok(())
    };
    let outer = pin!(async { run_call_with_deadline(SHORT, Instant::now(), pin!(inner())).await });
    assert_eq!(
        run_call_with_deadline(SHORT, Instant::now(), outer).await,
        Ok(())
    );
}

fn new_clock(outer: Option<Arc<PluginCallClock>>) -> PluginCallClock {
    PluginCallClock {
        started: Instant::now(),
        waits: Mutex::default(),
        outer,
        held: OnceLock::new(),
    }
}

#[test]
fn an_endless_wait_is_bounded_and_is_no_missed_deadline() {
    let clock = new_clock(None);
    clock.begin_wait(clock.started, CallClockStopReason::Turn, None);
    let (used, waited) =
        clock.running_and_queued_durations(clock.started + MAX_WAIT_FOR_OTHER_CALLS);
    assert_eq!((used, waited), (Duration::ZERO, MAX_WAIT_FOR_OTHER_CALLS));
    clock.end_wait(
        clock.started + MAX_WAIT_FOR_OTHER_CALLS,
        CallClockStopReason::Turn,
    );
    let later = clock.started + MAX_WAIT_FOR_OTHER_CALLS + SHORT;
    assert_eq!(
        clock.running_and_queued_durations(later),
        (SHORT, MAX_WAIT_FOR_OTHER_CALLS)
    );
}

#[test]
fn a_wait_of_the_instance_holder_for_the_user_is_not_counted() {
    let pauses = Arc::<UserWaitStopwatch>::default();
    let holder = Arc::new(new_clock(None));
    holder.held.set(pauses.clone()).unwrap();
    // The call that holds the instance asks the user through a nested call.
    let asker = new_clock(Some(holder));
    let waiter = new_clock(None);
    let start = waiter.started;
    waiter.begin_wait(start, CallClockStopReason::Turn, Some(&pauses));
    asker.begin_wait(start + SHORT, CallClockStopReason::Person, None);
    let thought = start + SHORT + MAX_WAIT_FOR_OTHER_CALLS * 3;
    assert_eq!(
        waiter.running_and_queued_durations(thought),
        (Duration::ZERO, SHORT)
    );
    asker.end_wait(thought, CallClockStopReason::Person);
    assert_eq!(
        waiter.running_and_queued_durations(thought + SHORT).1,
        SHORT * 2
    );
    // A wait for another plugin counts towards the limit: otherwise two plugins that wait for each
    // other would never time out.
    asker.begin_wait(thought + SHORT, CallClockStopReason::Turn, None);
    assert_eq!(
        waiter.running_and_queued_durations(thought + SHORT * 2).1,
        SHORT * 3
    );
    waiter.end_wait(thought + SHORT * 2, CallClockStopReason::Turn);
    assert_eq!(
        waiter.running_and_queued_durations(thought + SHORT * 3),
        (SHORT, SHORT * 3)
    );
}

#[tokio::test]
async fn user_waits_of_the_instance_holder_are_recorded_for_waiting_calls() {
    let pauses = Arc::<UserWaitStopwatch>::default();
    let is_open = || lock_ignoring_poison(&pauses.0).n_open == 1;
    let call = pin!(async {
        track_user_waits_of_current_call(&pauses);
        assert!(!is_open());
        wait_with_paused_deadline(async { assert!(is_open()) }).await;
        // Repeat the check after the call has waited once: its clock exists by then.
        tokio::task::yield_now().await;
        wait_with_paused_deadline(async { assert!(is_open()) }).await;
        Ok(())
    });
    assert_eq!(
        run_call_with_deadline(SHORT * 100, Instant::now(), call).await,
        Ok(())
    );
    assert!(!is_open());
    let later = pin!(async {
        tokio::task::yield_now().await;
        track_user_waits_of_current_call(&pauses);
        wait_with_paused_deadline(async { assert!(is_open()) }).await;
        Ok(())
    });
    assert_eq!(
        run_call_with_deadline(SHORT * 100, Instant::now(), later).await,
        Ok(())
    );
}
