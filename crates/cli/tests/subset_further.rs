//! Tests of the subset commands with further subsets.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use crate::subset::subset;
use crate::support::*;

const BEST: &str = r#"{"field": "best", "order": ["-stars"], "size": 1, "filter": {"stars": {"$gte": 4}}}"#;

#[tokio::test]
async fn further_subsets_are_options_and_settings_in_the_catalog() {
    testkit::run(async |db| {
        insert(db, "product", [doc! { "_id": 1 }]).await;
        let review = |id: i32| doc! { "review_id": id, "product_id": 1, "date": id, "stars": id };
        insert(db, "review", (0..7).map(review)).await;
        subset(db, &["migrate", "--from", "collection"]).ok();
        subset(db, &["verify", "--add-subset", BEST]).says(2, "the setting `further_subsets`");
        let arguments = ["--from", "settings", "--add-subset", BEST, "--old-add-subset", "none"];
        let migrate: Vec<&str> = ["migrate"].into_iter().chain(arguments).collect();
        subset(db, &migrate).ok();
        let best = async || {
            let product = all(db, "product").await.remove(0);
            product.get_array("best").unwrap().clone()
        };
        let expected = [Bson::from(doc! { "review_id": 6, "date": 6, "stars": 6 })];
        assert_eq!(best().await, expected);

        // The catalog has the settings.
        subset(db, &["verify"]).ok();
        update(db, "product", doc! {}, doc! { "$set": { "best": [] } }).await;
        subset(db, &["verify", "--json"]).begins(1, json!({ "fields": ["best"] }));
        subset(db, &["repair"]).ok();
        assert_eq!(best().await, expected);

        for bad in ["best", "{}", r#"{"field": "a.b", "order": ["stars"]}"#] {
            subset(db, &["verify", "--add-subset", bad]).says(2, "--add-subset");
        }
    })
    .await;
}
