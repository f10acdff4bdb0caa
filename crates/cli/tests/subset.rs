//! Tests of the subset commands.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::support::*;

pub fn subset(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("subset").args(REVIEWS).args(arguments))
}

#[tokio::test]
async fn a_stale_subset_is_found_and_rebuilt() {
    testkit::run(async |db| {
        insert(db, "product", [doc! { "_id": 1 }]).await;
        let review = |id: i32| doc! { "review_id": id, "product_id": 1, "date": id };
        insert(db, "review", (0..5).map(review)).await;
        subset(db, &["verify"]).says(1, "indexes --create");
        subset(db, &["indexes", "--create"]).ok();
        subset(db, &["verify", "--json"]).begins(1, json!({ "problem": "Stale" }));
        assert_eq!(subset(db, &["repair", "--dry-run"]).code, Some(1));
        subset(db, &["repair"]).ok();
        subset(db, &["verify"]).ok();
        assert_eq!(shown(&all(db, "product").await[0]), [4, 3]);
    })
    .await;
}

/// Inserts products with all of their reviews, of which they have 0 to 4.
pub async fn embed(db: &TestDatabase, products: i32) {
    let product = |id: i32| {
        let reviews: Vec<Document> = (0..id % 5)
            .map(|n| doc! { "_id": id * 10 + n, "review_id": n, "date": n })
            .collect();
        doc! { "_id": id, "reviews": reviews }
    };
    insert(db, "product", (0..products).map(product)).await;
}

fn shown(product: &Document) -> Vec<i32> {
    let reviews = product.get_array("reviews").unwrap().iter();
    reviews
        .map(|review| review.as_document().unwrap().get_i32("date").unwrap())
        .collect()
}

#[tokio::test]
async fn embedded_children_are_analyzed_and_migrated_to_their_own_collection() {
    testkit::run(async |db| {
        embed(db, 50).await;
        subset(db, &["analyze", "--json"]).ends(0, json!({ "items": 100 }));
        subset(db, &["analyze", "--collection", "none"]).says(2, "no collection");
        let from = ["--from", "embedded", "--chunk", "30"];
        let run = |verb: &str, more: &[&str]| subset(db, &[&[verb], &from[..], more].concat());
        run("plan", &[]).ok().shows([
            "// writes: create indexes",
            "// writes: copy the children of a chunk",
            "db.getSiblingDB(\"admin\").runCommand(",
            "// writes: record that the migration has finished",
        ]);
        run("migrate", &["--dry-run", "--json"]).ends(0, json!({ "documents": 50, "children": 100 }));
        assert!(all(db, "review").await.is_empty());

        let migrated = run("migrate", &["--json"]);
        migrated.ends(0, json!({ "documents": 50, "children": 100 }));
        assert!(migrated.err.contains("100 of 100 children"), "{}", migrated.err);
        let reviews = all(db, "review").await;
        assert_eq!(reviews.len(), 100);
        let first = doc! { "product_id": 1, "_id": 10, "review_id": 0, "date": 0 };
        assert_eq!(reviews[0], first);
        assert_eq!(shown(&all(db, "product").await[4]), [3, 2]);
        subset(db, &["verify"]).says(0, "50 of 50 parents");
    })
    .await;
}

#[tokio::test]
async fn errors_for_existing_children_name_the_options() {
    testkit::run(async |db| {
        embed(db, 5).await;
        let orphan = doc! { "_id": 1, "product_id": 77, "review_id": 1, "date": 1 };
        insert(db, "review", [orphan]).await;
        subset(db, &["migrate", "--from", "embedded"]).says(1, "--allow-non-empty-target");
        let not_migrated = subset(db, &["migrate", "--from", "collection"]);
        for text in [
            "subset migrate --from embedded",
            "--discard-embedded",
            &format!("{}.product", db.database().name()),
        ] {
            not_migrated.says(1, text);
        }
        let before = all(db, "product").await;
        let discard = ["migrate", "--from", "collection", "--discard-embedded"];
        subset(db, &discard).says(2, "--yes");
        subset(db, &[&discard[..], &["--dry-run"]].concat()).ok();
        assert_eq!(all(db, "product").await, before);
        let left = subset(db, &["repair", "--json"]);
        assert_eq!(left.code, Some(1), "{left:?}");
        let mut repaired = left.lines("repaired");
        repaired.retain(|line| line["unrepaired"] == "NotMigrated");
        assert!(
            repaired[0]["text"].as_str().unwrap().contains("--from embedded"),
            "{left:?}"
        );
        subset(db, &["migrate", "--from", "embedded", "--allow-non-empty-target"]).ok();
        subset(db, &["verify", "--json"]).begins(1, json!({ "problem": "Orphaned", "_id": 77 }));
    })
    .await;
}

