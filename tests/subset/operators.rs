//! Updates of a child by operators and pipelines: the subset follows a field of the order.

use std::collections::BTreeMap;

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Subset;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::UpdateModifications;

use support::common::all;
use support::subset::*;

/// Returns a repository of the three most helpful reviews of product 1, with five reviews without votes.
async fn voted(db: &TestDatabase) -> Any {
    let most = Subset::new("reviews").sort(doc! { "votes": -1 }).size(3);
    let products = ready(db, builder_of(db.database(), most)).await;
    let review = |id: i32| doc! { "review_id": id, "product_id": 1, "votes": 0, "text": "secret" };
    let children: Vec<Document> = (1..=5).map(review).collect();
    products.insert_many(&children).await.unwrap();
    db.recorder().clear();
    products
}

/// Returns the ids and votes of the embedded reviews.
async fn shown(db: &TestDatabase) -> Vec<(i32, i32)> {
    let stored = stored_product(db).await;
    votes_of(
        stored
            .get_array("reviews")
            .unwrap()
            .iter()
            .filter_map(Bson::as_document),
    )
}

/// Returns the ids and votes of all reviews, the most helpful first.
async fn stored(db: &TestDatabase) -> Vec<(i32, i32)> {
    let mut votes = votes_of(all(&reviews(db)).await.iter());
    votes.sort_unstable_by_key(|(id, votes)| (-votes, -id));
    votes
}

fn votes_of<'d>(reviews: impl Iterator<Item = &'d Document>) -> Vec<(i32, i32)> {
    let row = |review: &Document| (review.get_i32("review_id").unwrap(), review.get_i32("votes").unwrap());
    reviews.map(row).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn votes_of_sixty_four_tasks_add_up() {
    testkit::run(async |db| {
        let products = voted(db).await;

        let vote = |task: i32| [1, 1 + task % 2, 1 + task % 3, 1 + task % 5];
        let tasks = (0..64).map(|task| {
            let products = products.clone();
            tokio::spawn(async move {
                for review in vote(task) {
                    let update = doc! { "$inc": { "votes": 1 } };
                    products.update(1, review, update).await.unwrap();
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
        let mut expected = BTreeMap::new();
        for review in (0..64).flat_map(vote) {
            *expected.entry(review).or_insert(0) += 1;
        }
        let votes = stored(db).await;
        assert_eq!(votes.iter().copied().collect::<BTreeMap<_, _>>(), expected);
        assert_eq!(shown(db).await, votes[..3]);
    })
    .await;
}

#[tokio::test]
async fn refused_updates_change_nothing() {
    testkit::run(async |db| {
        let products = voted(db).await;
        let before = (all(&product(db)).await, all(&reviews(db)).await);
        for update in [
            doc! {},
            doc! { "votes": "secret" },
            doc! { "$rename": { "votes": "product_id" } },
            doc! { "$inc": { "votes": "secret" } },
            doc! { "$set": { "votes": ["secret"] } },
            doc! { "$set": { "votes.$": "secret" } },
            doc! { "$set": { "text": "secret", "text.x": 1 } },
            doc! { "$set": { "product_id": "secret" } },
            doc! { "$unset": { "review_id.secret": 1 } },
        ] {
            let error = products.update(1, 1, update.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{update}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        for stage in [
            doc! { "$replaceWith": { "review_id": 1 } },
            doc! { "$set": { "product_id": 2 } },
        ] {
            let error = products.update(1, 1, vec![stage.clone()]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{stage}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
        // The server refuses these.
        for update in [
            UpdateModifications::from(doc! { "$inc": { "text": 1 } }),
            doc! { "$push": { "text": 1 } }.into(),
            doc! { "$set": { "text.secret": 1 } }.into(),
            vec![doc! { "$set": { "votes": ["$text"] } }].into(),
            vec![doc! { "$set": { "votes": { "$add": ["$text", 1] } } }].into(),
        ] {
            let error = products.update(1, 1, update.clone()).await.unwrap_err();
            let cause = error.as_driver_error();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{update:?}: {cause:?}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
            assert_eq!(error.stored_count(), None);
        }
        let without_version = |mut documents: Vec<Document>| {
            documents
                .iter_mut()
                .for_each(|document| drop(document.remove("reviews_version")));
            documents
        };
        let after = (all(&product(db)).await, all(&reviews(db)).await);
        assert_eq!(without_version(after.0), without_version(before.0));
        assert_eq!(after.1, before.1);
    })
    .await;
}
