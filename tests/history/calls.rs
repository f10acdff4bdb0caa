//! The calls, what they store, and their commands.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::history::{FieldChange, Revision, RevisionToken};
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
        let now = all(&current(db)).await;
        let expected = doc! {
            "_id": now[0].get_object_id("_id").unwrap(), "policyId": 1, "customerName": "Michelle",
            "itemsInsured": ["watch"], "revision": 2, "dateSet": updated.time,
        };
        assert_eq!(now, [expected]);
        let copies = copies(db, 1).await;
        assert_eq!(numbers(db, 1).await, [1, 2]);
        assert_eq!(without_id(&copies[1]), without_id(&now[0]));
        assert!(copies.iter().all(|copy| copy.get_object_id("_id").is_ok()));
        assert!(items(&copies[0]).is_empty());
        assert!(copies[0].get_datetime("dateSet").unwrap() < copies[1].get_datetime("dateSet").unwrap());
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn each_write_takes_the_documented_round_trips() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        tick().await;
        policies.update(1, push("watch")).await.unwrap();
        assert_eq!(names(db), "findAndModify insert commitTransaction");
        tick().await;
        policies.update(1, push("ring")).expecting(2).await.unwrap();
        assert_eq!(names(db), "findAndModify insert commitTransaction");
        policies.replace(1, &policy(1)).await.unwrap();
        assert_eq!(names(db), "findAndModify insert commitTransaction");
        policies.restore(1, 3).await.unwrap();
        assert_eq!(names(db), "find findAndModify insert commitTransaction");
        policies.get(1).await.unwrap();
        policies.at(1, 2).await.unwrap();
        policies.as_of(1, DateTime::MAX).await.unwrap();
        policies.revisions(1).page().await.unwrap();
        policies.revisions(1).newest_first().page().await.unwrap();
        assert_eq!(names(db), "find find find find find");
        assert_eq!(policies.delete(1).await.unwrap().revision, Some(6));
        assert_eq!(names(db), "findAndModify insert delete commitTransaction");
    })
    .await;
}

/// Also where writes within one millisecond have times 1 ms apart.
#[tokio::test]
async fn reads_return_any_revision_and_that_of_any_time() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        // The calls after the first one share a transaction.
        let updates = (2..=21).map(|n| policies.update(1, push(&n.to_string())).into_future());
        let mut times = vec![policies.at(1, 1).await.unwrap().unwrap().time];
        for (n, updated) in (2..).zip(join_all(updates).await) {
            let recorded = updated.unwrap();
            assert_eq!(recorded.revision, n);
            times.push(recorded.time);
        }
        let as_of = |time: DateTime, by: i64| {
            let time = DateTime::from_millis(time.timestamp_millis() + by);
            policies.as_of(1, time).into_future()
        };
        for (number, time) in (1_u64..).zip(&times) {
            let revision = policies.at(1, number).await.unwrap().unwrap();
            assert_eq!((revision.revision, revision.time), (number, *time));
            let document = revision.document.clone().unwrap();
            assert_eq!(items(&document).len() as u64, number - 1);
            assert_eq!(as_of(*time, 0).await.unwrap().map(plain), Some(plain(revision)));
            let before = as_of(*time, -1).await.unwrap();
            assert_eq!(
                before.map(|revision| revision.revision),
                (number > 1).then(|| number - 1)
            );
        }
        assert_eq!(policies.at(1, 22).await.unwrap(), None);
        assert_eq!(policies.at(2, 1).await.unwrap(), None);
        assert_eq!(policies.as_of(2, DateTime::now()).await.unwrap(), None);
        for later in [as_of(times[20], 1).await, policies.as_of(1, DateTime::MAX).await] {
            assert_eq!(later.unwrap().unwrap().revision, 21);
        }
        assert_eq!(policies.get(2).await.unwrap(), None);
        // The current document is the newest revision.
        let now = policies.get(1).await.unwrap().unwrap();
        assert_eq!((now.revision, now.time), (21, Some(times[20])));
        let expected: Vec<String> = (2..=21).map(|n| n.to_string()).collect();
        assert_eq!(items(&now.document), expected);
        assert_eq!(number(&now.document, "revision"), 21);
        assert_eq!(now.document.get_datetime("dateSet").unwrap(), &times[20]);
    })
    .await;
}

fn number_of(revisions: &[Revision<Document>]) -> Vec<u64> {
    revisions.iter().map(|revision| revision.revision).collect()
}

