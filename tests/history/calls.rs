//! The calls, what they store, and their commands.

use mongo_patterns::ErrorKind;
use mongo_patterns::history::{FieldChange, RevisionToken};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::common::all;
use support::history::*;

#[tokio::test]
async fn the_stored_documents_are_those_of_the_manual() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let updated = policies.update(1, push("watch")).await.unwrap();
        assert_eq!(updated.revision, 2);
        let stored = all(&current(db)).await;
        let expected = doc! {
            "_id": stored[0].get_object_id("_id").unwrap(), "policyId": 1, "customerName": "Michelle",
            "itemsInsured": ["watch"], "revision": 2, "dateSet": updated.time,
        };
        assert_eq!(stored, [expected]);
        let copies = copies(db, 1).await;
        assert_eq!(numbers(db, 1).await, [1, 2]);
        assert_eq!(without_id(&copies[1]), without_id(&stored[0]));
        assert!(copies.iter().all(|copy| copy.get_object_id("_id").is_ok()));
        // A read returns the current document as the newest revision.
        let now = policies.get(1).await.unwrap().unwrap();
        assert_eq!((now.revision, now.time), (2, Some(updated.time)));
        assert_eq!(now.document, stored[0]);
        let newest = policies.at(1, 2).await.unwrap().unwrap();
        let as_of = policies.as_of(1, updated.time).await.unwrap();
        assert_eq!(as_of.map(plain), Some(plain(newest)));
        assert_eq!(policies.at(2, 1).await.unwrap(), None);
        assert_eq!(policies.as_of(2, DateTime::MAX).await.unwrap(), None);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn revisions_are_paged_in_both_directions() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        for n in 2..=6 {
            policies.update(1, push(&n.to_string())).await.unwrap();
        }
        policies.insert(&policy(2)).await.unwrap();
        let mut expected: Vec<u64> = (1..=6).collect();
        for newest_first in [false, true] {
            // The last page is full, has one, or is the only one.
            for limit in [3, 5, 7] {
                let (mut found, mut token): (Vec<u64>, Option<RevisionToken>) = (Vec::new(), None);
                loop {
                    let call = policies.revisions(1).limit(limit).after(token);
                    let call = if newest_first { call.newest_first() } else { call };
                    let page = call.page().await.unwrap();
                    assert!(page.items.len() <= limit as usize);
                    found.extend(page.items.iter().map(|revision| revision.revision));
                    token = page.next;
                    if token.is_none() {
                        break;
                    }
                }
                assert_eq!(found, expected, "{limit} {newest_first}");
            }
            expected.reverse();
        }
        let none = policies.revisions(9).page().await.unwrap();
        assert!(none.items.is_empty() && none.next.is_none());
    })
    .await;
}

#[tokio::test]
async fn an_update_at_another_revision_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        policies.update(1, push("watch")).expecting(1).await.unwrap();
        let before = contents(db).await;
        let other = policy(1);
        let refused = [
            policies.update(1, push("ring")).expecting(1).await.unwrap_err(),
            policies.replace(1, &other).expecting(3).await.unwrap_err(),
            policies.restore(1, 1).expecting(1).await.unwrap_err(),
            policies.delete(1).expecting(1).await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::RevisionMismatch, "{error}");
            assert!(!error.is_transient() && !error.is_outcome_unknown());
        }
        assert_eq!(contents(db).await, before);
        assert_eq!(policies.replace(1, &other).expecting(2).await.unwrap().revision, 3);
        assert_eq!(policies.restore(1, 2).expecting(3).await.unwrap().revision, 4);
        assert!(policies.delete(1).expecting(4).await.unwrap().found);
    })
    .await;
}

