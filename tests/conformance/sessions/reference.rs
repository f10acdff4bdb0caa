//! References.

use mongo_patterns::reference::OnReferences;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};

use super::model::Calls;
use support::reference::{Orders, add_customers, check_indexes, customers, number, order, orders, rename};

pub(super) struct References(Orders);

impl Calls for References {
    const NAME: &'static str = "reference";

    async fn begin(db: &TestDatabase) -> Self {
        let orders = orders(db).await;
        add_customers(db, 1..=5).await;
        check_indexes(db, &orders).await;
        orders.insert(&order(7, 1)).await.unwrap();
        Self(orders)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let orders = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(orders.insert(&order(8, 2))).unwrap();
        let many = [order(10, 5), order(11, 5)];
        run!(orders.insert_many(&many)).unwrap();
        let found = orders.find(doc! { "customer.name": "Ann" }).session(&mut *session);
        assert_eq!(found.await.unwrap().len(), 4);
        let updated = run!(orders.update_source(2, rename("Bea"))).unwrap();
        assert_eq!((updated.version, updated.copies_updated), (1, 1));
        let refreshed = run!(orders.refresh_copies(2)).unwrap();
        assert_eq!((refreshed.version, refreshed.copies_updated), (2, 1));
        let other = doc! { "$inc": { "visits": 1 } };
        run!(orders.update_source(2, other)).unwrap();
        assert!(run!(orders.set_reference(7, 2)).unwrap().modified);
        let read = run!(orders.get(7)).unwrap().unwrap();
        let copy = read.get_document("customer").unwrap();
        assert_eq!((copy.get_str("name").unwrap(), number(copy, "v")), ("Bea", 2));
        let fresh = run!(orders.get(7).max_staleness(0)).unwrap();
        assert_eq!(fresh, Some(read));
        assert!(run!(orders.delete_source(1)).unwrap().found);
        assert!(run!(orders.clear_reference(7)).unwrap().modified);
        // A refused call does not abort the transaction.
        let referenced = run!(orders.delete_source(2)).unwrap_err();
        assert_eq!(referenced.kind(), ErrorKind::Referenced);
        for error in [
            run!(orders.insert(&order(9, 77))).unwrap_err(),
            orders
                .insert_many(&[order(9, 5), order(12, 77)])
                .session(&mut *session)
                .await
                .unwrap_err(),
            run!(orders.set_reference(7, 77)).unwrap_err(),
            run!(orders.set_reference(77, 2)).unwrap_err(),
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
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(7).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        let push = doc! { "$push": { "log": n } };
        self.0.update_source(5, push).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let source = customers(db).find_one(doc! { "_id": 5 }).await.unwrap().unwrap();
        let log = source.get_array("log").unwrap().iter();
        log.filter_map(Bson::as_i32).map(i64::from).collect()
    }
}
