//! What reads cost with a long history.

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use support::explain::explain;
use support::history::*;

const REVISIONS: i32 = 2_000;

fn revision(number: i32) -> Document {
    let mut revision = policy(1);
    revision.extend(doc! { "revision": number, "dateSet": time(number) });
    revision
}

/// Revision `n` is of second `n`.
fn time(number: i32) -> DateTime {
    DateTime::from_millis(i64::from(number) * 1000)
}

/// Returns how many documents the commands since the last call examined, and how many commands there were.
async fn examined(db: &TestDatabase) -> (i64, usize) {
    let commands = db.recorder().commands();
    let mut documents = 0;
    for command in &commands {
        let examined = explain(db, command).await;
        let of_id = ["policyId_1", "documentId_1", "_id_"];
        assert!(
            of_id.iter().any(|index| examined.index.starts_with(index)),
            "{examined:?}"
        );
        assert!(examined.keys <= examined.documents + 1, "{examined:?}");
        documents += examined.documents;
    }
    db.recorder().clear();
    (documents, commands.len())
}

/// Documents with an id field, and by `_id`.
#[tokio::test]
async fn a_read_examines_only_what_it_returns() {
    testkit::run(async |db| {
        for (builder, fields) in [
            (builder(db.database()), ["policyId"; 2]),
            (by_id(db.database()), ["_id", "documentId"]),
        ] {
            current(db).drop().await.unwrap();
            revisions(db).drop().await.unwrap();
            let policies = ready(db, builder).await;
            let with = |field: &str, number: i32| {
                let mut document = revision(number);
                let id = document.remove("policyId");
                document.insert(field, id);
                document
            };
            let many: Vec<Document> = (1..=REVISIONS).map(|number| with(fields[1], number)).collect();
            revisions(db).insert_many(many).await.unwrap();
            current(db).insert_one(with(fields[0], REVISIONS)).await.unwrap();
            assert_reads(db, &policies).await;
        }
    })
    .await;
}

async fn assert_reads(db: &TestDatabase, policies: &Policies) {
    policies.update(1, push("watch")).await.unwrap();
    db.recorder().clear();

    for number in [1, 2, 1000, 1999] {
        let middle = DateTime::from_millis(i64::from(number) * 1000 + 500);
        let found = policies.as_of(1, middle).await.unwrap().unwrap();
        assert_eq!(found.revision, number as u64);
        assert_eq!(examined(db).await, (1, 1));
        assert_eq!(policies.at(1, number as u64).await.unwrap().unwrap().time, time(number));
        assert_eq!(examined(db).await, (1, 1));
    }
    let now = policies.as_of(1, DateTime::now()).await.unwrap().unwrap();
    assert_eq!(now.revision, REVISIONS as u64 + 1);
    assert_eq!(examined(db).await, (1, 1));
    policies.get(1).await.unwrap().unwrap();
    assert_eq!(examined(db).await, (1, 1));

    let page = policies.revisions(1).newest_first().limit(20).page().await.unwrap();
    assert_eq!(page.items.len(), 20);
    let (documents, commands) = examined(db).await;
    assert!((20..=21).contains(&documents) && commands == 1, "{documents}");
    let mut token = page.next.unwrap();
    policies.revisions(1).limit(20).page().await.unwrap();
    let (documents, commands) = examined(db).await;
    assert!((20..=21).contains(&documents) && commands == 1, "{documents}");
    for _ in 0..3 {
        let call = policies.revisions(1).newest_first().limit(20).after(token);
        token = call.page().await.unwrap().next.unwrap();
        let (documents, commands) = examined(db).await;
        assert!((20..=21).contains(&documents) && commands == 1, "{documents}");
    }
    let all: Vec<_> = policies.revisions(1).limit(1000).stream().try_collect().await.unwrap();
    assert_eq!(all.len(), REVISIONS as usize + 1);
    assert!((1..).zip(&all).all(|(number, revision)| revision.revision == number));
}
