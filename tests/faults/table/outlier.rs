//! Outliers: books with up to three customers in the main document, and four in each overflow document.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::outlier::{OutlierRepository, OutlierRepositoryBuilder, Problem};
use mongo_patterns::{ErrorKind, Repository};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::operation::Promise::{Atomic, PrefixOnce, Reads, Steps};
use super::operation::{Call, Model, Of, calls, documents, indexes, retry_policy, serialized};
use support::outlier::damage::{extra, flagged, main_of};
use support::outlier::{Books, book, users};

const THRESHOLD: usize = 3;
const CAP: usize = 4;

/// Book 1 has nine customers, book 2 a full array, book 3 one less, book 4 a full array and full overflow documents.
pub(super) struct Shop {
    pub(super) sales: Collection<Document>,
    extras: Collection<Document>,
    pub(super) books: Books,
    /// With unique customers.
    pub(super) unique: Books,
}

/// Returns the books with their customers, and the damage. Overflow documents without a book are damage.
fn inspect(sales: &[Document], extras: &[Document]) -> (Vec<String>, Vec<String>) {
    let (mut facts, mut wrong) = (Vec::new(), Vec::new());
    let mut of_book = BTreeMap::<i32, Vec<&Document>>::new();
    for document in extras {
        of_book
            .entry(document.get_i32("book_id").unwrap())
            .or_default()
            .push(document);
    }
    for main in sales {
        let id = main.get_i32("_id").unwrap();
        let mut extras = of_book.remove(&id).unwrap_or_default();
        extras.sort_by_key(|document| document.get_i32("seq").unwrap());
        let inline = main.get_array("customers_purchased").unwrap();
        let is_flagged = main.get_bool("has_extras").unwrap_or(false);
        facts.push(format!("book {id}"));
        facts.extend(inline.iter().map(|user| format!("{id}: {user}")));
        if inline.len() > THRESHOLD {
            wrong.push(format!("{id} over threshold"));
        }
        match (is_flagged, extras.is_empty()) {
            (true, true) => wrong.push(format!("{id} flag without overflow")),
            (false, false) => wrong.push(format!("{id} no flag")),
            _ => {}
        }
        for (position, document) in extras.iter().enumerate() {
            let users = document.get_array("customers_purchased_extra").unwrap();
            facts.extend(users.iter().map(|user| format!("{id}: {user}")));
            let count = document.get("count").and_then(mongodb::bson::Bson::as_i32);
            if count != i32::try_from(users.len()).ok() {
                wrong.push(format!("{id} count"));
            }
            if document.get_i32("seq").ok() != i32::try_from(position).ok() {
                wrong.push(format!("{id} position"));
            }
            if users.len() > CAP {
                wrong.push(format!("{id} over cap"));
            }
        }
    }
    for (id, extras) in of_book {
        wrong.extend(extras.iter().map(|_| format!("{id} orphaned")));
    }
    (facts, wrong)
}

fn builder<D, E>(sales: &Collection<Document>, extras: &Collection<Document>) -> OutlierRepositoryBuilder<D, E> {
    OutlierRepository::builder(sales.clone(), extras.clone())
        .array_field("customers_purchased")
        .parent_field("book_id")
        .threshold(THRESHOLD as u32)
        .max_overflow_elements(CAP as u32)
        .retry(retry_policy())
}

impl Shop {
    fn catalog(&self) -> Collection<Document> {
        let database = self.sales.client().database(&self.sales.namespace().db);
        database.collection("mongo_patterns")
    }
}

