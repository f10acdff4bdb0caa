//! Migrations of a flat collection whose times are numbers or texts, of fields that look like extended JSON, and of views.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{TimeFormat, Window};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};

use crate::bucket::migration::*;
use crate::bucket::migration_again::chunks_of;
use support::bucket::migration::*;
use support::common::*;

const FORMATS: [TimeFormat; 3] = [TimeFormat::EpochSeconds, TimeFormat::EpochMillis, TimeFormat::Iso8601];

/// Returns a time in one of its forms.
fn in_form(format: TimeFormat, date: DateTime, number: i32) -> Bson {
    let millis = date.timestamp_millis();
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let seconds = millis as f64 / 1000.0;
    match (format, number % 3) {
        // A program may have stored some dates.
        (_, 2) => date.into(),
        (TimeFormat::EpochSeconds, 0) => seconds.into(),
        (TimeFormat::EpochSeconds, _) => Bson::Decimal128(seconds.to_string().parse().unwrap()),
        (TimeFormat::EpochMillis, 0) => millis.into(),
        #[allow(clippy::cast_precision_loss)]
        (TimeFormat::EpochMillis, _) => (millis as f64).into(),
        (_, 0) => date.try_to_rfc3339_string().unwrap().into(),
        (..) => {
            let two_hours_ahead = DateTime::from_millis(millis + 7_200_000);
            let text = two_hours_ahead.try_to_rfc3339_string().unwrap();
            text.replace('Z', "+02:00").into()
        }
    }
}

/// Stores documents with times of a form, and returns them with dates.
async fn fill_in_form(db: &TestDatabase, format: TimeFormat) -> Vec<Document> {
    let keys: Vec<Bson> = (0..3).map(Bson::Int32).collect();
    let dates = documents(&keys, 25);
    let others: Vec<Document> = (0..)
        .zip(&dates)
        .map(|(number, document)| {
            let mut document = document.clone();
            let date = *document.get_datetime("date").unwrap();
            document.insert("date", in_form(format, date, number));
            document
        })
        .collect();
    fill(db, &others).await;
    dates
}

