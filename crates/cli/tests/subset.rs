//! Tests of the subset commands.

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::support::*;

pub fn subset(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("subset").args(REVIEWS).args(arguments))
}

#[tokio::test]
async fn a_stale_subset_is_found_and_rebuilt() {
    testkit::run(async |db| {
        db.plain_collection::<Document>("product")
            .insert_one(doc! { "_id": 1 })
            .await
            .unwrap();
        let review = |id: i32| doc! { "review_id": id, "product_id": 1, "date": id };
        db.plain_collection::<Document>("review")
            .insert_many((0..5).map(review))
            .await
            .unwrap();
        let missing = subset(db, &["verify"]);
        assert_eq!(missing.code, Some(1), "{missing:?}");
        assert!(missing.err.contains("indexes --create"), "{}", missing.err);
        assert_eq!(subset(db, &["indexes", "--create"]).code, Some(0));
        let found = subset(db, &["verify", "--json"]);
        assert_eq!(
            (found.code, &found.json()[0]["problem"]),
            (Some(1), &"Stale".into()),
            "{found:?}"
        );
        assert_eq!(subset(db, &["repair", "--dry-run"]).code, Some(1));
        assert_eq!(subset(db, &["repair"]).code, Some(0));
        assert_eq!(subset(db, &["verify"]).code, Some(0));
        let product = all(db, "product").await.remove(0);
        let dates: Vec<i32> = product
            .get_array("reviews")
            .unwrap()
            .iter()
            .map(|review| review.as_document().unwrap().get_i32("date").unwrap())
            .collect();
        assert_eq!(dates, [4, 3]);
    })
    .await;
}

/// Inserts products with all of their reviews, of which they have 0 to 4.
async fn embed(db: &TestDatabase, products: i32) {
    let product = |id: i32| {
        let reviews: Vec<Document> = (0..id % 5)
            .map(|n| doc! { "_id": id * 10 + n, "review_id": n, "date": n })
            .collect();
        doc! { "_id": id, "reviews": reviews }
    };
    let product_collection = db.plain_collection::<Document>("product");
    product_collection
        .insert_many((0..products).map(product))
        .await
        .unwrap();
}

fn shown(product: &Document) -> Vec<i32> {
    let reviews = product.get_array("reviews").unwrap().iter();
    reviews
        .map(|review| review.as_document().unwrap().get_i32("date").unwrap())
        .collect()
}

