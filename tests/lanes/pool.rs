//! A held document costs one connection of the pool and one operation on the server, however many calls wait for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use mongo_patterns_testkit::{self as testkit, TestDatabase};

use support::lanes::*;
use support::pace::Pace;

/// How many calls are dropped while others wait, and how many after them, one after another.
const CONCURRENT: i32 = 40;
const IN_SEQUENCE: i32 = 20;
/// How many calls wait until the holder ends.
const PATIENT: i32 = 5;
/// The connections of the driver's default pool, and those that monitor the server.
const CONNECTIONS: usize = 10 + 2;

/// Tasks that write the free documents whenever they are asked to.
struct FreeCalls {
    pace: Pace,
    done: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl FreeCalls {
    fn start(operation: &'static Operation, repositories: &Repositories) -> Self {
        let (pace, done) = (Pace::of(0), Arc::<AtomicUsize>::default());
        let task = |document: i32| {
            let (repositories, pace, done) = (repositories.clone(), pace.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                for number in FIRST + 1.. {
                    if !pace.next().await {
                        return;
                    }
                    let call = operation.run(&repositories, document, number);
                    ends("a call for a free document", call).await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tasks = FREE.map(task).into();
        Self { pace, done, tasks }
    }

    /// Waits until further calls are done.
    async fn further(&self, calls: usize) {
        let enough = self.done.load(Ordering::Relaxed) + calls;
        self.pace.add(calls);
        let is_enough = async || self.done.load(Ordering::Relaxed) >= enough;
        until("the calls for free documents", is_enough).await;
    }

    /// Lets them write for as long as something else lasts.
    async fn beside<T>(&self, other: impl Future<Output = T>) -> T {
        let calls = async {
            loop {
                self.pace.keep(FREE.len()).await;
            }
        };
        let before = self.done.load(Ordering::Relaxed);
        let done = tokio::select! {
            done = other => done,
            () = calls => unreachable!(),
        };
        let is_one = async || self.done.load(Ordering::Relaxed) > before;
        until("a call for a free document", is_one).await;
        done
    }

    async fn end(self) {
        self.pace.end();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Runs a call that is dropped after a time.
async fn drop_after(time: u64, operation: &Operation, repositories: &Repositories, number: i32) {
    let call = operation.run(repositories, HELD, number);
    let dropped = tokio::time::timeout(Duration::from_millis(time), call).await;
    assert!(dropped.is_err(), "call {number}: {dropped:?}");
}

/// Checks the pool and the server while a future runs, after each ten of its commands. A command for the held document stays
/// in flight, so no check misses it.
async fn watch<T>(db: &TestDatabase, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        let sent = db.recorder().round_trips();
        let check = async {
            let waiting = in_flight(db, HELD);
            assert!(waiting <= 1, "{waiting} commands are in flight");
            let operations = on_server_for(db, HELD).await;
            assert!(operations <= 1, "the server has {operations} operations");
            let connections = connections(db).await;
            assert!(connections <= CONNECTIONS, "{connections} connections");
            db.recorder().sent(sent + 10).await;
        };
        tokio::select! {
            done = &mut future => return done,
            () = check => {}
        }
    }
}

async fn check(operation: &'static Operation) {
    testkit::run(async |db| {
        let repositories = prepare(db, operation).await;
        let holder = Holder::hold(db, operation, HELD).await;
        let free = FreeCalls::start(operation, &repositories);
        let mut numbers = FIRST + 1..;
        let dropped: Vec<i32> = numbers.by_ref().take((CONCURRENT + IN_SEQUENCE) as usize).collect();
        let (concurrent, in_sequence) = dropped.split_at(CONCURRENT as usize);
        let drops = async {
            let drops = (50..).zip(concurrent);
            let drops = join_all(drops.map(|(time, number)| drop_after(time * 2, operation, &repositories, *number)));
            free.beside(drops).await;
            for number in in_sequence {
                drop_after(10, operation, &repositories, *number).await;
                free.further(1).await;
            }
            free.further(20).await;
        };
        watch(db, drops).await;
        assert_eq!(stored(db, operation, HELD).await, [0; 0]);

        let patient: Vec<i32> = numbers.by_ref().take(PATIENT as usize).collect();
        let calls = patient.iter().map(|number| operation.run(&repositories, HELD, *number));
        let mut waiting = Box::pin(join_all(calls));
        tokio::select! {
            called = &mut waiting => panic!("{called:?}"),
            () = watch(db, free.further(20)) => {}
        }
        holder.release().await;
        for called in ends("the waiting calls", waiting).await {
            called.unwrap();
        }
        let last = numbers.next().unwrap();
        let call = operation.run(&repositories, HELD, last);
        ends("a call after the holder", call).await.unwrap();
        free.end().await;

        let found = stored(db, operation, HELD).await;
        let once: BTreeSet<i32> = found.iter().copied().collect();
        assert_eq!(found.len(), once.len(), "a call is stored twice: {found:?}");
        let mut kept = patient.iter().chain([&last]);
        assert!(kept.all(|number| once.contains(number)), "a call is lost: {found:?}");
        let of_dropped = dropped.iter().filter(|number| once.contains(number)).count();
        assert!(of_dropped <= 1, "{of_dropped} dropped calls are stored: {found:?}");
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn of_append() {
    check(operation("append")).await;
}

each! {
    check;
    #[ignore = "slow: cargo xtask ci"] of_push: "push";
    #[ignore = "slow: cargo xtask ci"] of_insert: "insert";
    #[ignore = "slow: cargo xtask ci"] of_update: "update";
    #[ignore = "slow: cargo xtask ci"] of_add_child: "add_child";
    #[ignore = "slow: cargo xtask ci"] of_update_of_a_version: "update of a version";
}
