//! Calls at random moments of a paused clock, some of which are dropped.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{sleep, timeout};

use super::super::*;

const KEYS: [&str; 2] = ["a", "b"];
const CALLS: usize = 16;
/// The most milliseconds of a command, and of a call before it is dropped.
const MILLIS: u64 = 20;

/// What the commands have stored, and the keys whose command is in flight.
#[derive(Default)]
struct Server {
    stored: Vec<usize>,
    /// The number of commands with the items of several calls.
    batches: usize,
    in_flight: HashSet<&'static str>,
}

/// Stores items one command after another, and refuses each seventh item.
struct Slow {
    server: Arc<Mutex<Server>>,
    key: &'static str,
    seed: u64,
}

fn is_refused(item: usize) -> bool {
    item.is_multiple_of(7)
}

impl Slow {
    /// Runs a command to its reply, as `Conn` does when the caller is dropped. It has the lane until then.
    async fn send(&self, items: Vec<usize>, lane: Lane) -> Result<()> {
        let (server, key) = (Arc::clone(&self.server), self.key);
        let millis = fastrand::Rng::with_seed(self.seed ^ items[0] as u64).u64(1..=MILLIS);
        let command = tokio::spawn(async move {
            let is_first = server.lock().unwrap().in_flight.insert(key);
            assert!(is_first, "two commands for `{key}` are in flight");
            sleep(Duration::from_millis(millis)).await;
            let mut server = server.lock().unwrap();
            server.in_flight.remove(key);
            server.batches += usize::from(items.len() > 1);
            let _lane = lane;
            if items.iter().copied().any(is_refused) {
                return Err(Error::new(ErrorKind::TooLarge, "refused"));
            }
            server.stored.extend(items);
            Ok(())
        });
        command.await.unwrap()
    }
}

impl Target for Slow {
    type Item = usize;
    type Output = usize;

    const INTERRUPTED: &'static str = "interrupted";

    fn bytes(_: &usize) -> usize {
        1
    }

    async fn store(&self, items: &[usize], lane: Lane) -> BatchOutcome<usize> {
        let sent = self.send(items.to_vec(), lane).await;
        let results = if sent.is_ok() {
            items.iter().copied().map(Ok).collect()
        } else {
            Vec::new()
        };
        BatchOutcome {
            results,
            error: sent.err(),
        }
    }
}

/// Stores an item: by the queue of its key, in its lane alone, or in the lanes of both keys.
async fn call(joined: Arc<Joined<Slow>>, item: usize, server: Arc<Mutex<Server>>, seed: u64) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(seed + item as u64);
    sleep(Duration::from_millis(random.u64(0..MILLIS))).await;
    let key = KEYS[random.usize(..KEYS.len())];
    let slow = Slow { server, key, seed };
    let lane = match random.u8(..4) {
        0 => joined.lanes.enter(key).await,
        1 => joined.lanes.enter_all(BTreeSet::from(KEYS.map(str::to_owned))).await,
        _ => match joined
            .enter(
                key,
                || key.into(),
                item,
                || Slow {
                    server: Arc::clone(&slow.server),
                    ..slow
                },
            )
            .await
        {
            Entered::Alone(lane, _) => lane,
            Entered::Joined(stored) => return stored.map(|stored| assert_eq!(stored, item)),
        },
    };
    slow.send(vec![item], lane).await
}

#[tokio::test(start_paused = true)]
async fn each_call_gets_the_outcome_of_its_own_item() {
    let (mut batches, mut dropped) = (0, 0);
    for seed in 0..500 {
        let server = Arc::new(Mutex::new(Server::default()));
        let joined = Arc::new(Joined::<Slow>::new(Lanes::of_test()));
        let calls = (1..=CALLS).map(|item| {
            let call = call(Arc::clone(&joined), item, Arc::clone(&server), seed);
            let patience = fastrand::Rng::with_seed(seed ^ (item as u64) << 8).u64(1..8 * MILLIS);
            timeout(Duration::from_millis(patience), call)
        });
        let outcomes = timeout(Duration::from_secs(60), join_all(calls)).await;
        let outcomes = outcomes.unwrap_or_else(|_| panic!("seed {seed}: calls wait for each other"));
        tasks::drain().await;
        sleep(Duration::from_secs(60)).await;
        let server = server.lock().unwrap();
        let mut times = HashMap::<usize, usize>::new();
        server
            .stored
            .iter()
            .for_each(|item| *times.entry(*item).or_default() += 1);
        for (item, outcome) in (1..).zip(outcomes) {
            let stored = times.get(&item).copied().unwrap_or_default();
            let expected = match outcome {
                Ok(Ok(())) => 1..=1,
                Ok(Err(_)) => 0..=0,
                // The command may have been sent.
                Err(_) => 0..=1,
            };
            assert!(
                expected.contains(&stored),
                "seed {seed}: item {item} is stored {stored} times"
            );
            assert!(
                stored == 0 || !is_refused(item),
                "seed {seed}: the refused item {item} is stored"
            );
            dropped += usize::from(outcome.is_err());
        }
        batches += server.batches;
        assert!(
            joined.lock().of.is_empty() && joined.lanes.lock().is_empty(),
            "seed {seed}: a lane is left"
        );
    }
    assert!(
        batches > 500 && dropped > 500,
        "{batches} batches, {dropped} dropped calls"
    );
}
