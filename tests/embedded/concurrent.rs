//! Concurrent writers to the same parents, and broken connections.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use futures::future::join_all;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, Document, doc};

use support::embedded::*;
use support::random::random;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn sixty_four_writers_fill_parents_to_their_bound_without_duplicates() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        for parent in 0..2 {
            plant(db, &patron(parent, [])).await;
        }
        let writers = (0..64).map(|writer| {
            let patrons = patrons.clone();
            tokio::spawn(async move {
                let mut outcomes = BTreeMap::new();
                // Eight writers add each child.
                for n in 0..4 {
                    for parent in 0..2 {
                        let added = patrons.add_child(parent, &address((writer / 8) * 8 + n)).await;
                        let outcome = match added {
                            Ok(()) => "added",
                            Err(error) if error.kind() == ErrorKind::LimitReached => "full",
                            Err(error) if error.kind() == ErrorKind::AlreadyExists => "exists",
                            Err(error) => panic!("{error:?}"),
                        };
                        *outcomes.entry(outcome).or_insert(0) += 1;
                    }
                }
                outcomes
            })
        });
        let mut outcomes = BTreeMap::new();
        for writer in join_all(writers).await {
            for (outcome, times) in writer.unwrap() {
                *outcomes.entry(outcome).or_insert(0) += times;
            }
        }
        assert_eq!(outcomes["added"], 2 * 5);
        assert_eq!(outcomes.values().sum::<i32>(), 64 * 4 * 2);
        for parent in 0..2 {
            let stored: BTreeSet<i32> = ids(db, parent).await.iter().map(|id| id.as_i32().unwrap()).collect();
            assert_eq!(stored.len(), 5, "five distinct children");
            assert_eq!(ids(db, parent).await.len(), 5);
        }
    })
    .await;
}

/// The children of one writer, by parent and id, as it wrote them.
type Expected = BTreeMap<(i32, i32), Document>;

fn expect(kinds: &[ErrorKind], outcome: Result<(), Error>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(error) if kinds.contains(&error.kind()) => false,
        Err(error) => panic!("{error:?}"),
    }
}

async fn one_step(
    patrons: &EmbeddedRepository<Document, Document>,
    (writer, step): (i32, i32),
    random: &mut Rng,
    expected: &mut Expected,
) -> bool {
    let parent = random.i32(0..3);
    let own: Vec<(i32, i32)> = expected.keys().filter(|(of, _)| *of == parent).copied().collect();
    let child = own.get(random.usize(0..4)).copied();
    match (random.u32(0..6), child) {
        (0 | 1, _) | (2.., None) => {
            let id = writer * 1000 + step;
            let added = patrons.add_child(parent, &address(id)).await;
            if expect(&[ErrorKind::LimitReached], added) {
                expected.insert((parent, id), address(id));
            }
        }
        (2, Some(key)) => {
            let update = doc! { "$set": { "step": step } };
            patrons.update_child(parent, key.1, update).await.unwrap();
            expected.get_mut(&key).unwrap().insert("step", step);
        }
        (3, Some(key)) => {
            let other = doc! { "other": step, "id": key.1 };
            if step % 2 == 0 {
                patrons.replace_child(parent, &other).await.unwrap();
            } else {
                assert!(!patrons.upsert_child(parent, &other).await.unwrap().inserted);
            }
            expected.insert(key, other);
        }
        (4, Some(key)) => {
            assert!(patrons.remove_child(parent, key.1).await.unwrap().found);
            expected.remove(&key);
        }
        (_, Some(_)) => {
            let stored = patrons.get(parent).await.unwrap().unwrap();
            let id = |child: &Bson| child.as_document().unwrap().get("id").unwrap().clone();
            let mut ids: Vec<Bson> = stored.get_array("addresses").unwrap().iter().map(id).collect();
            random.shuffle(&mut ids);
            let reordered = patrons.reorder_children(parent, ids).await;
            return expect(&[ErrorKind::ChildSetMismatch], reordered);
        }
    }
    false
}

/// Each writer changes children of its own, and the order of all. In the end, the stored children are those that the
/// writers have recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn concurrent_writers_of_the_same_parents_lose_nothing() {
    testkit::run(async |db| {
        let patrons = builder(db).max_children(12).build().unwrap();
        for parent in 0..3 {
            plant(db, &patron(parent, [])).await;
        }
        let writers = (1..=16).map(|writer| {
            let patrons = patrons.clone();
            tokio::spawn(async move {
                let (mut expected, mut reordered, mut random) = (Expected::new(), 0, random(writer));
                for step in 0..60 {
                    reordered += u32::from(one_step(&patrons, (writer, step), &mut random, &mut expected).await);
                }
                (expected, reordered)
            })
        });
        let (mut expected, mut reordered) = (Expected::new(), 0);
        for writer in join_all(writers).await {
            let (of_writer, times) = writer.unwrap();
            expected.extend(of_writer);
            reordered += times;
        }
        assert!(reordered > 0, "some calls reordered children");
        let mut found = Expected::new();
        for parent in 0..3 {
            let children = array(db, parent).await;
            assert!(children.len() <= 12);
            for child in children {
                let child = child.as_document().unwrap().clone();
                let before = found.insert((parent, child.get_i32("id").unwrap()), child);
                assert_eq!(before, None, "a double");
            }
        }
        assert_eq!(found, expected);
    })
    .await;
}

/// The driver retries a write, and the server recognizes that it has executed it.
#[tokio::test]
async fn a_broken_connection_duplicates_nothing() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [address(1), address(2)])).await;
        for times in [1, 2] {
            let fault = FailPoint::on(&["update"])
                .times(times)
                .close_connection()
                .enable(db)
                .await;
            let added = patrons.add_child("joe", &address(3)).await;
            fault.disable().await;
            if times == 1 {
                added.unwrap();
                assert!(patrons.remove_child("joe", 3).await.unwrap().found);
            } else {
                let error = added.unwrap_err();
                assert!(error.is_outcome_unknown(), "{error}");
                patrons.add_child("joe", &address(3)).await.unwrap();
            }
        }
        assert_eq!(ids(db, "joe").await, [1, 2, 3].map(Bson::from));

        // The write is stored, and reported as unconfirmed. The next call returns `AlreadyExists`.
        let fault = FailPoint::on(&["update"]).write_concern_error(64).enable(db).await;
        let error = patrons.add_child("joe", &address(4)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        fault.disable().await;
        assert_eq!(
            patrons.add_child("joe", &address(4)).await.unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(ids(db, "joe").await, [1, 2, 3, 4].map(Bson::from));
    })
    .await;
}
