//! Tests of the subset commands with figures, and with further subsets.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use crate::subset::subset;
use crate::support::*;

#[tokio::test]
async fn computed_fields_are_options_and_settings_in_the_catalog() {
    const COMPUTED: [&str; 8] = words("--sum stars_sum=stars --count-by by_stars=stars --max best=stars --total count");
    testkit::run(async |db| {
        insert(db, "product", [doc! { "_id": 1 }]).await;
        let review = |id: i32| doc! { "review_id": id, "product_id": 1, "date": id, "stars": 3 + id % 2 };
        insert(db, "review", (0..5).map(review)).await;
        subset(db, &["migrate", "--from", "collection"]).ok();
        let with_computed = |arguments: &[&str]| {
            let arguments: Vec<&str> = arguments.iter().chain(&COMPUTED).copied().collect();
            subset(db, &arguments)
        };
        with_computed(&["verify"]).says(2, "the setting `");
        with_computed(&["migrate", "--from", "settings"]).ok();
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
        subset(db, &["verify"]).ok();
        update(db, "product", doc! {}, doc! { "$inc": { "stars_sum": 1 } }).await;
        assert_eq!(subset(db, &["verify"]).code, Some(1));
        subset(db, &["repair"]).ok();
        assert_eq!(all(db, "product").await.remove(0).get_i32("stars_sum").ok(), Some(17));

        for bad in ["stars_sum", "stars_sum=", "a.b=stars", "=stars"] {
            subset(db, &["verify", "--sum", bad]).says(2, "--sum");
        }
    })
    .await;
}

const BEST: &str = r#"
[[subset]]
[[subset.further]]
field = "best"
order = ["-stars"]
size = 1
filter = { stars = { "$gte" = 4 } }
"#;

#[tokio::test]
async fn further_subsets_are_tables_of_the_profile_and_settings_in_the_catalog() {
    testkit::run(async |db| {
        insert(db, "product", [doc! { "_id": 1 }]).await;
        let review = |id: i32| doc! { "review_id": id, "product_id": 1, "date": id, "stars": id };
        insert(db, "review", (0..7).map(review)).await;
        subset(db, &["migrate", "--from", "collection"]).ok();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profile.toml");
        let with_profile = |profile: &str, arguments: &[&str]| {
            std::fs::write(&file, profile).unwrap();
            let profile = ["--profile", file.to_str().unwrap()];
            subset(db, &[&profile, arguments].concat())
        };
        with_profile(BEST, &["verify"]).says(2, "the setting `further_subsets`");
        with_profile(BEST, &["migrate", "--from", "settings"]).ok();
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

        for (bad, text) in [
            ("[[subset]]\n[[subset.further]]\nfield = \"best\"", "order"),
            (
                "[[subset]]\n[[subset.further]]\nfield = \"best\"\norder = [\"stars\"]\nlimit = 1",
                "limit",
            ),
            (
                "[[subset]]\n[[subset.further]]\nfield = \"a.b\"\norder = [\"stars\"]",
                "a.b",
            ),
        ] {
            with_profile(bad, &["verify"]).says(2, text);
        }
    })
    .await;
}
