//! Tests of the subset commands with figures.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use crate::subset::subset;
use crate::support::*;

#[tokio::test]
async fn computed_fields_are_options_and_settings_in_the_catalog() {
    const COMPUTED: [&str; 8] = [
        "--sum",
        "stars_sum=stars",
        "--count-by",
        "by_stars=stars",
        "--max",
        "best=stars",
        "--total",
        "count",
    ];
    testkit::run(async |db| {
        db.plain_collection::<Document>("product")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let review = |id: i32| doc! { "review_id": id, "product_id": 1, "date": id, "stars": 3 + id % 2 };
        db.plain_collection::<Document>("review")
            .insert_many((0..5).map(review))
            .await
            .unwrap();
        assert_eq!(subset(db, &["migrate", "--from", "collection"]).code, Some(0));
        let with_computed = |arguments: &[&str]| {
            let arguments: Vec<&str> = arguments.iter().chain(&COMPUTED).copied().collect();
            subset(db, &arguments)
        };
        let other = with_computed(&["verify"]);
        assert_eq!(other.code, Some(2), "{other:?}");
        assert!(other.err.contains("the setting `"), "{}", other.err);
        let migrated = with_computed(&["migrate", "--from", "settings", "--old-without-totals"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let product = all(db, "product").await.remove(0);
        assert_eq!(product.get_i32("stars_sum").ok(), Some(17));
        assert_eq!(product.get_i64("count").ok(), Some(5));
        assert_eq!(product.get_i32("best").ok(), Some(4));
        let by_stars = [doc! { "value": 3, "count": 3_i64 }, doc! { "value": 4, "count": 2_i64 }];
        assert_eq!(
            product.get_array("by_stars").ok(),
            Some(&by_stars.map(Bson::from).to_vec())
        );

        // The catalog has the settings.
        assert_eq!(subset(db, &["verify"]).code, Some(0));
        let wrong = doc! { "$inc": { "stars_sum": 1 } };
        db.plain_collection::<Document>("product")
            .update_one(doc! {}, wrong)
            .await
            .unwrap();
        assert_eq!(subset(db, &["verify"]).code, Some(1));
        assert_eq!(subset(db, &["repair"]).code, Some(0));
        assert_eq!(all(db, "product").await.remove(0).get_i32("stars_sum").ok(), Some(17));

        for bad in ["stars_sum", "stars_sum=", "a.b=stars", "=stars"] {
            let refused = subset(db, &["verify", "--sum", bad]);
            assert_eq!(refused.code, Some(2), "{refused:?}");
            assert!(refused.err.contains("--sum"), "{}", refused.err);
        }
    })
    .await;
}
