//! Histories, intervals, references, and documents of several versions.

use mongo_patterns::reference::OnReferences;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::model::Calls;
use support::history::{Policies, copies, current, items, policies, policy, push};
use support::intervals::{Prices, at, judge, price, prices, to};
use support::reference::{Orders, add_customers, check_indexes, customers, number, order, orders, rename};
use support::schema::contacts::{one, stored, typed, v1};

pub(super) struct Histories(Policies);

impl Calls for Histories {
    const NAME: &'static str = "history";

    async fn begin(db: &TestDatabase) -> Self {
        let policies = policies(db).await;
        for id in [1, 4] {
            policies.insert(&policy(id)).await.unwrap();
        }
        Self(policies)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let policies = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(policies.insert(&policy(2))).unwrap();
        let updated = policies.update(1, push("watch")).expecting(1).session(&mut *session);
        assert_eq!(updated.await.unwrap().revision, 2);
        run!(policies.replace(2, &policy(2))).unwrap();
        let restored = run!(policies.restore(1, 1)).unwrap();
        assert_eq!(restored.revision, 3);
        let now = run!(policies.get(1)).unwrap().unwrap();
        assert_eq!(now.revision, 3);
        assert!(items(&now.document).is_empty());
        let second = run!(policies.at(1, 2)).unwrap().unwrap();
        assert_eq!(items(&second.document.unwrap()), ["watch"]);
        let latest = run!(policies.as_of(1, DateTime::MAX)).unwrap();
        assert_eq!(latest.unwrap().revision, 3);
        let page = policies.revisions(1).session(&mut *session).page().await.unwrap();
        assert_eq!(page.items.len(), 3);
        let diff = run!(policies.diff(1, 1, 2)).unwrap();
        assert_eq!(diff.changes.len(), 1);
        let deleted = run!(policies.keep_last(1, 2)).unwrap();
        assert_eq!(deleted.documents, 1);
        let deleted = run!(policies.delete(2)).unwrap();
        assert_eq!(deleted.revision, Some(3));
        let again = run!(policies.insert(&policy(2))).unwrap();
        assert_eq!(again.revision, 4);
        let two = [policy(2), policy(5)];
        run!(policies.delete(2)).unwrap();
        let many = run!(policies.insert_many(&two)).unwrap();
        assert_eq!((many[0].revision, many[1].revision), (6, 1));
        for (id, expected) in [(5, 2), (7, 1)] {
            let upserted = run!(policies.upsert(&policy(id))).unwrap();
            assert_eq!(upserted.revision, expected);
        }
        let found = run!(policies.find(doc! { "policyId": 5 })).unwrap();
        assert_eq!((found.len(), found[0].revision), (1, 2));
        // A refused call does not abort the transaction.
        let exist = policies.insert_many(&[policy(6), policy(1)]).session(&mut *session);
        assert_eq!(exist.await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let stale = policies.update(1, push("ring")).expecting(1).session(&mut *session);
        assert_eq!(stale.await.unwrap_err().kind(), ErrorKind::RevisionMismatch);
        let missing = run!(policies.update(3, push("ring"))).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let exists = policies.insert(&policy(1)).session(session).await.unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(4).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        self.0.update(4, push(&n.to_string())).session(session).await.map(drop)
    }

    /// Each of them is a revision.
    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let now = current(db).find_one(doc! { "policyId": 4 }).await.unwrap().unwrap();
        let numbers: Vec<i64> = items(&now).iter().map(|n| n.parse().unwrap()).collect();
        assert_eq!(copies(db, 4).await.len(), 1 + numbers.len());
        numbers
    }
}

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
        assert_eq!(page.items.len(), 2);
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
        assert_eq!((updated.version, updated.copies), (1, 1));
        let refreshed = run!(orders.refresh_copies(2)).unwrap();
        assert_eq!((refreshed.version, refreshed.copies), (2, 1));
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

pub(super) struct Contacts(SchemaRepository<Document>);

impl Calls for Contacts {
    const NAME: &'static str = "schema";

    async fn begin(db: &TestDatabase) -> Self {
        let contacts = typed(db);
        contacts.ensure_indexes().await.unwrap();
        let newest = doc! { "_id": 0, "schemaVersion": 2, "numbers": [] };
        stored(db).insert_many([newest, v1(1), v1(2), v1(3)]).await.unwrap();
        Self(contacts)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let contacts = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        let new = doc! { "_id": 7, "name": "Ann" };
        run!(contacts.insert(&new)).unwrap();
        let many = [doc! { "_id": 10 }, doc! { "_id": 11 }];
        assert_eq!(run!(contacts.insert_many(&many)).unwrap().len(), 2);
        let set = || doc! { "$set": { "name": "Bea" } };
        // The second one is converted in the transaction.
        for id in [7, 1] {
            let updated = run!(contacts.update(id, set())).unwrap();
            assert!(updated.modified);
            let read = run!(contacts.get(id)).unwrap().unwrap();
            assert_eq!(read.get("name"), Some(&"Bea".into()));
        }
        let replaced = run!(contacts.replace(2, &new_of(2)));
        assert!(replaced.unwrap().modified);
        assert!(run!(contacts.delete(3)).unwrap().found);
        let found = contacts.find(doc! { "name": "Bea" }).older(1, doc! {});
        assert_eq!(found.session(&mut *session).await.unwrap().len(), 2);
        let counts = run!(contacts.versions()).unwrap();
        assert_eq!(counts.len(), 1);
        // A refused call does not abort the transaction.
        let missing = run!(contacts.update(9, set())).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(!contacts.delete(9).session(session).await.unwrap().found);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(0).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        let push = doc! { "$push": { "numbers": n } };
        self.0.update(0, push).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let found = one(db, 0).await.unwrap();
        let numbers = found.get_array("numbers").unwrap().iter();
        numbers.map(|number| number.as_i32().unwrap().into()).collect()
    }
}

fn new_of(id: i32) -> Document {
    doc! { "_id": id, "name": "Cleo" }
}
