//! Outliers.

use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;

use super::model::Calls;
use support::outlier::{Books, book, builder, ready, sorted, users};

pub(super) struct Lists(Books);

impl Calls for Lists {
    const NAME: &'static str = "outlier";

    async fn begin(db: &TestDatabase) -> Self {
        let books: Books = ready(db, builder(db).threshold(3).max_overflow_elements(4)).await;
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
        run!(books.rebalance(3)).unwrap();
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
