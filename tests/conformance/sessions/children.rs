//! Items of buckets, elements of lists, and children of subsets and of documents.

use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::model::Calls;
use support::common::{Trade, Trades, all, at, builder, ready, spread};
use support::embedded::{Patrons, address, ids, patron};
use support::outlier::{Books, book, sorted, users};
use support::subset::{Products, add_product, products, review, review_of, reviews};
use support::{embedded, outlier};

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
        let buckets = trades.buckets(&1).limit(2).session(&mut *session).page().await.unwrap();
        assert_eq!(buckets.items.len(), 2);
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
        for bucket in all(&db.plain_collection("trades")).await {
            if bucket.get_i32("customerId").is_ok_and(|key| key == 3) {
                let items = bucket.get_array("history").unwrap().iter();
                numbers.extend(items.map(|item| item.as_document().unwrap().get_i64("n").unwrap()));
            }
        }
        numbers
    }
}

pub(super) struct Lists(Books);

impl Calls for Lists {
    const NAME: &'static str = "outlier";

    async fn begin(db: &TestDatabase) -> Self {
        let books: Books = outlier::ready(db, outlier::builder(db).threshold(3).max_overflow_elements(4)).await;
        for (id, purchases) in [(1, 2), (2, 30), (4, 0)] {
            books.insert(&book(id, purchases)).await.unwrap();
        }
        Self(books)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let books = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(books.insert(&book(3, 20))).unwrap();
        for user in users(2..9) {
            run!(books.push(1, &user)).unwrap();
        }
        run!(books.push_many(3, &users(20..40))).unwrap();
        let last = "user39".to_owned();
        assert!(run!(books.remove(3, &last)).unwrap().found);
        assert!(run!(books.delete(2)).unwrap().found);
        assert!(run!(books.get(2)).unwrap().is_none());
        let whole = run!(books.get_full(3)).unwrap().unwrap();
        assert_eq!(whole.customers_purchased, users(0..39));
        assert_eq!(run!(books.count(1)).unwrap().total(), 9);
        let page = run!(books.elements(1).skip(2).limit(3)).unwrap();
        assert_eq!(page, users(2..5));
        let eighth = "user08".to_owned();
        assert!(run!(books.contains(1, &eighth)).unwrap());
        run!(books.refresh(3)).unwrap();
        // A refused call does not abort the transaction.
        let missing = run!(books.push(9, &eighth)).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(books.count(3).session(session).await.unwrap().total(), 39);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(4).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        self.0.push(4, &n.to_string()).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        sorted(db, 4).await.iter().map(|n| n.parse().unwrap()).collect()
    }
}

pub(super) struct Subsets(Products);

impl Calls for Subsets {
    const NAME: &'static str = "subset";

    async fn begin(db: &TestDatabase) -> Self {
        let products = products(db).await;
        for id in [2, 3] {
            add_product(db, id).await;
        }
        let first: Vec<_> = (0..20).map(review).collect();
        products.insert_many(&first).await.unwrap();
        products.insert(&review_of(2, 1, 1)).await.unwrap();
        Self(products)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let products = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(products.insert(&review(50))).unwrap();
        run!(products.insert(&review(-1))).unwrap();
        let several = [review(51), review(52)];
        run!(products.insert_many(&several)).unwrap();
        let set = doc! { "$set": { "review_author": "Hans" } };
        run!(products.update(1, 52, set)).unwrap();
        run!(products.replace(&review(18))).unwrap();
        assert!(run!(products.delete(1, 19)).unwrap().found);
        assert_eq!(run!(products.refresh(1)).unwrap().embedded, 10);
        assert!(run!(products.delete_parent(2)).unwrap().found);
        assert!(run!(products.get(2)).unwrap().is_none());
        let shown = run!(products.get(1)).unwrap().unwrap().reviews;
        assert_eq!((shown[0].review_id, shown[0].review_author.as_str()), (52, "Hans"));
        assert!(run!(products.child(1, 50)).unwrap().is_some());
        let page = products
            .children(1)
            .limit(3)
            .session(&mut *session)
            .page()
            .await
            .unwrap();
        assert_eq!(page.items.len(), 3);
        // A refused call does not abort the transaction.
        let missing = run!(products.insert(&review_of(9, 1, 1))).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(!products.delete(1, 19).session(session).await.unwrap().found);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(3).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        let review = review_of(3, n, n.into());
        self.0.insert(&review).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let stored = all(&reviews(db)).await.into_iter();
        let of_third = stored.filter(|review| review.get_i32("product_id").is_ok_and(|id| id == 3));
        of_third
            .map(|review| review.get_i32("review_id").unwrap().into())
            .collect()
    }
}

pub(super) struct Children(Patrons);

impl Calls for Children {
    const NAME: &'static str = "embedded";

    async fn begin(db: &TestDatabase) -> Self {
        let patrons = embedded::builder(db).build().unwrap();
        patrons.ensure_indexes().await.unwrap();
        patrons.insert(&patron("joe", [])).await.unwrap();
        Self(patrons)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let patrons = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(patrons.insert(&patron("jim", []))).unwrap();
        let two = [patron("sue", []), patron("tom", [])];
        run!(patrons.insert_many(&two)).unwrap();
        let found = run!(patrons.find(doc! { "_id": "sue" })).unwrap();
        assert_eq!(found, two[..1]);
        for id in [1, 2, 3] {
            let added = patrons.add_child("jim", &address(id)).session(&mut *session);
            added.await.unwrap();
        }
        let set = doc! { "$set": { "zip": "54321" } };
        run!(patrons.update_child("jim", 1, set)).unwrap();
        let other = doc! { "id": 2, "phones": [{ "number": 1 }] };
        run!(patrons.replace_child("jim", &other)).unwrap();
        let set = doc! { "$set": { "kind": "mobile" } };
        run!(patrons.update_grandchild("jim", 2, "phones", ("number", 1), set)).unwrap();
        let other = doc! { "id": 2 };
        for (child, inserted) in [(other.clone(), false), (address(4), true)] {
            let upserted = run!(patrons.upsert_child("jim", &child));
            assert_eq!(upserted.unwrap().inserted, inserted);
        }
        let removed = run!(patrons.remove_child("jim", 4));
        assert!(removed.unwrap().found);
        assert!(run!(patrons.remove_child("jim", 3)).unwrap().found);
        run!(patrons.reorder_children("jim", [2, 1])).unwrap();
        let child = run!(patrons.child("jim", 2)).unwrap();
        assert_eq!(child, Some(other));
        let jim = run!(patrons.get("jim")).unwrap().unwrap();
        assert_eq!(jim.get_array("addresses").unwrap().len(), 2);
        // A refused call does not abort the transaction.
        assert!(!run!(patrons.remove_child("jim", 9)).unwrap().found);
        let exists = run!(patrons.add_child("jim", &address(1))).unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        let missing = run!(patrons.upsert_child("jack", &address(1)));
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
        let missing = patrons.remove_child("jack", 1).session(session).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get("joe").session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        self.0.add_child("joe", &address(n)).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        ids(db, "joe")
            .await
            .iter()
            .map(|id| id.as_i32().unwrap().into())
            .collect()
    }
}
