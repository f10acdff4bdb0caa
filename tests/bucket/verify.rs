//! Verification finds all problems of stored buckets, and no others.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::Problem;
use mongo_patterns_core::Progress;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use support::bucket::damage::*;
use support::bucket::*;
use support::common::*;
use support::explain::{documents_examined, explained};

/// A hand-written `_id` has the unescaped key. One of `a_3` looks like one of `a`.
#[tokio::test]
async fn hand_written_ids_are_found_under_their_own_key() {
    testkit::run(async |db| {
        let named = named(db).build().unwrap();
        let keys = [("a_3", 0..2), ("a", 0..2), ("a%5F3", 0..1), ("a%", 5..6)];
        plant(db, keys.map(|(key, trades)| bucket(key, trades))).await;
        let found = findings(&named).await;
        let ids = ["a%_1698335228", "a%5F3_1698335223", "a_3_1698335223"];
        assert_eq!(problems(&found), ids.map(|id| (id, Problem::IdFormat)));
        let keys: Vec<Option<Bson>> = found.iter().map(|finding| finding.related_id.clone()).collect();
        assert_eq!(keys, ["a%", "a%5F3", "a_3"].map(|key| Some(key.into())));

        let of_a = collected(named.verify_key("a").stream()).await;
        assert_eq!(problems(&of_a), []);
        let of_a_3 = collected(named.verify_key("a_3").stream()).await;
        assert_eq!(problems(&of_a_3), [("a_3_1698335223", Problem::IdFormat)]);
    })
    .await;
}

/// It is the open one, at any position. A number that is a key can have any numeric type.
#[tokio::test]
async fn a_single_page_that_is_not_full_is_correct() {
    testkit::run(async |db| {
        plant(db, [bucket("a", 0..3), bucket("a", 3..4), bucket("a", 4..7)]).await;
        let named = named(db).build().unwrap();
        assert_eq!(problems(&findings(&named).await), []);
        let [first, second] = [0, 10].map(|second| full_bucket(SECOND + second));
        plant(db, [with(first, "customerId", 123.0), second]).await;
        let numbered = collected(builder(db).build().unwrap().verify().stream()).await;
        assert_eq!(problems(&numbered), []);
    })
    .await;
}

#[tokio::test]
async fn missing_and_duplicate_item_ids_are_found() {
    testkit::run(async |db| {
        let history = |ids: &[Bson]| -> Vec<Bson> {
            let item = |id: &Bson| doc! { "n": id, "date": at(SECOND) }.into();
            ids.iter().map(item).collect()
        };
        let first: [Bson; 3] = [1.into(), Bson::Null, 2.5.into()];
        let second: [Bson; 3] = ["1".into(), 1_i64.into(), 1.0.into()];
        let first = with(bucket("a", 0..3), "history", history(&first));
        let second = with(bucket("a", 3..6), "history", history(&second));
        let scalar = with(bucket("c", 0..1), "history", [7]);
        plant(db, [first, second, bucket("b", 0..3), scalar]).await;
        let with_ids = named(db).item_id_field("n").build().unwrap();
        assert_eq!(
            problems(&findings(&with_ids).await),
            [
                ("a_1698335223", Problem::ItemIdMissing { items: 2 }),
                ("a_1698335226", Problem::DuplicateItemId { items: 2 }),
                ("c_1698335223", Problem::ItemTimeMissing { items: 1 }),
                ("c_1698335223", Problem::ItemIdMissing { items: 1 }),
            ]
        );
        assert_eq!(
            problems(&findings(&named(db).build().unwrap()).await),
            [("c_1698335223", Problem::ItemTimeMissing { items: 1 })]
        );
    })
    .await;
}

/// Buckets are not all read at one moment, so a key with findings is read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_collection_gives_no_findings_while_many_write() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(3)).await;
        let check = async || {
            let found = collected(trades.verify().stream()).await;
            assert_eq!(problems(&found), []);
        };
        let writers = (0..16).map(|writer| {
            let trades = trades.clone();
            tokio::spawn(async move {
                for n in 0..30_u32 {
                    let trade = spread(writer * 30 + i64::from(n));
                    trades.append(&(n % 4), &trade).await.unwrap();
                }
            })
        });
        for writer in observed(&check, join_all(writers)).await {
            writer.unwrap();
        }
        check().await;
    })
    .await;
}

#[tokio::test]
async fn the_cost_of_one_key_is_that_of_its_buckets() {
    testkit::run(async |db| {
        let others = (0..50).map(|key| bucket(&format!("b{key}"), 0..3));
        plant(db, others.chain([bucket("a", 0..3), bucket("a", 3..7)])).await;
        let named = named(db).build().unwrap();
        db.recorder().clear();
        let found = collected(named.verify_key("a").stream()).await;
        assert_eq!(problems(&found), [("a_1698335226", Problem::TooManyItems { items: 4 })]);
        // The catalog, and the key once more, because there is a finding.
        assert_eq!(db.recorder().names(), ["find", "aggregate", "aggregate"]);
        let explained = explained(db, &db.recorder().commands()[1]).await;
        assert_eq!(documents_examined(&explained), 2, "{explained}");
    })
    .await;
}

/// Items that readers refuse are found: `null` in place of an item, and items without a date in the time field.
#[tokio::test]
async fn items_that_are_null_or_have_no_time_are_found() {
    testkit::run(async |db| {
        let dated = named(db).build().unwrap();
        let undated = untimed::<String, Trade>(db).page_size(3).build().unwrap();
        let (timeless, dated_by_text) = (doc! { "n": 1 }, doc! { "n": 2, "date": "2023-10-26" });
        let items: [Bson; 3] = [Bson::Null, timeless.into(), dated_by_text.into()];
        let invalid = with(bucket("a", 0..3), "history", items.to_vec());
        plant(db, [invalid, bucket("a", 3..4)]).await;
        for named in [&dated, &undated] {
            assert_eq!(named.page("a", 1).await.unwrap_err().kind(), ErrorKind::Decode);
        }
        let null = ("a_1698335223", Problem::ItemNull { items: 1 });
        let timeless = ("a_1698335223", Problem::ItemTimeMissing { items: 2 });
        assert_eq!(problems(&findings(&dated).await), [null, timeless]);
        assert_eq!(problems(&findings(&undated).await), [null]);
    })
    .await;
}

#[tokio::test]
async fn verify_and_repair_report_their_progress() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        plain(db)
            .insert_many((0..30).map(|n| full_bucket(SECOND + n)))
            .await
            .unwrap();
        let (mut verified, mut repaired) = (Progress::default(), Progress::default());
        let findings = trades.verify().on_progress(|seen| verified = seen).stream();
        assert_eq!(collected(findings).await, []);
        let keys = trades.repair().dry_run().on_progress(|seen| repaired = seen).stream();
        assert_eq!(collected(keys).await, []);
        for seen in [verified, repaired] {
            assert_eq!((seen.done, seen.total), (30, 30));
        }
    })
    .await;
}
