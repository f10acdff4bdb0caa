//! MongoDB's outlier pattern as a typed repository: an array up to a threshold in the document, and what is beyond it,
//! for the few documents that have so much, in a second collection.
//!
//! The pattern is that of MongoDB's manual, "Group Data with the Outlier Pattern". Most books are bought by a few
//! customers, and one by a thousand. Up to fifty of them stay in the book; the others go to extras, and the book says so:
//!
//! ```text
//! sales:       { _id: 1, title: "Invisible Cities", customers_purchased: [ "user00", "user01", "user02" ] }
//!              { _id: 2, title: "The Wooden Amulet", customers_purchased: [ "user00", .. "user49" ], has_extras: true }
//! extra_sales: { book_id: 2, seq: 0, count: 500, customers_purchased_extra: [ "user50", .. "user549" ] }
//!              { book_id: 2, seq: 1, count: 450, customers_purchased_extra: [ "user550", .. "user999" ] }
//! ```
//!
//! A page that shows a hundred books reads a hundred small documents, whatever sells best. The names, the threshold and
//! the cap of an extras document are yours. The manual keeps all extras of a book in one document, which moves the
//! unbounded array, with its 16 MiB, to another place; here they are capped documents in order. Documents as the manual
//! writes them are read and pushed to, and [`migrate_existing`](OutlierRepository::migrate_existing) brings them into this form.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns_outlier::{OutlierRepository, Pushed};
//! use mongodb::bson::Document;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Book {
//!     _id: i32,
//!     title: String,
//!     #[serde(default)]
//!     customers_purchased: Vec<String>,
//! }
//!
//! # async fn f(database: mongodb::Database) -> mongo_patterns_core::Result<()> {
//! let sales = database.collection::<Document>("sales");
//! let extra_sales = database.collection::<Document>("extra_sales");
//! let books = OutlierRepository::<Book, String>::builder(sales, extra_sales)
//!     .array_field("customers_purchased")
//!     .parent_field("book_id")
//!     .threshold(50)
//!     .build()?;
//! books.ensure_indexes().await?; // once, at the start of the service
//!
//! books.insert(&Book { _id: 2, title: "The Wooden Amulet".into(), customers_purchased: vec![] }).await?;
//! let pushed = books.push(2, &"user00".to_owned()).await?;
//! assert_eq!(pushed, Pushed::Inline);
//! if let Some(found) = books.get(2).await? {
//!     // up to fifty customers; found.has_extras says whether there are more
//! }
//! let third_page: Vec<String> = books.elements(2).skip(40).limit(20).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - Most documents have long lists: then long is typical. Use buckets, or a document for each element.
//! - The page shows the newest, or the best, and the others on demand: that is the subset pattern. Here the array has the
//!   *first* elements.
//! - Elements that are changed, or searched by their own fields: keep one document each.
//!
//! # Guarantees
//!
//! With any number of writers, in any number of processes, on a replica set, a sharded cluster or a standalone:
//!
//! - A push that returns has stored its element once, to the collections' write concern, and every read that begins
//!   afterwards has it. One that fails has not, unless the error says that its
//!   [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown).
//! - The array never has more elements than the threshold, and no extras document more than the cap. Elements stand in
//!   the order in which they came; those of a batch in its order.
//! - A document that has extras has the flag: it is set in the very command that finds the array full, before there are
//!   extras. A process that dies there leaves a flag that says too much, and no element that nobody sees.
//! - A flagged document stays closed: what is removed leaves a gap, and no push fills it, so that no element is found
//!   twice or not at all. [`rebalance`](OutlierRepository::rebalance) closes gaps, in a transaction.
//! - With [unique elements](OutlierRepositoryBuilder::unique_elements) every element is in its list once, however often and by
//!   whom it is pushed.
//! - What breaks these rules, since another program wrote it, is an error that names the document, and not a wrong
//!   answer.
//!
//! What is *not* promised: a document and its extras are read one after the other. Where a `rebalance`, `migrate_existing` or
//! `repair` moves elements of this document in between, a read can find some twice or not at all; in a transaction it
//! does not. A delete that meets a push of another process can leave extras that belong to nobody.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`push`](OutlierRepository::push) to a typical document | 1 | 1 |
//! | ... to an outlier | 2 | 1 each, however long the list |
//! | ... that opens an extras document, once for as many elements as the cap | 6 | 1 each |
//! | [`push_unique`](OutlierRepository::push_unique) | as `push`, and 1 more to the extras | 1 each |
//! | [`push_many`](OutlierRepository::push_many) | 1, or 2, and 4 for each 100 extras documents or 16 MiB that it opens | 1 each |
//! | [`insert`](OutlierRepository::insert) | 1, or some 4 for an outlier | none |
//! | [`get`](OutlierRepository::get) | 1 | 1 |
//! | [`get_full`](OutlierRepository::get_full), [`elements`](OutlierRepository::elements) | 1, or 2 for an outlier | all of the list |
//! | ... with [`skip`](action::Elements::skip) or [`limit`](action::Elements::limit) | 1 where the array has them, else 3 | all of the list; those with wanted elements are sent |
//! | [`contains`](OutlierRepository::contains) | 1, or 2 | all of the list, or 2 where elements are unique |
//! | [`count`](OutlierRepository::count) | 1, or 2 for an outlier | all of the list |
//! | [`remove`](OutlierRepository::remove) | 1, or 2 for an outlier, 5 where there is none | all of the list, or 3 where elements are unique |
//! | [`delete`](OutlierRepository::delete) | 1, or 2 for an outlier | all of the list |
//! | [`rebalance`](OutlierRepository::rebalance) | 3 with nothing to do, else some 10 | all of the list |
//! | [`analyze`](OutlierRepository::analyze) | 1 | all of both collections, or a sample |
//! | [`verify`](OutlierRepository::verify) | 1, and 4 a document in which something is wrong | all of both collections |
//! | [`migrate_existing`](OutlierRepository::migrate_existing), [`repair`](OutlierRepository::repair) | that, and a `rebalance` for each document that needs it | all, and those again |
//! | [`ensure_indexes`](OutlierRepository::ensure_indexes) | 2, or 3 when it creates | all extras, when it creates |
//!
//! # Indexes
//!
//! One besides `_id`, on the extras: unique, on the parent and the place. It keeps places apart, finds the newest extras
//! in one step, and gives them in order. [`indexes`](OutlierRepository::indexes) gives its definition. Pushes to extras
//! name it in a hint, so that they are refused where it is missing. Unique elements need a second one. A repository that has
//! not called `ensure_indexes` looks once, with one round trip more, before it opens extras.
//!
//! # Cookbook
//!
//! **Which threshold?** Call [`analyze`](OutlierRepository::analyze) on the collection as it is. It needs no extras and no
//! index, and says which thresholds would make how many documents outliers.
//!
//! **An existing collection, another threshold or cap.** Build the repository as it shall be, call
//! [`migrate_existing`](OutlierRepository::migrate_existing), then [`ensure_indexes`](OutlierRepository::ensure_indexes). Writers of this crate
//! may go on meanwhile. When it is interrupted, call it again. [`plan`](action::MigrateExisting::plan) lists every command that it
//! would send.
//!
//! **After many removals.** [`rebalance`](OutlierRepository::rebalance) fills the array from the extras again, and clears
//! the flag when none are left.
//!
//! **A collection that others wrote, or damaged.** [`verify`](OutlierRepository::verify) tells everything that is wrong,
//! with document ids, while others write. [`repair`](OutlierRepository::repair) mends it, and never loses an element
//! without being asked. Try its dry run first.
//!
//! **A push together with other writes.** `?` works in the driver's callback, and the driver runs it again when writers
//! conflict, because errors keep their labels:
//!
//! ```no_run
//! # use mongo_patterns_outlier::OutlierRepository;
//! # use mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, books: OutlierRepository<Document, String>, orders: Collection<Document>)
//! # -> mongodb::error::Result<()> {
//! let (books, orders) = (books.clone(), orders.clone());
//! let mut session = client.start_session().await?;
//! session
//!     .start_transaction()
//!     .and_run2(async move |session| {
//!         books.push(2, &"user00".to_owned()).session(&mut *session).await?;
//!         orders.insert_one(doc! { "book": 2, "user": "user00" }).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! # fn is_send(_: impl Send) {}
//! # fn g(client: Client, books: OutlierRepository<Document, String>, orders: Collection<Document>) {
//! # is_send(f(client, books, orders));
//! # }
//! ```
//!
//! The closure owns what it uses (`async move`, of clones), so that the future is `Send` and can be spawned. A closure
//! that borrows makes it fail to compile there, with "implementation of `Send` is not general enough".
//!
//! Dropping the future of a call aborts the whole transaction, and the session is of no further use: see
//! [cancel safety](mongo_patterns_core::action#cancel-safety).
//!
//! # Sharding
//!
//! Shard the documents by `_id` and the extras by the parent field. Every read and write has both by equality.

pub mod action;
mod builder;
mod form;
#[cfg(feature = "__fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod migrate;
mod query;
mod read;
mod repair;
mod repository;
mod results;
mod settings;
mod write;

pub use builder::OutlierRepositoryBuilder;
pub use mongo_patterns_core::{Progress, Removed};
pub use repair::finding::{Finding, FoundIn, Problem, Repaired, Unrepaired};
pub use repository::OutlierRepository;
pub use results::{
    Analysis, Counts, Deleted, Inserted, LengthRange, ListLength, Longest, MigratedExisting, PERCENTILES, Pushed,
    PushedMany, Rebalanced, StoredDocument, ThresholdEstimate,
};
