//! Windows of time: what is refused, with nothing stored.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::Window;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, Document, doc};

use crate::bucket::windows::*;
use support::common::*;

#[tokio::test]
async fn an_item_stays_in_its_window() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db).item_id_field("n")).await;
        for n in 0..6 {
            trades.append(&123, &in_hour(n, n / 3, n)).await.unwrap();
        }
        let before = all(&plain(db)).await;
        let set = |operator: &str, date: DateTime| doc! { operator: { "date": date } };
        let (earlier, later) = (at(HOUR - 1), at(HOUR + 3600));
        for update in [
            set("$set", earlier),
            set("$set", later),
            set("$min", earlier),
            set("$max", later),
        ] {
            let error = trades.update_item(&123, 1, update.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidTime, "{update}");
        }
        let error = trades.replace_item(&123, &in_hour(1, 1, 0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTime);
        let clock = doc! { "$currentDate": { "date": true } };
        let error = trades.update_item(&123, 1, clock).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTime);
        let missing = trades.update_item(&123, 99, set("$set", later)).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        // These leave the time as it is.
        for update in [set("$min", later), set("$max", earlier)] {
            assert!(!trades.update_item(&123, 1, update).await.unwrap().modified);
        }
        assert_eq!(all(&plain(db)).await, before);

        for update in [
            set("$set", at(HOUR + 3599)),
            set("$min", at(HOUR)),
            set("$max", at(HOUR + 9)),
        ] {
            db.recorder().clear();
            assert!(trades.update_item(&123, 1, update).await.unwrap().modified);
            assert_eq!(db.recorder().names(), ["update"]);
            assert_eq!(explain_last(db).await.documents, 1);
        }
        assert!(trades.replace_item(&123, &in_hour(1, 0, 77)).await.unwrap().modified);
        assert_eq!(trades.item(&123, 1).await.unwrap(), Some(in_hour(1, 0, 77)));
    })
    .await;
}

#[tokio::test]
async fn a_time_of_another_window_or_none_is_refused() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db)).await;
        let within = trades.append(&123, &in_hour(1, 0, 5)).at(at(HOUR + 3599));
        assert_eq!(within.await.unwrap().opened.as_deref(), Some("123_1698335999"));
        db.recorder().clear();
        let refused = trades.append(&123, &in_hour(1, 0, 5)).at(at(HOUR + 3600)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidTime);
        let items = [in_hour(2, 0, 5), in_hour(3, 1, 5)];
        let refused = trades.append_many(&123, &items).at(at(HOUR)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidTime);
        let before = Trade {
            n: 1,
            date: DateTime::from_millis(-1),
        };
        let refused = trades.append(&123, &before).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidTime);
        assert_eq!(db.recorder().names(), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn settings_of_other_windows_are_refused() {
    testkit::run(async |db| {
        let plain_settings = || builder(db).page_size(3);
        let trades = ready(db, windowed(db)).await;
        trades.append(&123, &in_hour(1, 0, 5)).await.unwrap();
        let others = [
            plain_settings(),
            plain_settings().window(Window::Day),
            windowed(db).window_field("start"),
        ];
        let before = all(&plain(db)).await;
        for other in others {
            let other = other.build().unwrap();
            let error = other.ensure_indexes().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
            let error = other.append(&123, &in_hour(2, 0, 6)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error}");
            let verified: Result<Vec<_>, _> = other.verify().stream().try_collect().await;
            assert_eq!(verified.unwrap_err().kind(), ErrorKind::SettingsMismatch);
        }
        // Without an entry in the catalog, the index shows the windows.
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        catalog.delete_many(doc! {}).await.unwrap();
        let other = plain_settings().build().unwrap();
        let error = other.ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
        assert_eq!(all(&plain(db)).await, before);
        windowed(db).build().unwrap().ensure_indexes().await.unwrap();
    })
    .await;
}
