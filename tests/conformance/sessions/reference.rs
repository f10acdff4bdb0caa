//! References.

use futures::future::LocalBoxFuture;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};

use super::model::Calls;
use support::reference::{Orders, add_customers, check_indexes, customers, number, order, orders, rename};

struct References(Orders);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let orders = orders(db).await;
        add_customers(db, 1..=5).await;
        check_indexes(db, &orders).await;
        orders.insert(&order(7, 1)).await.unwrap();
        Box::new(References(orders)) as Box<dyn Calls>
    })
}

impl Calls for References {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let orders = &self.0;
        Box::pin(async move {
            orders.insert(&order(8, 2)).session(&mut *session).await.unwrap();
            let many = [order(10, 5), order(11, 5)];
            orders.insert_many(&many).session(&mut *session).await.unwrap();
            let found = orders.find(doc! { "customer.name": "Ann" }).session(&mut *session);
            assert_eq!(found.await.unwrap().len(), 4);
            let updated = orders
                .update_source(2, rename("Bea"))
                .session(&mut *session)
                .await
                .unwrap();
            assert_eq!((updated.version, updated.copies_updated), (1, 1));
            let refreshed = orders.refresh_copies(2).session(&mut *session).await.unwrap();
            assert_eq!((refreshed.version, refreshed.copies_updated), (2, 1));
            let other = doc! { "$inc": { "visits": 1 } };
            orders.update_source(2, other).session(&mut *session).await.unwrap();
            assert!(
                orders
                    .set_reference(7, 2)
                    .session(&mut *session)
                    .await
                    .unwrap()
                    .modified
            );
            let read = orders.get(7).session(&mut *session).await.unwrap().unwrap();
            let copy = read.get_document("customer").unwrap();
            assert_eq!((copy.get_str("name").unwrap(), number(copy, "v")), ("Bea", 2));
            let fresh = orders.get(7).max_staleness(0).session(&mut *session).await.unwrap();
            assert_eq!(fresh, Some(read));
            assert!(orders.delete_source(1).session(&mut *session).await.unwrap().found);
            assert!(orders.clear_reference(7).session(&mut *session).await.unwrap().modified);
            // A refused call does not abort the transaction.
            let referenced = orders.delete_source(2).session(&mut *session).await.unwrap_err();
            assert_eq!(referenced.kind(), ErrorKind::Referenced);
            for error in [
                orders.insert(&order(9, 77)).session(&mut *session).await.unwrap_err(),
                orders
                    .insert_many(&[order(9, 5), order(12, 77)])
                    .session(&mut *session)
                    .await
                    .unwrap_err(),
                orders.set_reference(7, 77).session(&mut *session).await.unwrap_err(),
                orders.set_reference(77, 2).session(&mut *session).await.unwrap_err(),
                orders
                    .update_source(77, rename("?"))
                    .session(&mut *session)
                    .await
                    .unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            }
            let kept = orders.delete_source(3).on_references(OnReferences::KeepCopy);
            assert!(kept.session(&mut *session).await.unwrap().found);
            let cleared = orders.delete_source(4).on_references(OnReferences::Clear);
            assert!(cleared.session(session).await.unwrap().found);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.get(7).session(session).await.unwrap()) })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        let push = doc! { "$push": { "log": n } };
        Box::pin(async move { self.0.update_source(5, push).session(session).await.map(drop) })
    }

    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let source = customers(db).find_one(doc! { "_id": 5 }).await.unwrap().unwrap();
            let log = source.get_array("log").unwrap().iter();
            let mut numbers: Vec<i64> = log.filter_map(Bson::as_i32).map(i64::from).collect();
            numbers.sort_unstable();
            numbers
        })
    }
}