impl Model for Shop {
    const PATTERN: &'static str = "outlier";
    const COLLECTIONS: &'static [&'static str] = &["sales", "extra_sales", "skipped"];

    fn new(of: Of<'_>) -> Self {
        let (sales, extras) = (of.collection("sales"), of.collection("extra_sales"));
        Self {
            books: builder(&sales, &extras).build().unwrap(),
            unique: builder(&sales, &extras).unique_elements().build().unwrap(),
            sales,
            extras,
        }
    }

    async fn fill(&self) {
        // The indexes of both, and the settings of the one without unique customers.
        self.unique.ensure_indexes().replace_settings().await.unwrap();
        self.books.ensure_indexes().replace_settings().await.unwrap();
        let books = [flagged(1, 0..3), main_of(2, 0..3), main_of(3, 0..2), flagged(4, 0..3)];
        self.sales.insert_many(books).await.unwrap();
        let extras = [extra(1, 0, 3..7), extra(1, 1, 7..9), extra(4, 0, 3..7)];
        self.extras.insert_many(extras).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [sales, extras] = documents([&self.sales, &self.extras]).await;
        let mut facts = inspect(&sales, &extras).0;
        facts.extend(indexes(&self.extras).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let mut read = Vec::new();
        for id in 1..=5 {
            if let Some(book) = self.books.get_full(id).await.unwrap() {
                read.push(format!("book {id}"));
                read.extend(book.customers_purchased.iter().map(|user| format!("{id}: {user:?}")));
            }
        }
        let orders: OutlierRepository<Document, Document> = builder(&self.sales, &self.extras).build().unwrap();
        if let Some(book) = orders.get_full(6).await.unwrap() {
            let elements = book.get_array("customers_purchased").unwrap();
            read.push("book 6".to_owned());
            read.extend(elements.iter().map(|order| format!("6: {order}")));
        }
        Some(read)
    }

    async fn damage(&self) -> Vec<String> {
        let [sales, extras] = documents([&self.sales, &self.extras]).await;
        inspect(&sales, &extras).1
    }

    async fn found(&self) -> Vec<String> {
        // The settings can be those of the repository with unique customers.
        let entry = doc! { "_id.kind": "outlier" };
        let entry = self.catalog().find_one_and_delete(entry).await.unwrap();
        let mut findings = self.books.verify().stream();
        let mut found = Vec::new();
        while let Some(finding) = findings.try_next().await.unwrap() {
            let what = match finding.problem {
                Problem::OverThreshold { .. } => "over threshold".to_owned(),
                Problem::FlagWithoutOverflow => "flag without overflow".to_owned(),
                Problem::OverflowWithoutFlag { .. } => "no flag".to_owned(),
                Problem::Count { .. } => "count".to_owned(),
                Problem::DuplicatePosition | Problem::PositionMissing | Problem::Gap { .. } => "position".to_owned(),
                Problem::TooManyElements { .. } => "over cap".to_owned(),
                Problem::Orphaned => "orphaned".to_owned(),
                other => format!("{other:?}"),
            };
            found.push(format!("{} {what}", finding.related_id.unwrap()));
        }
        if let Some(entry) = entry {
            self.catalog().insert_one(entry).await.unwrap();
        }
        found
    }

    /// Overflow documents without a book remain.
    async fn repair(&self) {
        let repaired: Result<Vec<_>, _> = self.books.repair().stream().try_collect().await;
        if let Err(error) = repaired {
            assert!(error.is_setup_error(), "{error:?}");
        }
    }
}

const PUSH: &str = "OutlierRepository::push";
const UNIQUE: &str = "OutlierRepository::push_unique";
const MANY: &str = "OutlierRepository::push_many";

const UPDATE: &str = "OutlierRepository::update_element";

fn damaged(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let flag = doc! { "$set": { "has_extras": true } };
        m.sales.update_one(doc! { "_id": 3 }, flag).await.unwrap();
        miscounted(m).await;
    })
}

/// Damages one list: several are read and repaired concurrently, and their commands have no order.
fn miscounted(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let count = doc! { "$set": { "count": 7 } };
        m.extras.update_one(doc! { "book_id": 4 }, count).await.unwrap();
    })
}

fn long(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move { drop(m.sales.insert_one(main_of(5, 0..9)).await.unwrap()) })
}

