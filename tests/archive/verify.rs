//! The verification.

use futures::TryStreamExt;
use mongo_patterns::Progress;
use mongo_patterns::archive::Problem;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use super::books::problems;
use support::archive::sales::*;

#[tokio::test]
async fn each_problem_is_found() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..5).map(|id| sale(id, old(0)))).await;
        archive.run().await.unwrap();
        let current_documents = [
            sale(3, new(0)),
            doc! { "_id": "text", "date": "2018" },
            doc! { "_id": "array", "date": [old(0)] },
            doc! { "_id": "number", "date": 1 },
            // Kept on purpose.
            doc! { "_id": "null", "date": Bson::Null },
            doc! { "_id": "none" },
        ];
        current(db).insert_many(current_documents).await.unwrap();
        let text = doc! { "_id": "text too", "date": "2018" };
        archived(db).insert_one(text).await.unwrap();
        let mut found = problems(&archive).await;
        found.sort_by_key(|(collection, id, _)| (collection.clone(), id.to_string()));
        let of = |collection: &str, id: Bson, problem| (collection.to_owned(), id, problem);
        assert_eq!(
            found,
            [
                of("archived_sales", "text too".into(), Problem::NoDate),
                of("archived_sales", 3.into(), Problem::InBoth),
                of("sales", "array".into(), Problem::NoDate),
                of("sales", "number".into(), Problem::NoDate),
                of("sales", "text".into(), Problem::NoDate),
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn a_verification_of_many_documents_is_one_read_for_a_thousand() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let stored = (0..2500).map(|id| sale(id, old(0)));
        archived(db).insert_many(stored).await.unwrap();
        let both = (1200..1203).map(|id| sale(id, new(0)));
        current(db).insert_many(both).await.unwrap();
        db.recorder().clear();
        let mut done = 0;
        let verify = archive.verify().on_progress(|progress: Progress| done = progress.done);
        let found: Vec<_> = verify.stream().try_collect().await.unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(done, 2500);
        let finds = db.recorder().names().iter().filter(|name| *name == "find").count();
        // The catalog, three of the archive, one more for what is in both, and the ages of both.
        assert_eq!(finds, 1 + 1 + 3 + 1 + 2, "{:?}", db.recorder().names());
    })
    .await;
}
