//! Items and buckets at the limit of 16 MiB.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use crate::support::*;

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn what_would_pass_16_mib_is_refused_and_not_stored() {
    testkit::run(async |db| {
        let texts = BucketRepository::<u32, String>::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .build()
            .unwrap();
        texts.ensure_indexes().await.unwrap();
        for bytes in [16 * MIB - 8, 16 * MIB, 17 * MIB, 50 * MIB] {
            let error = texts.append(&1, &"x".repeat(bytes)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{bytes} bytes alone: {error:?}");
            assert!(error.is_invalid_input() && !error.is_outcome_unknown());
        }
        assert!(all(&plain(db)).await.is_empty());

        texts.append(&1, &"x".repeat(10 * MIB)).await.unwrap();
        let error = texts.append(&1, &"y".repeat(7 * MIB)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "with others: {error:?}");
        let counts = texts.counts(&1).await.unwrap();
        assert_eq!((counts.items, counts.pages), (1, 1));
        texts.append(&1, &"z".to_owned()).await.unwrap();
        assert!(violations(&plain(db), 10).await.is_empty());
        plain(db).delete_many(doc! {}).await.unwrap();
    })
    .await;
}