#[tokio::test]
async fn embedded_children_are_migrated_to_their_own_collection() {
    testkit::run(async |db| {
        embed(db, 50).await;
        let from = ["--from", "embedded", "--chunk", "30"];
        let run = |verb: &str, more: &[&str]| {
            let arguments: Vec<&str> = [verb].iter().chain(&from).chain(more).copied().collect();
            subset(db, &arguments)
        };
        let planned = run("plan", &[]);
        assert_eq!(planned.code, Some(0), "{planned:?}");
        for text in [
            "// writes: create indexes",
            "// writes: copy the children of a chunk",
            "db.getSiblingDB(\"admin\").runCommand(",
            "// writes: record that the migration has finished",
        ] {
            assert!(planned.out.contains(text), "{text}: {}", planned.out);
        }
        let dry = run("migrate", &["--dry-run", "--json"]);
        assert_eq!(
            (dry.code, &dry.summary()["parents"], &dry.summary()["children"]),
            (Some(0), &40.into(), &100.into()),
            "{dry:?}"
        );
        assert!(all(db, "review").await.is_empty());

        let migrated = run("migrate", &["--json"]);
        assert_eq!(
            (
                migrated.code,
                &migrated.summary()["parents"],
                &migrated.summary()["children"]
            ),
            (Some(0), &40.into(), &100.into()),
            "{migrated:?}"
        );
        assert!(migrated.err.contains("100 of 100 children"), "{}", migrated.err);
        let reviews = all(db, "review").await;
        assert_eq!(reviews.len(), 100);
        assert_eq!(
            reviews[0],
            doc! { "product_id": 1, "_id": 10, "review_id": 0, "date": 0 }
        );
        assert_eq!(shown(&all(db, "product").await[4]), [3, 2]);
        let verified = subset(db, &["verify"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
        assert!(verified.err.contains("50 of 50 parents"), "{}", verified.err);
    })
    .await;
}

#[tokio::test]
async fn errors_for_existing_children_name_the_options() {
    testkit::run(async |db| {
        embed(db, 5).await;
        let reviews = db.plain_collection::<Document>("review");
        reviews
            .insert_one(doc! { "_id": 1, "product_id": 77, "review_id": 1, "date": 1 })
            .await
            .unwrap();
        let refused = subset(db, &["migrate", "--from", "embedded"]);
        assert!(
            refused.code == Some(1) && refused.err.contains("--allow-non-empty-target"),
            "{refused:?}"
        );
        let not_migrated = subset(db, &["migrate", "--from", "collection"]);
        assert_eq!(not_migrated.code, Some(1), "{not_migrated:?}");
        for text in [
            "subset migrate --from embedded",
            "--discard-embedded",
            &format!("{}.product", db.database().name()),
        ] {
            assert!(not_migrated.err.contains(text), "{}", not_migrated.err);
        }
        let left = subset(db, &["repair", "--json"]);
        let repaired = left
            .json()
            .into_iter()
            .find(|line| line["type"] == "repaired" && line["unrepaired"] == "NotMigrated");
        let text = repaired.unwrap()["text"].as_str().unwrap().to_owned();
        assert!(left.code == Some(1) && text.contains("--from embedded"), "{text}");
        let migrated = subset(db, &["migrate", "--from", "embedded", "--allow-non-empty-target"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let orphaned = subset(db, &["verify", "--json"]);
        assert_eq!(
            (
                orphaned.code,
                &orphaned.json()[0]["problem"],
                &orphaned.json()[0]["_id"]
            ),
            (Some(1), &"Orphaned".into(), &77.into()),
            "{orphaned:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn existing_collections_are_migrated_and_their_order_and_size_change() {
    testkit::run(async |db| {
        let products = (0..3).map(|id| doc! { "_id": id });
        db.plain_collection::<Document>("product")
            .insert_many(products)
            .await
            .unwrap();
        let review = |n: i32| doc! { "review_id": n, "product_id": n % 4, "date": n, "stars": 100 - n };
        db.plain_collection::<Document>("review")
            .insert_many((0..40).map(review))
            .await
            .unwrap();
        let migrate_existing = |more: &[&str]| {
            let arguments: Vec<&str> = ["migrate", "--from", "collection", "--json"]
                .iter()
                .chain(more)
                .copied()
                .collect();
            subset(db, &arguments)
        };
        let dry = migrate_existing(&["--dry-run"]);
        assert_eq!((dry.code, &dry.summary()["parents"]), (Some(0), &3.into()), "{dry:?}");
        assert!(all(db, "product").await.iter().all(|product| product.len() == 1));
        let migrated = migrate_existing(&[]);
        assert_eq!(
            (
                migrated.code,
                &migrated.summary()["parents"],
                &migrated.summary()["orphans"]
            ),
            (Some(1), &3.into(), &10.into()),
            "{migrated:?}"
        );
        assert_eq!(shown(&all(db, "product").await[0]), [36, 32]);
        db.plain_collection::<Document>("review")
            .delete_many(doc! { "product_id": 3 })
            .await
            .unwrap();

        let stars = |verb: &[&str]| {
            let names = &REVIEWS[..10];
            let new = ["--order", "-stars", "--size", "3"];
            let old = ["--from", "settings", "--old-order", "-date", "--old-size", "2"];
            ran(on(db).arg("subset").args(names).args(new).args(verb).args(old))
        };
        let planned = stars(&["plan"]);
        assert!(planned.out.contains("// writes: drop the old index"), "{planned:?}");
        let migrated = stars(&["migrate", "--json"]);
        assert_eq!(
            (migrated.code, migrated.summary()["dropped_index"].is_string()),
            (Some(0), true),
            "{migrated:?}"
        );
        assert_eq!(shown(&all(db, "product").await[0]), [0, 4, 8]);
        let stale = subset(db, &["verify"]);
        assert_eq!(stale.code, Some(2), "the order is that of the catalog: {stale:?}");
        assert!(stale.err.contains("`order`"), "{}", stale.err);

        for (arguments, text) in [
            (vec!["--from", "settings"], "--old-order"),
            (
                vec!["--from", "embedded", "--old-size", "3"],
                "only with --from settings",
            ),
            (
                vec!["--from", "collection", "--allow-non-empty-target"],
                "only with --from embedded",
            ),
            (
                vec!["--from", "embedded", "--discard-embedded"],
                "only with --from collection",
            ),
            (vec![], "--from"),
        ] {
            let refused = ran(on(db).arg("subset").args(REVIEWS).arg("migrate").args(&arguments));
            assert!(refused.code == Some(2) && refused.err.contains(text), "{refused:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_analysis_estimates_each_size() {
    testkit::run(async |db| {
        let padding = "x".repeat(100);
        let products = (0..100).map(|id| doc! { "_id": id, "name": &padding });
        db.plain_collection::<Document>("product")
            .insert_many(products)
            .await
            .unwrap();
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
        let reviews: Vec<Document> = reviews.collect();
        db.plain_collection::<Document>("review")
            .insert_many(&reviews)
            .await
            .unwrap();
        let text = subset(db, &["analyze"]);
        assert_eq!(text.code, Some(0), "{text:?}");
        for line in [
            "510 children of 95 parents",
            "Parents by their number of children",
            "subset of 10",
            "Advice",
        ] {
            assert!(text.out.contains(line), "{line}: {}", text.out);
        }
        assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
        let lines = subset(db, &["analyze", "--json"]).json();
        let of = |size: i32| {
            lines
                .iter()
                .find(|line| line["type"] == "subset_size" && line["size"] == size)
                .unwrap()
        };
        assert_eq!((&of(3)["parents"], &of(3)["documents"]), (&100.into(), &610.into()));
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
        assert_eq!(ran(on(db).arg("subset").args(REVIEWS).args(settings)).code, Some(0));
        let statistics = db
            .database()
            .run_command(doc! { "collStats": "product" })
            .await
            .unwrap();
        let stored = f64::from(statistics.get_i32("avgObjSize").unwrap());
        let estimated = of(10)["parent_bytes"].as_f64().unwrap();
        assert!(
            (0.85..1.15).contains(&(estimated / stored)),
            "estimated {estimated}, stored {stored}"
        );
        let again = subset(db, &["analyze", "--json"]);
        let again = again
            .json()
            .into_iter()
            .find(|line| line["type"] == "subset_size" && line["size"] == 10);
        let again = again.unwrap()["parent_bytes"].as_f64().unwrap();
        assert!(
            (again - estimated).abs() < estimated / 10.0,
            "{again} and {estimated}: embedded children must not count twice"
        );
    })
    .await;
}

#[tokio::test]
async fn embedded_children_are_analyzed_without_a_collection() {
    testkit::run(async |db| {
        embed(db, 50).await;
        let ran = subset(db, &["analyze", "--json"]);
        let summary = ran.summary();
        assert_eq!((ran.code, &summary["items"]), (Some(0), &100.into()), "{ran:?}");
        let none = subset(db, &["analyze", "--collection", "none"]);
        assert!(none.code == Some(2) && none.err.contains("no collection"), "{none:?}");
    })
    .await;
}

#[tokio::test]
async fn a_profile_is_derived_from_children_or_parents() {
    testkit::run(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let products = (0..30).map(|id| doc! { "_id": id });
        db.plain_collection::<Document>("product")
            .insert_many(products)
            .await
            .unwrap();
        let review = |n: i32| {
            let date = mongodb::bson::DateTime::from_millis((SECOND + i64::from(n)) * 1000);
            doc! { "_id": n, "review_id": 100 + n, "product_id": n % 20, "date": date }
        };
        db.plain_collection::<Document>("review")
            .insert_many((0..60).map(review))
            .await
            .unwrap();
        let init = ran(on(db).current_dir(folder.path()).args(["--json", "init", "review"]));
        assert_eq!(
            (init.code, &init.summary()["patterns"]),
            (Some(0), &"bucket, embedded, subset".into()),
            "{init:?}"
        );
        let short = |arguments: &[&str]| {
            let mut short = program();
            short.env("MONGODB_URI", db.server().uri()).current_dir(folder.path());
            ran(short.args(arguments))
        };
        let migrated = short(&["subset", "migrate", "--from", "collection"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let product = all(db, "product").await.remove(0);
        let first = product.get_array("reviews").unwrap()[0].as_document().unwrap();
        assert_eq!((first.len(), first.get("review_id")), (2, Some(&Bson::Int32(140))));
        assert_eq!(short(&["subset", "verify"]).code, Some(0));
        assert_eq!(short(&["embedded", "analyze"]).code, Some(0));

        let out = ran(on(db).args(["init", "product", "--out", "-"]));
        assert!(out.out.contains("the settings are those of the catalog"), "{out:?}");
        assert!(
            out.out.contains("[subset]") && !out.out.contains("[embedded]"),
            "{out:?}"
        );
        let patron = doc! { "_id": "joe", "addresses": [{ "id": "home" }, { "id": "work" }] };
        db.plain_collection::<Document>("patron")
            .insert_one(patron)
            .await
            .unwrap();
        let out = ran(on(db).args(["init", "patron", "--out", "-"]));
        let profile: String = out
            .out
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n");
        let file = write(folder.path(), "patron.toml", &profile);
        let verified = ran(on(db).args(["--profile", &file, "embedded", "verify"]));
        assert_eq!(verified.code, Some(0), "{verified:?} {profile}");
    })
    .await;
}
