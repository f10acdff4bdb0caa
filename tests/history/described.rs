//! Who made a change, and why: fields that each call replaces.

use mongo_patterns::ErrorKind;
use mongo_patterns::history::Revision;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, Timestamp, doc};

use support::common::all;
use support::history::follow::assert_recorded;
use support::history::*;

fn by(name: &str) -> Document {
    doc! { "changedBy": name, "reason": { "code": "$x", "texts": [name] } }
}

#[tokio::test]
async fn each_call_replaces_what_describes_the_change() {
    testkit::run(async |db| {
        let builder = builder(db.database()).change_fields(["changedBy", "reason"]);
        let policies = ready(db, builder).await;
        let first = policy(1);
        policies.insert(&first).with(by("Ann")).await.unwrap();
        let call = policies.update(1, push("a"));
        call.with(doc! { "changedBy": "Bob" }).await.unwrap();
        policies.update(1, push("b")).await.unwrap();
        let pipeline = vec![doc! { "$set": { "customerName": "Carol" } }];
        let call = policies.update(1, pipeline.clone());
        call.with(doc! { "reason": "$customerName" }).await.unwrap();
        policies.update(1, pipeline).await.unwrap();
        policies.replace(1, &first).with(by("Dan")).expecting(5).await.unwrap();
        policies.restore(1, 1).with(by("Eve")).await.unwrap();
        policies.delete(1).with(by("Fay")).await.unwrap();
        for by in [by("Hal"), by("Ivy"), doc! {}] {
            policies.upsert(&policy(1)).with(by).await.unwrap();
        }
        policies.restore(1, 2).with(doc! { "changedBy": "Gus" }).await.unwrap();
        let expected = [
            by("Ann"),
            doc! { "changedBy": "Bob" },
            doc! {},
            doc! { "reason": "$customerName" },
            doc! {},
            by("Dan"),
            by("Eve"),
            by("Fay"),
            by("Hal"),
            by("Ivy"),
            doc! {},
            doc! { "changedBy": "Gus" },
        ];
        let page = policies.revisions(1).page().await.unwrap().items;
        let found: Vec<&Document> = page.iter().map(|revision| &revision.change).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>());
        // A reader of the documents sees them too.
        let with_fields = |revision: &Revision<Document>| {
            let document = revision.document.as_ref()?;
            let fields = ["changedBy", "reason"].iter().filter_map(|field| {
                let value = document.get(*field)?;
                Some(((*field).to_owned(), value.clone()))
            });
            Some(fields.collect::<Document>())
        };
        for (revision, expected) in page.iter().zip(&expected) {
            assert_eq!(with_fields(revision).as_ref().unwrap_or(expected), expected);
        }
        assert_eq!(policies.diff(1, 1, 7).await.unwrap().changes, [], "the same content");
        let now = all(&current(db)).await.remove(0);
        assert_eq!((now.get_str("changedBy").unwrap(), now.get("reason")), ("Gus", None));
        assert_recorded(db, &policies, "").await;
    })
    .await;
}

#[tokio::test]
async fn other_fields_and_updates_of_these_are_refused() {
    testkit::run(async |db| {
        let fields = builder(db.database()).change_fields(["changedBy"]);
        let policies = ready(db, fields).await;
        policies.insert(&policy(1)).await.unwrap();
        let before = contents(db).await;
        let zero = Timestamp { time: 0, increment: 0 };
        for with in [
            doc! { "reason": "x" },
            doc! { "changedBy": "a", "customerName": "b" },
            doc! { "changedBy": zero },
        ] {
            let refused = [
                policies.update(1, push("a")).with(with.clone()).await.unwrap_err(),
                policies.replace(1, &policy(1)).with(with.clone()).await.unwrap_err(),
                policies.delete(1).with(with.clone()).await.unwrap_err(),
                policies.restore(1, 1).with(with.clone()).await.unwrap_err(),
                policies.upsert(&policy(1)).with(with.clone()).await.unwrap_err(),
                policies.insert(&policy(2)).with(with.clone()).await.unwrap_err(),
                policies.insert_many(&[policy(2)]).with(with).await.unwrap_err(),
            ];
            assert!(
                refused.iter().all(|error| error.kind() == ErrorKind::InvalidArgument),
                "{refused:?}"
            );
        }
        // In a document they are refused as in an update, also those of an earlier change that was read with it.
        for number in [1, 2] {
            let mut described = policy(number);
            described.insert("changedBy", "Mallory");
            let refused = [
                policies.insert(&described).await.map(drop),
                policies.insert_many(&[described.clone()]).await.map(drop),
                policies.upsert(&described).await.map(drop),
                policies.replace(number, &described).await.map(drop),
                policies
                    .upsert(&described)
                    .with(doc! { "changedBy": "Ann" })
                    .await
                    .map(drop),
            ];
            for error in refused.map(Result::unwrap_err) {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                assert!(error.to_string().contains("with(..)"), "{error}");
            }
        }
        for update in [
            doc! { "$set": { "changedBy": "a" } },
            doc! { "$unset": { "changedBy.x": "" } },
        ] {
            let error = policies.update(1, update).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert_eq!(contents(db).await, before);
        // A client that does not know the fields would leave them of an earlier change.
        let other = builder(db.database()).build().unwrap();
        assert_eq!(
            other.ensure_indexes().await.unwrap_err().kind(),
            ErrorKind::SettingsMismatch
        );
    })
    .await;
}