#[tokio::test]
async fn revisions_are_paged_in_both_directions() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        for n in 2..=7 {
            policies.update(1, push(&n.to_string())).await.unwrap();
        }
        policies.insert(&policy(2)).await.unwrap();
        for limit in [1, 3, 7, 8] {
            for newest_first in [false, true] {
                let (mut found, mut token): (Vec<u64>, Option<RevisionToken>) = (Vec::new(), None);
                loop {
                    let call = policies.revisions(1).limit(limit).after(token);
                    let call = if newest_first { call.newest_first() } else { call };
                    let page = call.page().await.unwrap();
                    assert!(page.revisions.len() <= limit as usize);
                    found.extend(number_of(&page.revisions));
                    token = page.next;
                    if token.is_none() {
                        break;
                    }
                }
                let mut expected: Vec<u64> = (1..=7).collect();
                if newest_first {
                    expected.reverse();
                }
                assert_eq!(found, expected, "{limit} {newest_first}");
            }
            let streamed: Vec<_> = policies.revisions(1).limit(limit).stream().try_collect().await.unwrap();
            assert_eq!(number_of(&streamed), [1, 2, 3, 4, 5, 6, 7]);
        }
        let none = policies.revisions(9).page().await.unwrap();
        assert!(none.revisions.is_empty() && none.next.is_none());
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
async fn missing_and_existing_documents_are_reported() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let kinds = [
            policies.insert(&policy(1)).await.unwrap_err().kind(),
            policies.update(2, push("watch")).await.unwrap_err().kind(),
            policies.update(2, push("watch")).expecting(1).await.unwrap_err().kind(),
            policies.replace(2, &policy(2)).await.unwrap_err().kind(),
            policies.restore(1, 2).await.unwrap_err().kind(),
            policies.restore(2, 1).await.unwrap_err().kind(),
            policies.diff(1, 1, 2).await.unwrap_err().kind(),
        ];
        let missing = ErrorKind::NotFound;
        assert_eq!(kinds[0], ErrorKind::AlreadyExists);
        assert_eq!(kinds[1..], [missing; 6]);
        let deleted = policies.delete(2).await.unwrap();
        assert_eq!((deleted.found, deleted.revision), (false, None));
        assert_eq!((numbers(db, 1).await, numbers(db, 2).await), (vec![1], vec![]));
    })
    .await;
}

#[tokio::test]
async fn a_deletion_is_a_revision_and_numbers_continue_after_it() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        policies.update(1, push("watch")).await.unwrap();
        let deleted = policies.delete(1).await.unwrap();
        assert_eq!((deleted.found, deleted.revision), (true, Some(3)));
        assert_eq!(policies.get(1).await.unwrap(), None);
        assert_eq!(all(&current(db)).await, Vec::<Document>::new());
        let tombstone = policies.at(1, 3).await.unwrap().unwrap();
        assert_eq!(tombstone.document, None);
        assert_eq!(policies.as_of(1, DateTime::MAX).await.unwrap().unwrap().document, None);
        let again = policies.delete(1).await.unwrap();
        assert_eq!((again.found, again.revision), (false, None));
        let missing = policies.update(1, push("ring")).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(findings(&policies).await, []);

        assert_eq!(policies.insert(&policy(1)).await.unwrap().revision, 4);
        assert_eq!(policies.delete(1).await.unwrap().revision, Some(5));
        // A restore brings a deleted document back.
        assert_eq!(policies.restore(1, 2).await.unwrap().revision, 6);
        assert_eq!(items(&policies.get(1).await.unwrap().unwrap().document), ["watch"]);
        let error = policies.restore(1, 3).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "a tombstone has no content");
        assert_eq!(numbers(db, 1).await, [1, 2, 3, 4, 5, 6]);
        let all = policies.revisions(1).page().await.unwrap().revisions;
        let deleted: Vec<bool> = all.iter().map(|revision| revision.document.is_none()).collect();
        assert_eq!(deleted, [false, false, true, false, true, false]);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_restore_is_a_new_revision_with_the_old_content() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        policies.update(1, push("watch")).await.unwrap();
        policies
            .update(1, doc! { "$set": { "note": "new" }, "$unset": { "customerName": "" } })
            .await
            .unwrap();
        let restored = policies.restore(1, 2).await.unwrap();
        assert_eq!(restored.revision, 4);
        let copies = copies(db, 1).await;
        let content = |copy: &Document| {
            let mut content = without_id(copy);
            content.remove("revision");
            content.remove("dateSet");
            content
        };
        assert_eq!(content(&copies[3]), content(&copies[1]));
        assert_eq!(copies[3].get_datetime("dateSet").unwrap(), &restored.time);
        let now = all(&current(db)).await;
        assert_eq!(without_id(&now[0]), without_id(&copies[3]));
    })
    .await;
}

