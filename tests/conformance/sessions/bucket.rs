//! Buckets.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::model::Calls;
use support::common::{Trade, Trades, at, builder, ready, spread};

struct Buckets(Trades);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let trades = ready(db, builder(db).item_id_field("n")).await;
        for key in [1, 2] {
            trades.append(&key, &spread(0)).await.unwrap();
        }
        Box::new(Buckets(trades)) as Box<dyn Calls>
    })
}

impl Calls for Buckets {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let trades = &self.0;
        Box::pin(async move {
            for n in 1..25 {
                trades.append(&1, &spread(n)).session(&mut *session).await.unwrap();
            }
            let more: Vec<Trade> = (25..30).map(spread).collect();
            trades.append_many(&1, &more).session(&mut *session).await.unwrap();
            let moved = Trade { n: 3, date: at(0) };
            trades.replace_item(&1, &moved).session(&mut *session).await.unwrap();
            let set = doc! { "$set": { "date": at(1) } };
            trades.update_item(&1, 4_i64, set).session(&mut *session).await.unwrap();
            assert!(
                trades
                    .remove_item(&1, 29_i64)
                    .session(&mut *session)
                    .await
                    .unwrap()
                    .found
            );
            trades.delete_key(&2).session(&mut *session).await.unwrap();
            let page = trades.page(&1, 3).session(&mut *session).await.unwrap().unwrap();
            assert_eq!(page.items.len(), 9);
            let slice = trades.pages(&1).limit(2).session(&mut *session).await.unwrap();
            assert_eq!(slice.pages.len(), 2);
            let newest = trades.newest(&1, 7).session(&mut *session).await.unwrap();
            assert_eq!(newest[0], spread(28));
            let item = trades.item(&1, 3_i64).session(&mut *session).await.unwrap();
            assert_eq!(item, Some(moved));
            assert_eq!(trades.count_pages(&1).session(&mut *session).await.unwrap(), 3);
            assert_eq!(trades.counts(&2).session(&mut *session).await.unwrap().items, 0);
            // A refused call does not abort the transaction.
            assert!(
                !trades
                    .remove_item(&1, 99_i64)
                    .session(&mut *session)
                    .await
                    .unwrap()
                    .found
            );
            let refused = trades.page(&1, 0).session(&mut *session).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert_eq!(trades.counts(&1).session(session).await.unwrap().items, 29);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.counts(&3).session(session).await.unwrap();
        })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.append(&3, &spread(n.into())).session(session).await.map(drop) })
    }

    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let mut numbers = Vec::new();
            for bucket in support::common::all(&db.plain_collection("trades")).await {
                if bucket.get_i32("customerId").is_ok_and(|key| key == 3) {
                    let items = bucket.get_array("history").unwrap().iter();
                    numbers.extend(items.map(|item| item.as_document().unwrap().get_i64("n").unwrap()));
                }
            }
            numbers.sort_unstable();
            numbers
        })
    }
}
