//! Outliers.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;

use super::model::Calls;
use support::outlier::{Books, book, builder, ready, sorted, users};

struct Lists(Books);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let books: Books = ready(db, builder(db).threshold(3).max_overflow_elements(4)).await;
        for (id, purchases) in [(1, 2), (2, 30), (4, 0)] {
            books.insert(&book(id, purchases)).await.unwrap();
        }
        Box::new(Lists(books)) as Box<dyn Calls>
    })
}

impl Calls for Lists {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let books = &self.0;
        Box::pin(async move {
            books.insert(&book(3, 20)).session(&mut *session).await.unwrap();
            for user in users(2..9) {
                books.push(1, &user).session(&mut *session).await.unwrap();
            }
            books.push_many(3, &users(20..40)).session(&mut *session).await.unwrap();
            let last = "user39".to_owned();
            assert!(books.remove(3, &last).session(&mut *session).await.unwrap().found);
            assert!(books.delete(2).session(&mut *session).await.unwrap().found);
            assert!(books.get(2).session(&mut *session).await.unwrap().is_none());
            let whole = books.get_full(3).session(&mut *session).await.unwrap().unwrap();
            assert_eq!(whole.customers_purchased, users(0..39));
            assert_eq!(books.count(1).session(&mut *session).await.unwrap().total(), 9);
            let page = books.elements(1).skip(2).limit(3).session(&mut *session).await.unwrap();
            assert_eq!(page, users(2..5));
            let eighth = "user08".to_owned();
            assert!(books.contains(1, &eighth).session(&mut *session).await.unwrap());
            books.rebalance(3).session(&mut *session).await.unwrap();
            // A refused call does not abort the transaction.
            let missing = books.push(9, &eighth).session(&mut *session).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            assert_eq!(books.count(3).session(session).await.unwrap().total(), 39);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.get(4).session(session).await.unwrap()) })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.push(4, &n.to_string()).session(session).await.map(drop) })
    }

    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let mut numbers: Vec<i64> = sorted(db, 4).await.iter().map(|n| n.parse().unwrap()).collect();
            numbers.sort_unstable();
            numbers
        })
    }
}