#[tokio::test]
async fn a_prune_keeps_the_newest_revisions() {
    testkit::run(async |db| {
        let policies = with_policy(db).await;
        let mut times = Vec::new();
        for n in 2..=10 {
            times.push(policies.update(1, push(&n.to_string())).await.unwrap().time);
        }
        policies.insert(&policy(2)).await.unwrap();
        assert_eq!(policies.prune(1).keep_last(20).await.unwrap().revisions, 0);
        assert_eq!(policies.prune(1).keep_last(7).await.unwrap().revisions, 3);
        assert_eq!(numbers(db, 1).await, [4, 5, 6, 7, 8, 9, 10]);
        // Revision 6 is what the document was at that time, so it stays.
        let just_before_7 = DateTime::from_millis(times[5].timestamp_millis() - 1);
        assert_eq!(policies.prune(1).before(just_before_7).await.unwrap().revisions, 2);
        assert_eq!(numbers(db, 1).await, [6, 7, 8, 9, 10]);
        assert_eq!(policies.as_of(1, just_before_7).await.unwrap().unwrap().revision, 6);
        assert_eq!(policies.prune(1).before(DateTime::MAX).await.unwrap().revisions, 4);
        assert_eq!((numbers(db, 1).await, numbers(db, 2).await), (vec![10], vec![1]));
        assert_eq!(policies.update(1, push("11")).await.unwrap().revision, 11);
        policies.delete(1).await.unwrap();
        assert_eq!(policies.prune(1).keep_last(1).await.unwrap().revisions, 2);
        assert_eq!(
            policies.insert(&policy(1)).await.unwrap().revision,
            13,
            "the tombstone stays"
        );
        assert_eq!(policies.at(1, 3).await.unwrap(), None);
        assert_eq!(findings(&policies).await, []);
        for prune in [policies.prune(1), policies.prune(1).keep_last(0)] {
            assert_eq!(prune.await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    })
    .await;
}

#[tokio::test]
async fn a_diff_lists_the_changed_fields_by_path() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        let mut first = policy(1);
        first.extend(doc! { "address": { "city": "Boston", "zip": "1" }, "a.b": 1, "same": [f64::NAN, { "a": 1 }] });
        policies.insert(&first).await.unwrap();
        policies.update(1, push("watch")).await.unwrap();
        let update = doc! {
            "$set": { "address.zip": "2", "new": Bson::Null, "itemsInsured.0": "ring" }, "$unset": { "customerName": "" },
        };
        policies.update(1, update).await.unwrap();
        let mut diff = policies.diff(1, 2, 3).await.unwrap().changes;
        diff.sort_by(|one, other| one.path.cmp(&other.path));
        let found: Vec<(&str, Option<Bson>, Option<Bson>)> = diff
            .iter()
            .map(|change: &FieldChange| (change.path.as_str(), change.before.clone(), change.after.clone()))
            .collect();
        let text = |text: &str| Some(Bson::from(text));
        let expected = [
            ("address.zip", text("1"), text("2")),
            ("customerName", text("Michelle"), None),
            ("itemsInsured.0", text("watch"), text("ring")),
            ("new", None, Some(Bson::Null)),
        ];
        assert_eq!(found, expected);
        assert_eq!(policies.diff(1, 3, 3).await.unwrap().changes, []);
        let back = policies.diff(1, 3, 2).await.unwrap().changes;
        assert_eq!(back.len(), 4);
        let pushed = policies.diff(1, 1, 2).await.unwrap().changes;
        assert_eq!(pushed.len(), 1, "{pushed:?}");
        assert_eq!((pushed[0].path.as_str(), &pushed[0].after), ("itemsInsured.0", &text("watch")));
        // A deletion has no fields.
        policies.delete(1).await.unwrap();
        for (from, to) in [(3, 4), (4, 3)] {
            let changes = policies.diff(1, from, to).await.unwrap().changes;
            let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
            assert_eq!(paths, ["itemsInsured", "address", "a.b", "same", "new"]);
        }
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