#[tokio::test]
async fn existing_collections_are_migrated_and_their_order_and_size_change() {
    testkit::run(async |db| {
        let products = (0..3).map(|id| doc! { "_id": id });
        insert(db, "product", products).await;
        let review = |n: i32| doc! { "review_id": n, "product_id": n % 4, "date": n, "stars": 100 - n };
        insert(db, "review", (0..40).map(review)).await;
        let from = ["migrate", "--from", "collection", "--json"];
        let migrate_existing = |more: &[&str]| subset(db, &[&from[..], more].concat());
        migrate_existing(&["--dry-run"]).ends(0, json!({ "documents": 3 }));
        assert!(all(db, "product").await.iter().all(|product| product.len() == 1));
        migrate_existing(&[]).ends(1, json!({ "documents": 3, "orphans": 10 }));
        assert_eq!(shown(&all(db, "product").await[0]), [36, 32]);
        let reviews = db.plain_collection::<Document>("review");
        reviews.delete_many(doc! { "product_id": 3 }).await.unwrap();

        let stars = |verb: &[&str]| {
            let names = &REVIEWS[..10];
            let new = ["--order", "-stars", "--size", "3"];
            let from = ["--from", "settings"];
            ran(on(db).arg("subset").args(names).args(new).args(verb).args(from))
        };
        stars(&["plan"]).shows(["// writes: drop the old index"]);
        let migrated = stars(&["migrate", "--json"]);
        assert_eq!(
            (migrated.code, migrated.summary()["dropped_index"].is_string()),
            (Some(0), true),
            "{migrated:?}"
        );
        assert_eq!(shown(&all(db, "product").await[0]), [0, 4, 8]);
        stars(&["migrate"]).says(2, "those of the catalog already");
        // The order is that of the catalog.
        subset(db, &["verify"]).says(2, "`order`");

        for (arguments, text) in [
            ("--from embedded --old-order date", "only with --from settings"),
            (
                "--from collection --allow-non-empty-target",
                "only with --from embedded",
            ),
            ("--from embedded --discard-embedded", "only with --from collection"),
            ("", "--from"),
        ] {
            let migrate: Vec<&str> = ["migrate"].into_iter().chain(arguments.split_whitespace()).collect();
            subset(db, &migrate).says(2, text);
        }
    })
    .await;
}

#[tokio::test]
async fn an_analysis_estimates_each_size() {
    testkit::run(async |db| {
        let padding = "x".repeat(100);
        let products = (0..100).map(|id| doc! { "_id": id, "name": &padding });
        insert(db, "product", products).await;
        // 90 products with 4 reviews, 5 with 30, and 5 with none.
        let number = |id: i32| match id {
            0..90 => 4,
            90..95 => 30,
            _ => 0,
        };
        let reviews = (0..100).flat_map(|id| {
            let padding = &padding;
            (0..number(id)).map(move |n| doc! { "product_id": id, "review_id": n, "date": n, "text": padding })
        });
        insert(db, "review", reviews).await;
        let text = subset(db, &["analyze"]).ok();
        text.shows([
            "510 children of 95 parents",
            "Parents by their number of children",
            "subset of 10",
            "Advice",
        ]);
        text.fits_80_columns();
        let of_sizes = || subset(db, &["analyze", "--json"]).lines("subset_size");
        let lines = of_sizes();
        let of = |size: i32| lines.iter().find(|line| line["size"] == size).unwrap();
        assert_eq!([&of(3)["parents"], &of(3)["documents"]], [100, 610]);
        let second = |size: i32| -> Vec<i64> {
            let pages = of(size)["second_reads"].as_array().unwrap().iter();
            pages.map(|page| page["parents"].as_i64().unwrap()).collect()
        };
        assert_eq!(
            (second(3), second(10), second(50)),
            (vec![95, 95, 95], vec![0, 5, 5], vec![0, 0, 0])
        );

        // The estimate for a size of ten agrees with a migration.
        let settings = ["--size", "10", "migrate", "--from", "collection"];
        ran(on(db).arg("subset").args(REVIEWS).args(settings)).ok();
        let statistics = doc! { "collStats": "product" };
        let statistics = db.database().run_command(statistics).await.unwrap();
        let stored = f64::from(statistics.get_i32("avgObjSize").unwrap());
        let estimated = of(10)["parent_bytes"].as_f64().unwrap();
        assert!(
            (0.85..1.15).contains(&(estimated / stored)),
            "estimated {estimated}, stored {stored}"
        );
        let again = of_sizes().into_iter().find(|line| line["size"] == 10);
        let again = again.unwrap()["parent_bytes"].as_f64().unwrap();
        assert!(
            (again - estimated).abs() < estimated / 10.0,
            "{again} and {estimated}: embedded children must not count twice"
        );
    })
    .await;
}

#[tokio::test]
async fn a_profile_is_derived_from_children_or_parents() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let products = (0..30).map(|id| doc! { "_id": id });
        insert(db, "product", products).await;
        let review = |n: i32| {
            let date = mongodb::bson::DateTime::from_millis((SECOND + i64::from(n)) * 1000);
            doc! { "_id": n, "review_id": 100 + n, "product_id": n % 20, "date": date }
        };
        insert(db, "review", (0..60).map(review)).await;
        let init = ran(on(db).current_dir(folder.path()).args(["--json", "init", "review"]));
        init.ends(0, json!({ "settings": "bucket review_buckets" }));
        let file = folder.path().join("mongo-patterns.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("20 of 20 values of `product_id` are `_id`s of product"),
            "{text}"
        );
        subset(db, &["migrate", "--from", "collection"]).ok();
        for collection in ["product", "review"] {
            let out = profile(db, collection);
            out.shows([
                "the settings are those of the catalog",
                "[[subset]]",
                "children_collection = \"review\"",
            ]);
            assert!(
                !out.out.contains("[[embedded]]") && !out.out.contains("[[bucket]]"),
                "{out:?}"
            );
        }
        let patron = doc! { "_id": "joe", "addresses": [{ "id": "home" }, { "id": "work" }] };
        insert(db, "patron", [patron]).await;
        let profile = profile(db, "patron").out;
        let settings: Vec<&str> = profile.lines().filter(|line| !line.starts_with('#')).collect();
        let file = write(folder.path(), "patron.toml", &settings.join("\n"));
        ran(on(db).args(["--profile", &file, "embedded", "verify"])).ok();
    })
    .await;
}
