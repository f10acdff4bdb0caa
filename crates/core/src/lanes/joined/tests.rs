//! Tests of joined calls.

mod random_calls;

use futures::FutureExt;
use futures::future::{join_all, poll_immediate};

use super::*;

type Batches = Arc<Mutex<Vec<Vec<usize>>>>;

/// Refuses some of the items, and records each batch. The size of an item is its value.
struct Numbers {
    batches: Batches,
    refused: &'static [usize],
    kind: ErrorKind,
}

impl Target for Numbers {
    type Item = usize;
    type Output = usize;

    const MAX_BYTES: usize = 100_000;
    const INTERRUPTED: &'static str = "interrupted";

    fn bytes(item: &usize) -> usize {
        *item
    }

    async fn store(&self, items: &[usize], _: Lane) -> BatchOutcome<usize> {
        self.batches.lock().unwrap().push(items.to_vec());
        tokio::task::yield_now().await;
        if items.iter().any(|item| self.refused.contains(item)) {
            return BatchOutcome {
                results: Vec::new(),
                error: Some(Error::new(self.kind, "refused")),
            };
        }
        BatchOutcome {
            results: items.iter().map(|item| Ok(*item)).collect(),
            error: None,
        }
    }
}

fn target(batches: &Batches, refused: &'static [usize], kind: ErrorKind) -> impl Fn() -> Numbers + Copy + Send + Sync {
    move || Numbers {
        batches: Arc::clone(batches),
        refused,
        kind,
    }
}

/// Stores an item that has to wait.
async fn store_one(
    joined: &Arc<Joined<Numbers>>,
    item: usize,
    target: impl Fn() -> Numbers + Send + Sync,
) -> Result<usize> {
    match joined.enter("key", || b"key".to_vec(), item, target).await {
        Entered::Alone(..) => panic!("another call has the lane"),
        Entered::Joined(stored) => stored,
    }
}

/// Stores items of one document, whose calls wait for its lane. Returns their results and the batches.
async fn store(
    items: impl IntoIterator<Item = usize>,
    refused: &'static [usize],
    kind: ErrorKind,
) -> (Vec<Result<usize>>, Vec<Vec<usize>>) {
    let joined = Arc::new(Joined::<Numbers>::new(Lanes::of_test()));
    let batches = Batches::default();
    let target = target(&batches, refused, kind);
    let lane = joined.lanes.try_enter("key").unwrap();
    let mut calls = Box::pin(join_all(items.into_iter().map(|item| store_one(&joined, item, target))));
    assert!(poll_immediate(calls.as_mut()).await.is_none());
    drop(lane);
    let results = calls.await;
    tokio::task::yield_now().await;
    assert!(joined.lock().of.is_empty(), "a queue without a task is removed");
    let batches = batches.lock().unwrap().clone();
    (results, batches)
}

#[tokio::test]
async fn a_batch_has_a_bound_of_items_and_of_bytes() {
    let lengths = |batches: Vec<Vec<usize>>| batches.iter().map(Vec::len).collect::<Vec<_>>();
    let (results, batches) = store(vec![1; 2500], &[], ErrorKind::TooLarge).await;
    assert_eq!((results.len(), lengths(batches)), (2500, vec![1000, 1000, 500]));
    let (results, batches) = store([60_000, 40_000, 1, 200_000, 1, 99_999], &[], ErrorKind::TooLarge).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(lengths(batches), [2, 1, 1, 2]);
}

#[tokio::test]
async fn a_refused_item_fails_alone_after_few_commands() {
    let (results, batches) = store(0..200, &[77], ErrorKind::TooLarge).await;
    for (item, result) in results.into_iter().enumerate() {
        match item {
            77 => assert_eq!(result.unwrap_err().kind(), ErrorKind::TooLarge),
            _ => assert_eq!(result.unwrap(), item),
        }
    }
    assert!(batches.len() < 25, "{}", batches.len());
    let stored = batches.iter().filter(|batch| !batch.contains(&77)).flatten();
    let expected: Vec<usize> = (0..200).filter(|item| *item != 77).collect();
    assert_eq!(
        stored.copied().collect::<Vec<_>>(),
        expected,
        "each item once, in order"
    );
}

#[tokio::test]
async fn many_refused_items_take_few_commands_more_than_their_number() {
    let refused: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let (results, batches) = store(0..16, refused, ErrorKind::InvalidArgument).await;
    assert!(results.iter().all(Result::is_err));
    assert!(batches.len() <= 20, "{}", batches.len());
}

