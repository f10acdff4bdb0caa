//! Tests of the subset commands with further subsets.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use crate::subset::subset;
use crate::support::*;

const BEST: &str = r#"{"field": "best", "order": ["-stars"], "size": 1, "filter": {"stars": {"$gte": 4}}}"#;

#[tokio::test]
async fn further_subsets_are_options_and_settings_in_the_catalog() {
    testkit::run(async |db| {
        let products = db.plain_collection::<Document>("product");
        products.insert_one(doc! { "_id": 1 }).await.unwrap();
        let review = |id: i32| doc! { "review_id": id, "product_id": 1, "date": id, "stars": id };
        db.plain_collection::<Document>("review")
            .insert_many((0..7).map(review))
            .await
            .unwrap();
        assert_eq!(subset(db, &["migrate", "--from", "collection"]).code, Some(0));
        let other = subset(db, &["verify", "--add-subset", BEST]);
        assert_eq!(other.code, Some(2), "{other:?}");
        assert!(other.err.contains("the setting `further_subsets`"), "{}", other.err);
        let arguments = ["--from", "settings", "--add-subset", BEST, "--old-add-subset", "none"];
        let migrate: Vec<&str> = ["migrate"].into_iter().chain(arguments).collect();
        let migrated = subset(db, &migrate);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let best = async || {
            let product = all(db, "product").await.remove(0);
            product.get_array("best").unwrap().clone()
        };
        let expected = [Bson::from(doc! { "review_id": 6, "date": 6, "stars": 6 })];
        assert_eq!(best().await, expected);

        // The catalog has the settings.
        assert_eq!(subset(db, &["verify"]).code, Some(0));
        products
            .update_one(doc! {}, doc! { "$set": { "best": [] } })
            .await
            .unwrap();
        let found = subset(db, &["verify", "--json"]);
        assert_eq!(found.code, Some(1), "{found:?}");
        assert_eq!(found.json()[0]["fields"], serde_json::json!(["best"]));
        assert_eq!(subset(db, &["repair"]).code, Some(0));
        assert_eq!(best().await, expected);

        for bad in ["best", "{}", r#"{"field": "a.b", "order": ["stars"]}"#] {
            let refused = subset(db, &["verify", "--add-subset", bad]);
            assert_eq!(refused.code, Some(2), "{refused:?}");
            assert!(refused.err.contains("--add-subset"), "{}", refused.err);
        }
    })
    .await;
}
