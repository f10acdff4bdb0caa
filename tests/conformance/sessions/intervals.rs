//! Intervals.

use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::DateTime;

use super::model::Calls;
use support::history::intervals::{Prices, at, judge, price, prices, to};

pub(super) struct Intervals(Prices);

impl Calls for Intervals {
    const NAME: &'static str = "intervals";

    async fn begin(db: &TestDatabase) -> Self {
        let prices = prices(db).await;
        for item in ["pants", "shirt"] {
            prices.insert(&price(item, -1)).await.unwrap();
        }
        Self(prices)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let prices = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(prices.insert(&price("hat", 1))).unwrap();
        let now = run!(prices.get("pants")).unwrap().unwrap();
        let update = prices.update("pants", to(7)).expecting(now.valid_from);
        let begun = update.session(&mut *session).await.unwrap();
        run!(prices.replace("hat", &price("hat", 2))).unwrap();
        let found = run!(prices.as_of("pants", begun.valid_from)).unwrap();
        assert_eq!(found.unwrap().document.get_i32("price").unwrap(), 7);
        let page = prices.intervals("pants").session(&mut *session).page().await.unwrap();
        assert_eq!(page.intervals.len(), 2);
        assert!(run!(prices.end("hat")).unwrap().found);
        run!(prices.insert(&price("hat", 3))).unwrap();
        // A refused call does not abort the transaction.
        let exists = run!(prices.insert(&price("pants", 1))).unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        let stale = prices.update("pants", to(9)).expecting(at(1)).session(&mut *session);
        assert_eq!(stale.await.unwrap_err().kind(), ErrorKind::RevisionMismatch);
        assert!(!run!(prices.end("socks")).unwrap().found);
        let missing = run!(prices.update("socks", to(9))).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let last = prices.as_of("hat", DateTime::MAX).session(session).await.unwrap();
        assert_eq!(last.unwrap().document.get_i32("price").unwrap(), 3);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get("shirt").session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        self.0.update("shirt", to(n)).session(session).await.map(drop)
    }

    /// Each of them has an interval.
    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let found = judge(db, "shirt").await.into_iter().filter(|price| *price >= 0);
        found.map(i64::from).collect()
    }
}
