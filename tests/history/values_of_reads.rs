//! What `diff` and `as_of` return for values that are special: a NaN, a deletion, and times in one millisecond.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, doc};

use crate::history::support::*;

/// A NaN does not equal itself, and a deletion has no fields.
#[tokio::test]
async fn a_diff_has_no_unchanged_nan_and_no_field_of_the_pattern() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        let mut first = policy(1);
        first.extend(doc! { "rate": f64::NAN, "rates": [f64::NAN, 1], "of": { "year": f64::NAN, "n": 1 } });
        policies.insert(&first).await.unwrap();
        let change = doc! { "$set": { "rates.1": 2, "of.n": 2 } };
        policies.update(1, change).await.unwrap();
        policies.delete(1).await.unwrap();
        let paths = async |from, to| {
            let changes = policies.diff(1, from, to).await.unwrap().changes;
            changes.into_iter().map(|change| change.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(1, 2).await, ["rates.1", "of.n"]);
        assert_eq!(paths(1, 1).await, [""; 0]);
        let fields = ["customerName", "itemsInsured", "rate", "rates", "of"];
        assert_eq!(paths(2, 3).await, fields);
        assert_eq!(paths(3, 2).await, fields);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

/// Writes within one millisecond have times 1 ms apart, also those that share a transaction.
#[tokio::test]
async fn as_of_returns_each_revision_from_its_millisecond_on() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let updates = (0..30).map(|n| policies.update(1, push(&n.to_string())).into_future());
        for updated in futures::future::join_all(updates).await {
            updated.unwrap();
        }
        let of = |revision| policies.at(1, revision).into_future();
        let as_of = |time: i64| policies.as_of(1, DateTime::from_millis(time)).into_future();
        let newest = of(31).await.unwrap().unwrap();
        for number in 1..=31 {
            let revision = plain(of(number).await.unwrap().unwrap());
            let time = revision.time.timestamp_millis();
            assert_eq!(
                as_of(time).await.unwrap().map(plain),
                Some(revision),
                "from its own time"
            );
            let before = as_of(time - 1).await.unwrap().map(|before| before.revision);
            assert_eq!(before, (number > 1).then(|| number - 1), "before it");
        }
        // The current document is the newest revision, at and after its time.
        let now = policies.get(1).await.unwrap().unwrap().document;
        assert_eq!(number(&now, "revision"), 31);
        assert_eq!(now.get_datetime("dateSet").unwrap(), &newest.time);
        let later = as_of(newest.time.timestamp_millis() + 1).await.unwrap().unwrap();
        assert_eq!(later.revision, 31);
    })
    .await;
}
