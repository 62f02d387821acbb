//! Tests of the deadlines of calls that wait for other calls or for the user.

use std::pin::pin;

use super::*;
use crate::lock::lock;

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn waiting_for_a_turn_does_not_use_the_deadline_up() {
    let call = pin!(async {
        wait_for_turn(tokio::time::sleep(SHORT * 6), None).await;
        Ok("done")
    });
    assert_eq!(with_deadline(SHORT, Instant::now(), call).await, Ok("done"));
}

#[tokio::test]
async fn while_a_person_thinks_no_deadline_runs() {
    let inner = pin!(async {
        pause_clock(tokio::time::sleep(SHORT * 6)).await;
        Ok("done")
    });
    let outer = pin!(async { with_deadline(SHORT, Instant::now(), inner).await });
    assert_eq!(
        with_deadline(SHORT, Instant::now(), outer).await,
        Ok("done")
    );
}

#[tokio::test]
async fn what_comes_after_the_wait_has_the_whole_deadline_and_no_more() {
    let call = pin!(async {
        wait_for_turn(tokio::time::sleep(SHORT * 2), None).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok(())
    });
    let started = Instant::now();
    assert_eq!(
        with_deadline(SHORT, Instant::now(), call).await,
        Err(Failure::Deadline(SHORT))
    );
    assert!(started.elapsed() >= SHORT * 3);
}

#[tokio::test]
async fn a_wait_of_an_inner_call_stops_the_clock_of_the_outer_one() {
    let inner = || async {
        wait_for_turn(tokio::time::sleep(SHORT * 6), None).await;
        Ok(())
    };
    let outer = pin!(async { with_deadline(SHORT, Instant::now(), pin!(inner())).await });
    assert_eq!(with_deadline(SHORT, Instant::now(), outer).await, Ok(()));
}

fn clock_of(outer: Option<Arc<CallClock>>) -> CallClock {
    CallClock {
        started: Instant::now(),
        waits: Mutex::default(),
        outer,
        held: OnceLock::new(),
    }
}

#[test]
fn a_wait_without_end_is_bounded_and_not_a_missed_deadline() {
    let clock = clock_of(None);
    clock.begin_wait(clock.started, WaitReason::Turn, None);
    let (used, waited) = clock.read_clock(clock.started + MAX_WAIT);
    assert_eq!((used, waited), (Duration::ZERO, MAX_WAIT));
    clock.end_wait(clock.started + MAX_WAIT, WaitReason::Turn);
    let later = clock.started + MAX_WAIT + SHORT;
    assert_eq!(clock.read_clock(later), (SHORT, MAX_WAIT));
}

#[test]
fn while_a_person_thinks_about_a_question_of_the_holder_no_wait_counts() {
    let pauses = Arc::<HolderPauses>::default();
    let holder = Arc::new(clock_of(None));
    holder.held.set(pauses.clone()).unwrap();
    // The holder asks the user through a nested call.
    let asker = clock_of(Some(holder));
    let waiter = clock_of(None);
    let start = waiter.started;
    waiter.begin_wait(start, WaitReason::Turn, Some(&pauses));
    asker.begin_wait(start + SHORT, WaitReason::Person, None);
    let thought = start + SHORT + MAX_WAIT * 3;
    assert_eq!(waiter.read_clock(thought), (Duration::ZERO, SHORT));
    asker.end_wait(thought, WaitReason::Person);
    assert_eq!(waiter.read_clock(thought + SHORT).1, SHORT * 2);
    // A wait for another plugin is not a pause: two plugins that wait for each other would never
    // time out.
    asker.begin_wait(thought + SHORT, WaitReason::Turn, None);
    assert_eq!(waiter.read_clock(thought + SHORT * 2).1, SHORT * 3);
    waiter.end_wait(thought + SHORT * 2, WaitReason::Turn);
    assert_eq!(waiter.read_clock(thought + SHORT * 3), (SHORT, SHORT * 3));
}

#[tokio::test]
async fn who_holds_something_and_asks_a_person_tells_those_who_wait() {
    let pauses = Arc::<HolderPauses>::default();
    let is_open = || lock(&pauses.0).n_open == 1;
    let call = pin!(async {
        note_holding(&pauses);
        assert!(!is_open());
        pause_clock(async { assert!(is_open()) }).await;
        // Repeat the test after a wait of the call, when its clock already exists.
        tokio::task::yield_now().await;
        pause_clock(async { assert!(is_open()) }).await;
        Ok(())
    });
    assert_eq!(
        with_deadline(SHORT * 100, Instant::now(), call).await,
        Ok(())
    );
    assert!(!is_open());
    let later = pin!(async {
        tokio::task::yield_now().await;
        note_holding(&pauses);
        pause_clock(async { assert!(is_open()) }).await;
        Ok(())
    });
    assert_eq!(
        with_deadline(SHORT * 100, Instant::now(), later).await,
        Ok(())
    );
}
