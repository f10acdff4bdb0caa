//! Children with the same id, which another program inserted: no index can be created, and `verify` names them without it.

use futures::{StreamExt, TryStreamExt};
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Finding, Problem, Repaired, Unrepaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use support::common::{all, until_error};
use support::subset::*;

/// Inserts reviews by another program. Returns their `_id`s.
async fn insert(db: &TestDatabase, children: Vec<Document>) -> Vec<Bson> {
    let inserted = reviews(db).insert_many(&children).await.unwrap().inserted_ids;
    (0..children.len()).map(|at| inserted[&at].clone()).collect()
}

fn child(product: impl Into<Bson>, id: impl Into<Bson>) -> Document {
    doc! { "_id": ObjectId::new(), "product_id": product.into(), "review_id": id.into(), "published_date": day(1) }
}

/// Returns the findings, and the kind of the error after them.
async fn verified(products: &Any) -> (Vec<Finding>, ErrorKind) {
    let (found, error) = until_error(products.verify().stream()).await;
    assert_eq!(error.operation(), Some("verify"));
    (found, error.kind())
}

#[tokio::test]
async fn children_with_one_id_are_named_before_the_index_exists() {
    testkit::run(async |db| {
        let products: Any = builder(db.database()).build().unwrap();
        for id in 1..=4 {
            add_product(db, id).await;
        }
        let two = insert(db, vec![child(1, 1), child(1, 1)]).await;
        insert(db, vec![child(1, 2), child(2, 1), child(3, Bson::Null)]).await;
        // Equal by value, as for the index.
        let equal = insert(db, vec![child(2, 7), child(2, 7_i64), child(2, 7.0)]).await;
        // Without an id, and with null.
        let mut without = child(4, 0);
        without.remove("review_id");
        let missing = insert(db, vec![without, child(4, Bson::Null)]).await;
        // One value of an array is enough. An empty one is not null, and a value twice is of one document.
        let arrays = insert(db, vec![child(4, vec![8, 9]), child(4, vec![9, 10])]).await;
        insert(db, vec![child(4, Vec::<i32>::new()), child(4, vec![11, 11])]).await;

        let (found, error) = verified(&products).await;
        assert_eq!(error, ErrorKind::IndexMissing);
        let found: Vec<(Bson, Problem, Vec<Bson>)> = found
            .into_iter()
            .map(|found| (found.document_id, found.problem, found.document_ids))
            .collect();
        let duplicate = |children| Problem::DuplicateChildId { children };
        let expected = [
            (1.into(), duplicate(2), two.clone()),
            (2.into(), duplicate(3), equal.clone()),
            (4.into(), duplicate(2), missing.clone()),
            (4.into(), duplicate(2), arrays.clone()),
        ];
        assert_eq!(found, expected);

        // The index refuses the same documents, before anything is written, and its error leads to verify.
        let before = [all(&product(db)).await, all(&reviews(db)).await];
        let error = products.migrate_existing().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert!(error.to_string().contains("verify()"), "{error}");
        let error = products.ensure_indexes().replace_settings().await.unwrap_err();
        assert!(error.is_corrupt(), "{error:?}");

        // A repair decides nothing.
        let repaired: Vec<_> = products.repair().stream().collect().await;
        let (last, repaired) = repaired.split_last().unwrap();
        assert_eq!(last.as_ref().unwrap_err().kind(), ErrorKind::IndexMissing);
        let repaired: Vec<&Repaired> = repaired.iter().map(|one| one.as_ref().unwrap()).collect();
        assert_eq!(repaired.len(), expected.len());
        let is_left = |one: &&Repaired| one.unrepaired == Some(Unrepaired::DuplicateChildId);
        assert!(repaired.iter().all(is_left), "{repaired:?}");
        assert_eq!([all(&product(db)).await, all(&reviews(db)).await], before);

        // With the named ones corrected, the index is created.
        let corrected = [&two[1..], &equal[1..], &missing[1..], &arrays[1..]].concat();
        reviews(db)
            .delete_many(doc! { "_id": { "$in": corrected } })
            .await
            .unwrap();
        assert_eq!(verified(&products).await, (vec![], ErrorKind::IndexMissing));
        // No index has the order of an array.
        reviews(db).delete_many(doc! { "product_id": 4 }).await.unwrap();
        products.migrate_existing().await.unwrap();
        let left: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
        assert_eq!(left, []);
    })
    .await;
}

#[tokio::test]
async fn many_duplicates_of_one_id_are_counted_and_some_are_named() {
    testkit::run(async |db| {
        let products: Any = builder(db.database()).build().unwrap();
        insert(db, (0..120).map(|_| child(1, "x")).collect()).await;
        let (found, error) = verified(&products).await;
        assert_eq!((found.len(), error), (1, ErrorKind::IndexMissing));
        assert_eq!(found[0].problem, Problem::DuplicateChildId { children: 120 });
        assert_eq!(found[0].document_ids.len(), 100);
    })
    .await;
}
