//! Tasks that push to lists that exceed their threshold.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::TryStreamExt;
use mongo_patterns::outlier::{Finding, OutlierRepository, Problem, Pushed};
use mongodb::Database;
use mongodb::bson::Document;

use super::calls::{Fate, Fates, Load, Outcome};
use support::outlier::{Book, Books};

const THRESHOLD: u32 = 10;
const CAP: u32 = 20;
/// How many customers a book gets: a full array, and about three overflow documents.
const OF_A_BOOK: i64 = 70;

#[derive(Debug)]
pub struct Sales {
    is_unique: bool,
    load: Arc<Load>,
    next: AtomicI64,
    fates: Fates,
}

impl Sales {
    pub fn new(is_unique: bool, load: &Arc<Load>) -> Arc<Self> {
        Arc::new(Self {
            is_unique,
            load: Arc::clone(load),
            next: AtomicI64::new(0),
            fates: Fates::default(),
        })
    }

    pub fn repository(&self, database: &Database) -> Books {
        let names = match self.is_unique {
            true => ["unique_sales", "extra_unique_sales"],
            false => ["sales", "extra_sales"],
        };
        let [main, extras] = names.map(|name| database.collection::<Document>(name));
        let builder = OutlierRepository::<Book, String>::builder(main, extras)
            .array_field("customers_purchased")
            .parent_field("book_id")
            .threshold(THRESHOLD)
            .max_overflow_elements(CAP);
        match self.is_unique {
            true => builder.unique_elements().build().unwrap(),
            false => builder.build().unwrap(),
        }
    }

    fn kind(&self) -> &'static str {
        match self.is_unique {
            true => "outlier push_unique",
            false => "outlier push",
        }
    }

    /// Pushes until the load stops. Pushes of unique elements are retried until the element is known to be stored.
    pub async fn write(self: Arc<Self>, books: Books) {
        let mut inserted = None;
        while self.load.continues().await {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let id = book_of(n);
            if inserted != Some(id) {
                self.insert(&books, id).await;
                inserted = Some(id);
            }
            let (mut attempt, mut may_be_stored) = (n, false);
            let fate = loop {
                let customer = n.to_string();
                let (load, kind) = (&self.load, self.kind());
                let outcome = match self.is_unique {
                    true => load.call(kind, attempt, books.push_unique(id, &customer)).await,
                    false => load.call(kind, attempt, books.push(id, &customer)).await,
                };
                let is_there = matches!(outcome, Outcome::Done(Pushed::AlreadyThere));
                assert!(
                    may_be_stored || !is_there,
                    "{n} is stored although a push reported that it is not"
                );
                if outcome.is_done() || !self.is_unique {
                    break Fate::from(&outcome);
                }
                may_be_stored |= matches!(outcome, Outcome::Unknown);
                attempt += 1;
                self.load.continues().await;
            };
            self.fates.note(n, fate);
        }
    }

    async fn insert(&self, books: &Books, id: i32) {
        let book = Book {
            _id: id,
            title: "The Wooden Amulet".to_owned(),
            customers_purchased: Vec::new(),
        };
        self.load.until_exists("outlier insert", || books.insert(&book)).await;
    }

    /// Compares the stored elements with the outcomes of the writers.
    pub async fn judge(&self, books: &Books) -> (usize, usize, usize) {
        let mut stored = Vec::new();
        for id in 0..=book_of(self.next.load(Ordering::Relaxed)) {
            let book = books.get_full(id).await.unwrap();
            let customers = book.into_iter().flat_map(|book| book.customers_purchased);
            stored.extend(customers.map(|customer| customer.parse::<i64>().unwrap()));
        }
        let counts = self.fates.judge(self.kind(), stored);
        if self.is_unique {
            assert_eq!(counts.1, 0, "every push was retried until its outcome was known");
        }
        // A dropped push may leave a flag without overflow documents, and no other damage.
        for finding in findings(books).await {
            assert_eq!(finding.problem, Problem::FlagWithoutOverflow, "{}", self.kind());
        }
        let repaired: Vec<_> = books.repair().stream().try_collect().await.unwrap();
        let mut repairs = repaired.iter();
        assert!(repairs.all(|repaired| repaired.unrepaired.is_none()), "{repaired:?}");
        assert_eq!(findings(books).await, [], "{}", self.kind());
        counts
    }
}

async fn findings(books: &Books) -> Vec<Finding> {
    books.verify().stream().try_collect().await.unwrap()
}

fn book_of(n: i64) -> i32 {
    i32::try_from(n / OF_A_BOOK).unwrap()
}
