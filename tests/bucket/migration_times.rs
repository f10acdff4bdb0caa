//! Migrations of a flat collection whose times are numbers or texts.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{TimeFormat, Window};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::bucket::migration::*;
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
            assert_eq!(found.invalid.get("time"), expected, "{format:?}");
            assert_eq!(flat(db).count_documents(found.filter).await.unwrap(), expected);
            let error = migration().await.unwrap_err();
            let kind_and_field = (error.kind(), error.field());
            assert_eq!(kind_and_field, (ErrorKind::InvalidTime, Some("date")), "{error:?}");
            assert!(error.document_id().unwrap().as_i32().unwrap() >= 900_000);
            nothing_is_stored(db).await;

            let list = db.collection::<Document>("skipped");
            let migrated = migration().skip_invalid(&list).await.unwrap();
            assert_eq!((migrated.items, migrated.skipped.get("time")), (75, expected));
            let without = trades.migrate_from_flat(&source).allow_non_empty_target();
            let without = without.await.unwrap_err();
            assert_eq!(without.kind(), ErrorKind::InvalidTime, "{without:?}");
            db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        }
    })
    .await;
}