#[tokio::test]
async fn a_deletion_is_a_revision_without_a_document() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let deleted = policies.delete(1).await.unwrap();
        assert_eq!((deleted.found, deleted.revision), (true, Some(2)));
        let again = policies.delete(1).await.unwrap();
        assert_eq!((again.found, again.revision), (false, None));
        assert_eq!(all(&current(db)).await, Vec::<Document>::new());
        let tombstone = policies.at(1, 2).await.unwrap().unwrap();
        let newest = policies.as_of(1, DateTime::MAX).await.unwrap().unwrap();
        assert_eq!((tombstone.document, newest.document), (None, None));
        let error = policies.restore(1, 2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "a tombstone has no content");
        assert_eq!(policies.restore(1, 1).await.unwrap().revision, 3);
        let page = policies.revisions(1).page().await.unwrap().items;
        let deleted: Vec<bool> = page.iter().map(|revision| revision.document.is_none()).collect();
        assert_eq!(deleted, [false, true, false]);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_deletion_keeps_the_newest_revisions() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let mut times = Vec::new();
        for n in 2..=10 {
            times.push(policies.update(1, push(&n.to_string())).await.unwrap().time);
        }
        policies.insert(&policy(2)).await.unwrap();
        assert_eq!(policies.keep_last(1, 20).await.unwrap().documents, 0);
        assert_eq!(policies.keep_last(1, 7).await.unwrap().documents, 3);
        assert_eq!(numbers(db, 1).await, [4, 5, 6, 7, 8, 9, 10]);
        // Revision 6 is what the document was at that time, so it stays.
        let just_before_7 = DateTime::from_millis(times[5].timestamp_millis() - 1);
        assert_eq!(policies.delete_before(1, just_before_7).await.unwrap().documents, 2);
        assert_eq!(numbers(db, 1).await, [6, 7, 8, 9, 10]);
        assert_eq!(policies.as_of(1, just_before_7).await.unwrap().unwrap().revision, 6);
        assert_eq!(policies.delete_before(1, DateTime::MAX).await.unwrap().documents, 4);
        assert_eq!((numbers(db, 1).await, numbers(db, 2).await), (vec![10], vec![1]));
        assert_eq!(policies.update(1, push("11")).await.unwrap().revision, 11);
        policies.delete(1).await.unwrap();
        assert_eq!(policies.keep_last(1, 1).await.unwrap().documents, 2);
        assert_eq!(
            policies.insert(&policy(1)).await.unwrap().revision,
            13,
            "the tombstone stays"
        );
        assert_eq!(policies.at(1, 3).await.unwrap(), None);
        assert_eq!(findings(&policies).await, []);
        let none = policies.keep_last(1, 0).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test]
async fn a_diff_lists_the_changed_fields_by_path() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let update = doc! {
            "$set": { "a": { "b.c": Bson::Null }, "itemsInsured": [f64::NAN] }, "$unset": { "customerName": "" },
        };
        policies.update(1, update).await.unwrap();
        policies
            .update(1, doc! { "$set": { "itemsInsured.1": "ring" } })
            .await
            .unwrap();
        let diff = async |from, to| {
            let changes = policies.diff(1, from, to).await.unwrap().changes;
            let of = |change: FieldChange| (change.path, change.before, change.after);
            changes.into_iter().map(of).collect::<Vec<_>>()
        };
        let ring = ("itemsInsured.1".to_owned(), None, Some(Bson::from("ring")));
        assert_eq!(diff(3, 2).await, [(ring.0.clone(), ring.2.clone(), None)]);
        assert_eq!(diff(2, 3).await, [ring]);
        assert_eq!(diff(3, 3).await, []);
        let mut paths: Vec<String> = diff(1, 3).await.into_iter().map(|change| change.0).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["a", "customerName", "itemsInsured.0", "itemsInsured.1"]);
        let missing = policies.diff(1, 1, 4).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    })
    .await;
}

/// Two writes within a millisecond, and a clock that was ahead.
#[tokio::test]
async fn times_rise_strictly_even_if_the_clock_was_ahead() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        for n in 2..=10 {
            policies.update(1, push(&n.to_string())).await.unwrap();
        }
        let ahead = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
        for collection in [current(db), revisions(db)] {
            let set = doc! { "$set": { "dateSet": ahead } };
            collection
                .update_one(doc! { "policyId": 1, "revision": 10 }, set)
                .await
                .unwrap();
        }
        let next = |by: i64| DateTime::from_millis(ahead.timestamp_millis() + by);
        assert_eq!(policies.update(1, push("later")).await.unwrap().time, next(1));
        assert_eq!(policies.replace(1, &policy(1)).await.unwrap().time, next(2));
        let pipeline = vec![doc! { "$set": { "note": "$customerName" } }];
        assert_eq!(policies.update(1, pipeline).await.unwrap().time, next(3));
        policies.delete(1).await.unwrap();
        assert_eq!(policies.insert(&policy(1)).await.unwrap().time, next(5));
        let copies = copies(db, 1).await;
        let times: Vec<&DateTime> = copies
            .iter()
            .map(|copy| copy.get_datetime("dateSet").unwrap())
            .collect();
        assert!(times.windows(2).all(|two| two[0] < two[1]), "{times:?}");
        assert_eq!(times.len(), 15);
        let now = policies.as_of(1, DateTime::now()).await.unwrap().unwrap();
        assert!(
            now.revision < 10,
            "the clock that was ahead wrote the revisions from 10 on"
        );
    })
    .await;
}
