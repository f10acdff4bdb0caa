//! Documents and revisions that another program stored twice: no index can be created, and `verify` names them without it.

use futures::StreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::history::{Finding, Problem, Unrepaired};
use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::common::{all, until_error};
use support::history::*;

fn stored(id: impl Into<Bson>, revision: impl Into<Bson>, name: &str) -> Document {
    doc! {
        "_id": ObjectId::new(), "policyId": id.into(), "customerName": name, "itemsInsured": [], "revision": revision.into(),
        "dateSet": DateTime::from_millis(1000),
    }
}

/// Returns the findings, and the kind of the error after them.
async fn verified(policies: &Policies) -> (Vec<Finding>, ErrorKind) {
    let (found, error) = until_error(policies.verify().stream()).await;
    assert_eq!(error.operation(), Some("verify"));
    (found, error.kind())
}

#[tokio::test]
async fn documents_and_revisions_that_are_stored_twice_are_named_before_the_indexes_exist() {
    testkit::run(async |db| {
        let policies = builder(db.database()).build().unwrap();
        let now = [
            stored(1, 1, "a"),
            stored(1_i64, 1, "b"),
            stored(2, 1, "a"),
            stored(Bson::Null, 1, "a"),
        ];
        let copies = [
            stored(1, 1, "a"),
            stored(1, 2, "a"),
            stored(1.0, 2_i64, "b"),
            stored(2, 1, "a"),
        ];
        current(db).insert_many(&now).await.unwrap();
        revisions(db).insert_many(&copies).await.unwrap();
        let ids =
            |documents: [&Document; 2]| -> Vec<Bson> { documents.map(|one| one.get("_id").unwrap().clone()).to_vec() };
        let (found, error) = verified(&policies).await;
        assert_eq!(error, ErrorKind::IndexMissing);
        let found: Vec<(Bson, Problem, Vec<Bson>)> = found
            .into_iter()
            .map(|found| (found.document_id, found.problem, found.document_ids))
            .collect();
        assert_eq!(
            found,
            [
                (1.into(), Problem::DuplicateId { documents: 2 }, ids([&now[0], &now[1]])),
                (
                    1.into(),
                    Problem::DuplicateRevision { revisions: 2 },
                    ids([&copies[1], &copies[2]])
                ),
            ]
        );

        let error = policies.ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert!(error.to_string().contains("verify()"), "{error}");

        // A repair decides nothing.
        policies.ensure_indexes().replace_settings().await.unwrap_err();
        let before = [all(&current(db)).await, all(&revisions(db)).await];
        let repaired: Vec<_> = policies.repair().stream().collect().await;
        let (last, repaired) = repaired.split_last().unwrap();
        assert_eq!(last.as_ref().unwrap_err().kind(), ErrorKind::IndexMissing);
        assert_eq!(repaired.len(), 2);
        for one in repaired {
            assert_eq!(one.as_ref().unwrap().unrepaired, Some(Unrepaired::Duplicate));
        }
        assert_eq!([all(&current(db)).await, all(&revisions(db)).await], before);

        // With the named ones corrected, everything else is checked.
        current(db).delete_one(doc! { "_id": now[1].get("_id") }).await.unwrap();
        current(db).delete_one(doc! { "_id": now[3].get("_id") }).await.unwrap();
        revisions(db)
            .delete_one(doc! { "_id": copies[2].get("_id") })
            .await
            .unwrap();
        assert_eq!(verified(&policies).await, (vec![], ErrorKind::IndexMissing));
        policies.ensure_indexes().await.unwrap();
        let left: Vec<Problem> = findings(&policies).await.iter().map(|found| found.problem).collect();
        assert!(left.contains(&Problem::Ahead { revision: 2 }), "{left:?}");
    })
    .await;
}
