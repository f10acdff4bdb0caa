//! Intervals.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::DateTime;

use super::model::Calls;
use support::history::intervals::{Prices, at, judge, price, prices, to};

struct Intervals(Prices);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let prices = prices(db).await;
        for item in ["pants", "shirt"] {
            prices.insert(&price(item, -1)).await.unwrap();
        }
        Box::new(Intervals(prices)) as Box<dyn Calls>
    })
}

impl Calls for Intervals {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let prices = &self.0;
        Box::pin(async move {
            prices.insert(&price("hat", 1)).session(&mut *session).await.unwrap();
            let now = prices.get("pants").session(&mut *session).await.unwrap().unwrap();
            let update = prices.update("pants", to(7)).expecting(now.valid_from);
            let begun = update.session(&mut *session).await.unwrap();
            prices
                .replace("hat", &price("hat", 2))
                .session(&mut *session)
                .await
                .unwrap();
            let found = prices
                .as_of("pants", begun.valid_from)
                .session(&mut *session)
                .await
                .unwrap();
            assert_eq!(found.unwrap().document.get_i32("price").unwrap(), 7);
            let page = prices.intervals("pants").session(&mut *session).page().await.unwrap();
            assert_eq!(page.intervals.len(), 2);
            assert!(prices.end("hat").session(&mut *session).await.unwrap().found);
            prices.insert(&price("hat", 3)).session(&mut *session).await.unwrap();
            // A refused call does not abort the transaction.
            let exists = prices
                .insert(&price("pants", 1))
                .session(&mut *session)
                .await
                .unwrap_err();
            assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
            let stale = prices.update("pants", to(9)).expecting(at(1)).session(&mut *session);
            assert_eq!(stale.await.unwrap_err().kind(), ErrorKind::RevisionMismatch);
            assert!(!prices.end("socks").session(&mut *session).await.unwrap().found);
            let missing = prices.update("socks", to(9)).session(&mut *session).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            let last = prices.as_of("hat", DateTime::MAX).session(session).await.unwrap();
            assert_eq!(last.unwrap().document.get_i32("price").unwrap(), 3);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.get("shirt").session(session).await.unwrap()) })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.update("shirt", to(n)).session(session).await.map(drop) })
    }

    /// Each of them has an interval.
    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let found = judge(db, "shirt").await.into_iter().filter(|price| *price >= 0);
            let mut numbers: Vec<i64> = found.map(i64::from).collect();
            numbers.sort_unstable();
            numbers
        })
    }
}
