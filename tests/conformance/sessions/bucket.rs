//! Buckets.

use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::model::Calls;
use support::common::{Trade, Trades, at, builder, ready, spread};

pub(super) struct Buckets(Trades);

impl Calls for Buckets {
    const NAME: &'static str = "bucket";

    async fn begin(db: &TestDatabase) -> Self {
        let trades = ready(db, builder(db).item_id_field("n")).await;
        for key in [1, 2] {
            trades.append(&key, &spread(0)).await.unwrap();
        }
        Self(trades)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let trades = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        for n in 1..25 {
            run!(trades.append(&1, &spread(n))).unwrap();
        }
        let more: Vec<Trade> = (25..30).map(spread).collect();
        run!(trades.append_many(&1, &more)).unwrap();
        let moved = Trade { n: 3, date: at(0) };
        run!(trades.replace_item(&1, &moved)).unwrap();
        let set = doc! { "$set": { "date": at(1) } };
        run!(trades.update_item(&1, 4_i64, set)).unwrap();
        assert!(run!(trades.remove_item(&1, 29_i64)).unwrap().found);
        run!(trades.delete_key(&2)).unwrap();
        let page = run!(trades.page(&1, 3)).unwrap().unwrap();
        assert_eq!(page.items.len(), 9);
        let slice = run!(trades.pages(&1).limit(2)).unwrap();
        assert_eq!(slice.pages.len(), 2);
        let newest = run!(trades.newest(&1, 7)).unwrap();
        assert_eq!(newest[0], spread(28));
        let item = run!(trades.item(&1, 3_i64)).unwrap();
        assert_eq!(item, Some(moved));
        assert_eq!(run!(trades.count_pages(&1)).unwrap(), 3);
        assert_eq!(run!(trades.counts(&2)).unwrap().items, 0);
        // A refused call does not abort the transaction.
        assert!(!run!(trades.remove_item(&1, 99_i64)).unwrap().found);
        let refused = run!(trades.page(&1, 0)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(trades.counts(&1).session(session).await.unwrap().items, 29);
    }

    async fn read(&self, session: &mut ClientSession) {
        self.0.counts(&3).session(session).await.unwrap();
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        self.0.append(&3, &spread(n.into())).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let mut numbers = Vec::new();
        for bucket in support::common::all(&db.plain_collection("trades")).await {
            if bucket.get_i32("customerId").is_ok_and(|key| key == 3) {
                let items = bucket.get_array("history").unwrap().iter();
                numbers.extend(items.map(|item| item.as_document().unwrap().get_i64("n").unwrap()));
            }
        }
        numbers
    }
}