/// With windows and figures too, the buckets are those of documents with dates.
#[tokio::test]
async fn times_of_any_form_become_dates() {
    testkit::run(async |db| {
        let hour = Window::every(std::time::Duration::from_secs(3600));
        for builder in [histories::<u32>(db), histories::<u32>(db).window(hour).first_and_last()] {
            let trades = builder.build().unwrap();
            let mut expected = Vec::new();
            for format in [TimeFormat::Date].into_iter().chain(FORMATS) {
                let dates = fill_in_form(db, format).await;
                if format == TimeFormat::Date {
                    fill(db, &dates).await;
                }
                db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
                let migration = trades.migrate_from_flat(&flat(db)).keep_ids().chunk(30);
                assert_eq!(migration.time_format(format).await.unwrap().items, 75);
                let migrated = stored(&plain(db)).await;
                if format == TimeFormat::Date {
                    expected = migrated;
                } else {
                    assert_eq!(migrated, expected, "{format:?}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_time_of_another_form_is_invalid() {
    testkit::run(async |db| {
        let invalid = |format: TimeFormat| -> Vec<Bson> {
            let common = [
                Bson::Null,
                "yesterday".into(),
                Bson::Array(vec![]),
                doc! {}.into(),
                true.into(),
            ];
            let own: Vec<Bson> = match format {
                TimeFormat::Iso8601 => vec![
                    1.into(),
                    "".into(),
                    "2024-13-01T00:00:00Z".into(),
                    "05/11/2024".into(),
                    "2024-05-01 next week".into(),
                    "2024-05-01\n".into(),
                    "May 1, 2024".into(),
                    "1969-01-01T00:00:00Z".into(),
                ],
                _ => vec![
                    (-1).into(),
                    f64::NAN.into(),
                    f64::INFINITY.into(),
                    i64::MAX.into(),
                    "5".into(),
                ],
            };
            common.into_iter().chain(own).collect()
        };
        for format in FORMATS {
            fill_in_form(db, format).await;
            let invalid = invalid(format);
            let bad = (0..)
                .zip(&invalid)
                .map(|(n, time)| doc! { "_id": 900_000 + n, "customerId": 1, "date": time });
            flat(db).insert_many(bad).await.unwrap();
            let timeless = doc! { "_id": 950_000, "customerId": 1 };
            flat(db).insert_one(timeless).await.unwrap();
            let expected = invalid.len() as u64 + 1;

            let trades = histories::<u32>(db).build().unwrap();
            let source = db.collection::<Document>("flat");
            let migration = || trades.migrate_from_flat(&source).time_format(format);
            let found = migration().find_invalid(None).await.unwrap();
            assert_eq!(found.invalid.get("time"), Some(expected), "{format:?}");
            assert_eq!(flat(db).count_documents(found.filter).await.unwrap(), expected);
            let error = migration().await.unwrap_err();
            let kind_and_field = (error.kind(), error.field());
            assert_eq!(kind_and_field, (ErrorKind::InvalidTime, Some("date")), "{error:?}");
            assert!(error.document_id().unwrap().as_i32().unwrap() >= 900_000);
            nothing_is_stored(db).await;

            let list = db.collection::<Document>("skipped");
            let migrated = migration().skip_invalid(&list).await.unwrap();
            assert_eq!((migrated.items, migrated.skipped.get("time")), (75, Some(expected)));
            let without = trades.migrate_from_flat(&source).allow_non_empty_target();
            assert_refused(without.await, ErrorKind::InvalidTime);
            db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        }
    })
    .await;
}

/// The driver's `Document` takes such a field for extended JSON, and cannot be read if it is none.
#[tokio::test]
async fn fields_that_look_like_extended_json_are_migrated() {
    testkit::run(async |db| {
        for field in ["$date", "$oid", "$numberLong", "$uuid"] {
            flat(db).drop().await.unwrap();
            plain(db).drop().await.unwrap();
            let item = doc! { "date": at(SECOND), field: "what" };
            let bucket = doc! {
                "_id": format!("7_{SECOND}"), "customerId": 7, "count": 2, "history": [&item, &item],
            };
            plain(db).insert_one(&bucket).await.unwrap();
            let trades = histories::<u32>(db).build().unwrap();
            trades.migrate_to_flat(&flat(db)).plan().await.unwrap();
            let migrated = trades.migrate_to_flat(&flat(db)).await.unwrap();
            assert_eq!((migrated.keys, migrated.items), (1, 2), "{field}");
            let mut first = doc! { "_id": format!("7_{SECOND}_0"), "customerId": 7 };
            first.extend(item.clone());
            let flat_raw = db.plain_collection::<RawDocumentBuf>("flat");
            let found = flat_raw.find_one(doc! { "_id": first.get("_id") });
            assert_eq!(found.await.unwrap(), Some(raw(&first)));

            plain(db).drop().await.unwrap();
            flat(db).drop().await.unwrap();
            let document = doc! { "_id": 1, "customerId": 7, "date": at(SECOND), field: 5 };
            flat(db).insert_one(&document).await.unwrap();
            assert_eq!(trades.migrate_from_flat(&flat(db)).await.unwrap().items, 1);
        }
    })
    .await;
}

/// The recipe of the book for keys that are nested or have parts. A view has no indexes, so it is migrated in one chunk. No
/// document can be written to a view.
#[tokio::test]
async fn a_view_makes_a_key_of_nested_fields_and_is_refused_as_a_target() {
    testkit::run(async |db| {
        let documents: Vec<Document> = (0..30)
            .map(|n| {
                let meta = doc! { "site": if n % 2 == 0 { "a" } else { "b" }, "sensor": n % 3 };
                doc! { "_id": n, "meta": meta, "date": at(SECOND + i64::from(n)) }
            })
            .collect();
        flat(db).insert_many(&documents).await.unwrap();
        let database = db.plain_client().database(db.database().name());
        let key = doc! { "$concat": [{ "$toString": "$meta.site" }, "/", { "$toString": "$meta.sensor" }] };
        let view = database.create_collection("view").view_on("flat");
        let view = view.pipeline(vec![doc! { "$set": { "customerId": key } }]);
        view.await.unwrap();
        let trades = histories::<String>(db).build().unwrap();
        let view = db.plain_collection::<RawDocumentBuf>("view");
        let plan = trades.migrate_from_flat(&view).chunk(5).plan().await.unwrap();
        assert_eq!((plan.migrated.items, chunks_of(&plan)), (30, 1));
        let migrated = trades.migrate_from_flat(&view).chunk(5).await.unwrap();
        assert_eq!((migrated.keys, migrated.items), (6, 30));
        trades.append("a/2", &doc! { "date": at(SECOND + 100) }).await.unwrap();
        let of_key = trades.newest("a/2", 10).await.unwrap();
        assert_eq!(of_key.len(), 6);
        let expected = doc! { "meta": { "site": "a", "sensor": 2 }, "date": at(SECOND + 26) };
        assert_eq!(of_key[1], expected);

        let empty = database.create_collection("empty_view").view_on("nothing");
        empty.await.unwrap();
        let before = all(&db.plain_collection("mongo_patterns")).await;
        let target = db.plain_collection::<RawDocumentBuf>("empty_view");
        let error = trades.migrate_to_flat(&target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.to_string().contains("view"), "{error}");
        assert_eq!(all(&db.plain_collection("mongo_patterns")).await, before);
    })
    .await;
}