pub(super) fn operations() -> Vec<Call<Shop>> {
    calls! { Shop;
        PrefixOnce, PUSH, "into the array", |m| m.books.push(3, &users(50..51)[0]).await;
        PrefixOnce, PUSH, "into an overflow document", |m| m.books.push(1, &users(50..51)[0]).await;
        PrefixOnce, PUSH, "that creates an outlier", |m| m.books.push(2, &users(50..51)[0]).await;
        PrefixOnce, PUSH, "that opens an overflow document", |m| m.books.push(4, &users(50..51)[0]).await;
        PrefixOnce, MANY, "into the array and overflow documents", |m| m.books.push_many(3, &users(50..60)).await;
        PrefixOnce, MANY, "into overflow documents", |m| m.books.push_many(1, &users(50..60)).await;
        Atomic, UNIQUE, "into the array", |m| m.unique.push_unique(3, &users(50..51)[0]).await;
        Atomic, UNIQUE, "into an overflow document", |m| m.unique.push_unique(1, &users(50..51)[0]).await;
        Atomic, UNIQUE, "that opens an overflow document", |m| m.unique.push_unique(4, &users(50..51)[0]).await;
        Steps, "OutlierRepository::remove", "from the array", |m| m.books.remove(1, &users(1..2)[0]).await;
        Steps, "OutlierRepository::remove", "from an overflow document", |m| m.books.remove(1, &users(5..6)[0]).await;
        Steps, "OutlierRepository::remove", "of an absent element", |m| m.books.remove(1, &users(80..81)[0]).await;
        Atomic, UPDATE, "in the array", |m|
            m.books.update_element(6, doc! { "user": 1 }, gift()).await => prepare(orders);
        Atomic, UPDATE, "in an overflow document", |m|
            m.books.update_element(6, doc! { "user": 4 }, gift()).await => prepare(orders);
        Atomic, "OutlierRepository::insert", "", |m|
            m.books.insert(&book(5, 2)).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "OutlierRepository::insert", "of a list that is split", |m|
            m.books.insert(&book(5, 9)).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "OutlierRepository::delete", "", |m| m.books.delete(3).await;
        Atomic, "OutlierRepository::delete", "with overflow documents", |m| m.books.delete(1).await;
        Steps, "OutlierRepository::ensure_indexes", "", |m|
            m.unique.ensure_indexes().await
            => prepare(|m| { m.extras.drop_indexes().await.unwrap(); m.catalog().drop().await.unwrap(); });
        Atomic, "OutlierRepository::refresh", "", |m| m.books.refresh(1).await => prepare(removed);
        Steps, "OutlierRepository::migrate_existing", "", |m|
            m.books.migrate_existing().concurrency(1).await => prepare(long);
        Steps, "OutlierRepository::migrate_existing", "with a list of invalid documents", |m| {
            let list = m.catalog().client().database(&m.catalog().namespace().db);
            let list = list.collection::<Document>("skipped");
            m.books.migrate_existing().concurrency(1).skip_invalid(&list).await
        } => prepare(long);
        Steps, "OutlierRepository::repair + RepairLists::stream", "", |m|
            serialized(m.books.repair().stream()).await => prepare(miscounted);
        Steps, "OutlierRepository::repair_document + RepairLists::stream", "", |m|
            serialized(m.books.repair_document(4).stream()).await => prepare(miscounted);
        Reads, "OutlierRepository::repair + RepairLists::stream", "dry run", |m|
            serialized(m.books.repair().dry_run().stream()).await => prepare(miscounted);
        Reads, "OutlierRepository::migrate_existing + MigrateExisting::plan", "", |m|
            m.books.migrate_existing().plan().await.map(drop);
        Reads, "OutlierRepository::verify", "", |m|
            serialized(m.books.verify().stream()).await => prepare(miscounted);
        Reads, "OutlierRepository::verify_document", "", |m|
            serialized(m.books.verify_document(4).stream()).await => prepare(damaged);
        Reads, "OutlierRepository::get", "", |m| m.books.get(1).await;
        Reads, "OutlierRepository::find", "", |m| m.books.find(doc! {}).sort(doc! { "_id": 1 }).await;
        Reads, "OutlierRepository::get_full", "", |m| m.books.get_full(1).await;
        Reads, "OutlierRepository::elements + Elements::stream", "", |m|
            m.books.elements(1).skip(2).stream().try_collect::<Vec<_>>().await;
        Reads, "OutlierRepository::count", "", |m| m.books.count(1).await;
        Reads, "OutlierRepository::contains", "", |m| m.books.contains(1, &users(5..6)[0]).await;
    }
}

pub(super) fn gift() -> Document {
    doc! { "$set": { "gift": true } }
}

/// Inserts book 6, whose customers are documents.
pub(super) fn orders(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let users = |range: std::ops::Range<i32>| range.map(|user| doc! { "user": user }).collect::<Vec<_>>();
        let mut main = flagged(6, 0..0);
        main.insert("customers_purchased", users(0..3));
        m.sales.insert_one(main).await.unwrap();
        let mut overflow = extra(6, 0, 0..2);
        overflow.insert("customers_purchased_extra", users(3..5));
        m.extras.insert_one(overflow).await.unwrap();
    })
}

/// Removes customers from an array, and from full overflow documents.
pub(super) fn removed(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        for user in users(1..2).into_iter().chain(users(5..6)) {
            m.books.remove(1, &user).await.unwrap();
        }
    })
}