#[tokio::test]
async fn an_error_of_the_whole_batch_is_that_of_every_caller() {
    for kind in [ErrorKind::Network, ErrorKind::NotFound, ErrorKind::Contention] {
        let (results, batches) = store(0..10, &[3], kind).await;
        assert!(results.into_iter().all(|result| result.unwrap_err().kind() == kind));
        assert_eq!(batches.len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_that_meets_no_other_stores_its_item_by_itself() {
    let joined = Arc::new(Joined::<Numbers>::new(Lanes::of_test()));
    let turn = joined.enter("key", || unreachable!(), 5, || unreachable!()).await;
    assert!(matches!(turn, Entered::Alone(_, 5)));
}

/// Ends with the runtime while its first command, which has the items of a batch, is in flight.
#[test]
fn the_end_of_the_runtime_leaves_an_unknown_outcome_of_what_was_sent_alone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let joined = Arc::new(Joined::<Numbers>::new(Lanes::of_test()));
    let batches = Batches::default();
    let target = target(&batches, &[], ErrorKind::TooLarge);
    let lane = joined.lanes.try_enter("key").unwrap();
    // Bytes that do not fit into one batch.
    let mut calls = Box::pin(join_all(
        [60_000, 40_000, 70_000].map(|item| store_one(&joined, item, target)),
    ));
    let of_task = runtime();
    assert!(of_task.block_on(poll_immediate(calls.as_mut())).is_none());
    drop(lane);
    of_task.block_on(async {
        while batches.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    });
    let lane = joined.lanes.enter("key").now_or_never();
    assert!(lane.is_none(), "the batch has the lane");
    drop(of_task);
    assert!(joined.lock().of.is_empty());
    let lane = joined.lanes.try_enter("key").unwrap();
    let other = runtime();
    assert!(other.block_on(poll_immediate(calls.as_mut())).is_none());
    assert_eq!(joined.waiting(b"key"), 1, "the item that was not sent waits again");
    drop(lane);
    let results = other.block_on(calls);
    for error in results[..2].iter().map(|result| result.as_ref().unwrap_err()) {
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Network, Numbers::INTERRUPTED)
        );
        assert!(error.is_outcome_unknown());
    }
    assert_eq!(*results[2].as_ref().unwrap(), 70_000);
    assert_eq!(*batches.lock().unwrap(), [vec![60_000, 40_000], vec![70_000]]);
}

#[test]
fn the_end_of_the_runtime_returns_the_halves_that_were_not_sent() {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let joined = Arc::new(Joined::<Numbers>::new(Lanes::of_test()));
    let batches = Batches::default();
    let target = target(&batches, &[1], ErrorKind::TooLarge);
    let lane = joined.lanes.try_enter("key").unwrap();
    let mut calls = Box::pin(join_all([1, 2, 3, 4].map(|item| store_one(&joined, item, target))));
    let of_task = runtime();
    assert!(of_task.block_on(poll_immediate(calls.as_mut())).is_none());
    drop(lane);
    of_task.block_on(async {
        while batches.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    });
    drop(of_task);
    let lane = joined.lanes.try_enter("key").unwrap();
    let other = runtime();
    assert!(other.block_on(poll_immediate(calls.as_mut())).is_none());
    drop(lane);
    let results = other.block_on(calls);
    let kinds = results.iter().map(|result| result.as_ref().map_err(Error::kind));
    let unknown = Err(ErrorKind::Network);
    // The first half was in flight. The other one is stored in a runtime that lives.
    assert_eq!(kinds.collect::<Vec<_>>(), [unknown, unknown, Ok(&3), Ok(&4)]);
}

#[tokio::test]
async fn a_dropped_call_leaves_the_queue() {
    let joined = Arc::new(Joined::<Numbers>::new(Lanes::of_test()));
    let batches = Batches::default();
    let target = target(&batches, &[], ErrorKind::TooLarge);
    let lane = joined.lanes.try_enter("key").unwrap();
    assert!(store_one(&joined, 1, target).now_or_never().is_none());
    assert_eq!(joined.waiting(b"key"), 0);
    let mut stored = Box::pin(store_one(&joined, 2, target));
    assert!(poll_immediate(stored.as_mut()).await.is_none());
    drop(lane);
    assert_eq!(stored.await.unwrap(), 2);
    assert_eq!(*batches.lock().unwrap(), [[2]], "the dropped item is not stored");
}

#[tokio::test]
async fn a_batch_ends_when_all_of_its_callers_are_dropped() {
    let joined = Arc::new(Joined::<Numbers>::new(Lanes::of_test()));
    let batches = Batches::default();
    let target = target(&batches, &[1, 2], ErrorKind::TooLarge);
    let lane = joined.lanes.try_enter("key").unwrap();
    let mut calls = Box::pin(join_all([1, 2].map(|item| store_one(&joined, item, target))));
    assert!(poll_immediate(calls.as_mut()).await.is_none());
    drop(lane);
    while batches.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(calls);
    tasks::drain().await;
    assert_eq!(*batches.lock().unwrap(), [[1, 2]], "no caller waits for the halves");
    assert!(joined.lock().of.is_empty());
    assert!(joined.lanes.try_enter("key").is_some());
}
