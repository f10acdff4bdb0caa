//! MongoDB's bucket pattern as a typed repository: the history of each key in pages, one document a page.
//!
//! The pattern comes from MongoDB's manual, "Group Data with the Bucket Pattern". A customer's trades, one document each,
//!
//! ```text
//! { customerId: 123, type: "buy", ticker: "MDB", qty: 419, date: ISODate("2023-10-26T15:47:03.434Z") }
//! { customerId: 123, type: "sell", ticker: "MDB", qty: 29, date: ISODate("2023-10-30T09:32:57.765Z") }
//! ```
//!
//! become buckets of ten:
//!
//! ```text
//! { _id: "123_1698335223", customerId: 123, count: 2, history: [
//!     { type: "buy", ticker: "MDB", qty: 419, date: ISODate("2023-10-26T15:47:03.434Z") },
//!     { type: "sell", ticker: "MDB", qty: 29, date: ISODate("2023-10-30T09:32:57.765Z") } ] }
//! ```
//!
//! A page of a web site is then one document, and the indexes have a tenth of the entries. You choose the field names and
//! the page size. The manual's shell commands and this crate read each other's buckets.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::bucket::{BucketRepository, Repository};
//! use mongo_patterns::mongodb::bson::{DateTime, Document};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Trade {
//!     ticker: String,
//!     qty: i32,
//!     date: DateTime,
//! }
//!
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let trades = BucketRepository::<u32, Trade>::builder(database.collection::<Document>("trades"))
//!     .key_field("customerId")
//!     .items_field("history")
//!     .time_field("date")
//!     .page_size(10)
//!     .build()?;
//! trades.ensure_indexes().await?; // once, at the start of the service
//!
//! trades.append(&123, &Trade { ticker: "MDB".into(), qty: 419, date: DateTime::now() }).await?;
//! let first_page = trades.page(&123, 1).await?;
//! let newest = trades.buckets(&123).newest_first().limit(1).page().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - Measurements that are only appended and aggregated, without unique indexes and transactions: use a time series
//!   collection, which buckets them itself.
//! - Items that are often removed one by one, or found by several of their own fields: keep one document for each item.
//! - Items so large that a page of them comes near 16 MiB: use smaller pages.
//!
//! # Guarantees
//!
//! For any number of writers, in any number of processes, on a replica set, a sharded cluster or a standalone:
//!
//! - When an append returns, its item is stored once, to the collection's write concern. After an error it is not
//!   stored, unless the [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown).
// proof: bucket::concurrency::one_key_in_one_second, bucket::errors::a_connection_that_stays_broken_leaves_the_outcome_unknown
//! - A bucket never exceeds the page size, and its count is the number of its items.
// proof: bucket::concurrency::one_key_spread_over_seconds
//! - A key never has more than one bucket that is not full. A unique index guarantees it. Every append names the index
//!   in a hint, so that nothing is written where it is missing.
// proof: bucket::concurrency::writers_of_all_kinds, bucket::setup::without_the_index_an_append_is_refused_and_has_no_effect
//! - With [windows](BucketRepositoryBuilder::window), each window of a key has at most one open bucket, whose items are all
//!   of the window.
// proof: bucket::windows_upkeep::concurrent_writers_open_one_bucket_a_window
//! - A call for a key reads and writes no bucket of another key, [whatever the key contains](mongo_patterns_core::key).
// proof: bucket::key_isolation::random_hostile_strings, bucket::key_isolation::chosen_hostile_strings
//! - A second has room for 1,000,000 buckets of a key. A suffix distinguishes them: `123_1698335223`,
//!   `123_1698335223_000001`, and so on. After the suffix 999999, an append that would open a bucket returns
//!   [`InvalidTime`](mongo_patterns_core::ErrorKind::InvalidTime).
// proof: bucket::append::one_second_has_room_for_any_number_of_buckets, bucket::append_many::a_second_without_free_suffixes_is_an_error
//! - With an [item id field](BucketRepositoryBuilder::item_id_field) every item is stored once, however often it is
//!   appended: alone, in a batch, or by concurrent writers.
// proof: faults::exactly_once::sixty_four_writers_of_the_same_items_store_each_once
//! - A document that violates these invariants, for example by another program, is reported as
//!   [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) with its `_id`. It is never silently misread.
// proof: bucket::items_range::a_corrupt_document_is_an_error, conformance::damages::each_kind_of_damage_is_found_and_nothing_else
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`append`](BucketRepository::append) | 1 | 1 at most, at any length of the history |
//! | ... that meets another append at a full bucket | 2, rarely more | 1 at most, each |
//! | ... that waits in a [lane](#lanes) | those of one `append_many` for all that wait | 1 at most |
//! | ... that opens a bucket in a session | 3 | 2 at most |
//! | ... of an item whose id is stored | 2 or 3 | 1, each |
//! | [`append_many`](BucketRepository::append_many) | 2 for up to 1000 buckets, 1 if the items fit into one | 1 at most |
//! | ... with windows | 2, and 2 more for each later window with an open bucket | 1 at most, each |
//! | [`append_stream`](BucketRepository::append_stream) | that, for each key and buffer | |
//! | [`page`](BucketRepository::page) | 1 | 1, and as many index entries as the number of the page |
//! | a page of [`buckets`](BucketRepository::buckets) | 1 | as many as are returned, at any position of the token |
//! | [`newest`](BucketRepository::newest) | 1 | those that contain the items, and one more at most |
//! | [`items`](BucketRepository::items) | 1 for about 1000 items | as many pages as are returned |
//! | ... [`page`](action::Items::page) | 1 | those that contain the items, and 1 or 2 more |
//! | ... [`from`](action::Items::from), [`until`](action::Items::until) | 1 or 2 more, to find the start | those of the range and some `allowed_lateness` around it, and up to 8 |
//! | ... the same with [windows](BucketRepositoryBuilder::window) | none more | those of the windows that the range overlaps |
//! | ... [`skip`](action::Items::skip) | 1 more for up to 4000 pages | the skipped pages |
//! | [`item`](BucketRepository::item), [`replace_item`](BucketRepository::replace_item), [`update_item`](BucketRepository::update_item) | 1 | 1 |
//! | ... `update_item` of a field with [figures](BucketRepositoryBuilder::sum) | 2 | 1, each |
//! | [`remove_item`](BucketRepository::remove_item) | 2 in the open bucket, else about 6 | the item's page, else all from there to the last |
//! | [`counts`](BucketRepository::counts) | 1 | all of the key |
//! | [`find_items`](BucketRepository::find_items) | 1 for a reply of 16 MiB | with an index on the filter's fields, those with such items |
//! | [`totals`](BucketRepository::totals) | 1 | all of the key, or of the windows that its range overlaps |
//! | [`count_pages`](BucketRepository::count_pages) | 1 | none, and one index entry a page |
//! | [`keys`](BucketRepository::keys) | 1 for up to 1000 keys, or 1 a key with hundreds of pages | none, and about 16 index entries a key at most |
//! | [`delete_key`](BucketRepository::delete_key) | 2 | all of the key |
//! | [`ensure_indexes`](BucketRepository::ensure_indexes) | 3, or 6 the first time | all, when it creates one |
//! | [`ensure_sharded`](BucketRepository::ensure_sharded) | 5, or 13 the first time | as `ensure_indexes` |
//! | [`delete_key_before`](BucketRepository::delete_key_before) | 1 | all of the key, or of its windows up to the time |
//! | ... [`exact`](action::DeleteKeyBefore::exact) | about 7 | all from the first with an older item to the last |
//! | [`delete_before`](BucketRepository::delete_before) | 2 for 1000 deleted buckets, and 1 | all |
//! | [`refresh_figures`](BucketRepository::refresh_figures) | 3 | all |
//! | [`verify`](BucketRepository::verify), [`verify_key`](BucketRepository::verify_key) | 1, and 1 a key with findings | all, or those of the key |
//! | [`repair`](BucketRepository::repair), [`repair_key`](BucketRepository::repair_key) | as the first of `verify`, and 5 a key that is repaired | all, and those of such keys again |
//! | [`migrate_page_size_from`](BucketRepository::migrate_page_size_from) | as `repair`, twice to larger pages | all |
//! | [`migrate_from_flat`](BucketRepository::migrate_from_flat) | 4 for about 100,000 items, and about 12 | the flat collection three times |
//! | [`migrate_to_flat`](BucketRepository::migrate_to_flat) | the same | the buckets three times |
//!
//! # Lanes
//!
//! Each key has a lane: a queue of the calls that write it, with one write in flight. So a key that is written often, or
//! that another client has locked, occupies one connection, and calls for other keys do not wait.
//!
//! An [`append`](BucketRepository::append) that meets no other call is sent at once. Appends that wait are sent together, up
//! to 1000 items, and a refused item fails alone. So 64 tasks can append to one key many times faster than one after
//! another. Appends in a session, and all other writes, wait for their turn.
//!
//! See also what is true of [all lanes](mongo_patterns_core::action#lanes).
//!
//! # Indexes
//!
//! One beside `_id`: unique, on the key field, over the buckets that are not full. It has at most one entry for each key.
//! Its name contains the page size. With [windows](BucketRepositoryBuilder::window) it is on the key field and the start of
//! the window, with the length of the windows in its name. [`indexes`](BucketRepository::indexes) returns its definition.
//!
//! With an [item id field](BucketRepositoryBuilder::item_id_field) a second one: unique, on the key field and the ids of the
//! items, with an entry for each item. With an [expiry](BucketRepositoryBuilder::expire_after) a TTL index on the last time
//! of each bucket.
//!
//! On a sharded cluster, call [`ensure_sharded`](BucketRepository::ensure_sharded), which shards by the key field. Every
//! call for a key reaches one shard, except `page`, `count_pages` and `repair`.
//!
//! # Cookbook
//!
//! **A page of a web site, with links.** [`buckets`](BucketRepository::buckets) takes and returns a [`PageToken`], which is
//! safe in a URL. It is a position, so it stays valid when buckets are added.
//!
//! **A page of any size.** [`items`](BucketRepository::items) does the same with an [`ItemToken`], which stays valid while
//! items are appended. Request the same range and order again.
//!
//! **The items of a day.** `trades.items(&123).from(start).until(end).stream()`: the server finds the pages and sends
//! only those items. Items that are more than [`allowed_lateness`](action::Items::allowed_lateness) out of order may be
//! missed.
//!
//! **Items of all keys.** `trades.find_items(doc! { "ticker": "MDB", "date": { "$gte": start } })` filters by the
//! fields of the items. Its [`explain`](action::FindItems::explain) returns the index that the filter needs.
//! [`items_pipeline`](BucketRepository::items_pipeline) has the stages for an aggregation or a view of yours.
//!
//! **Items with any field names.** Items are stored as they are. But the driver's `Document` takes a field such as `$date`
//! or `$oid` for extended JSON: `{ "$date": 5 }` is stored, and cannot be read as a `Document`. Where items can have such
//! fields, use `RawDocumentBuf` as the item type.
//!
//! **An append together with other writes.** `?` works in the driver's callback. Errors keep their labels, so the driver
//! retries the transaction when writers conflict:
//!
//! ```no_run
//! # use mongo_patterns::bucket::BucketRepository;
//! # use mongo_patterns::mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, trades: BucketRepository<u32, i32>, accounts: Collection<Document>) -> mongo_patterns::mongodb::error::Result<()> {
//! let (trades, accounts) = (trades.clone(), accounts.clone());
//! let mut session = client.start_session().await?;
//! session
//!     .start_transaction()
//!     .and_run2(async move |session| {
//!         trades.append(&123, &419).session(&mut *session).await?;
//!         let less = doc! { "$inc": { "balance": -419 } };
//!         accounts.update_one(doc! { "_id": 123 }, less).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! # fn is_send(_: impl Send) {}
//! # fn g(client: Client, trades: BucketRepository<u32, i32>, accounts: Collection<Document>) {
//! # is_send(f(client, trades, accounts));
//! # }
//! ```
//!
//! The closure owns what it uses, so that the future [can be
//! spawned](mongo_patterns_core::action#sessions-and-transactions).
//!
//! **Many items at once.** [`append_many`](BucketRepository::append_many) stores the items of one key in whole buckets,
//! hundreds of times faster than one by one. [`append_stream`](BucketRepository::append_stream) does so for a stream of
//! any keys, in bounded memory. Items that independent tasks append to the same keys [join](#lanes) by themselves.
//!
//! **Idempotent retries.** When the connection breaks during an append, it is unknown whether the item is stored. If the
//! items have ids, append the item again. The same ids find, replace, update and remove single items:
//!
//! ```no_run
//! # use mongo_patterns::bucket::BucketRepository;
//! # use mongo_patterns::mongodb::{Database, bson::{DateTime, Document}};
//! # use serde::{Deserialize, Serialize};
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     #[serde(rename = "orderId")]
//!     id: String,
//!     date: DateTime,
//! }
//!
//! # async fn f(database: Database, order: Order) -> mongo_patterns::Result<()> {
//! let orders = BucketRepository::<u32, Order>::builder(database.collection::<Document>("orders"))
//!     .key_field("customerId")
//!     .items_field("history")
//!     .time_field("date")
//!     .item_id_field("orderId")
//!     .build()?;
//! let mut appended = orders.append(&123, &order).await;
//! while appended.as_ref().is_err_and(|error| error.is_outcome_unknown()) {
//!     appended = orders.append(&123, &order).await;
//! }
//! let stored: Option<Order> = orders.item(&123, "A-1007").await?;
//! let was_stored: bool = orders.remove_item(&123, "A-1007").await?.found;
//! # Ok(())
//! # }
//! ```
//!
//! **From a flat collection.** Stop its writers, create an index that starts with the key field, and call
//! [`migrate_from_flat`](BucketRepository::migrate_from_flat). Invalid documents are refused before anything is written.
//! [`migrate_to_flat`](BucketRepository::migrate_to_flat) migrates in the other direction.
//!
//! **A collection that other programs wrote, or damaged.** [`verify`](BucketRepository::verify) reports every problem with
//! its document id, while others write. [`repair`](BucketRepository::repair) repairs them without losing an item, and
//! reports what it could not repair. Try its dry run first. For a collection of the manual's shell commands, call `repair`,
//! then `ensure_indexes`.
//!
//! **Another page size.** Build the repository with the new size and call
//! [`migrate_page_size_from`](BucketRepository::migrate_page_size_from) with the old one.
//!
//! **Totals without the items.** With [`sum`](BucketRepositoryBuilder::sum), `min`, `max`, `count_by` and `first_and_last`,
//! each bucket keeps figures of its items. [`totals`](BucketRepository::totals) adds them for a key, or for a range of time,
//! also by month, day or hour. Take decimals for money: their sums are exact.
//!
//! **Buckets by the hour or the day.** With [`window`](BucketRepositoryBuilder::window) a bucket ends when it is full, or
//! when its window ends, and late items go to their own window. A range of time reads the buckets of its windows only.
//!
//! **Old items.** With [`expire_after`](BucketRepositoryBuilder::expire_after) the server deletes a bucket when all its
//! items are older than that, by a TTL index. [`delete_before`](BucketRepository::delete_before) and
//! [`delete_key_before`](BucketRepository::delete_key_before) delete old buckets now, and need no figures.
//!
//! **Late items.** An item that opens a bucket opens it at its own time, as in the manual, possibly before other pages.
//!
//! **A collection that no other program can damage.** Pass [`validators`](BucketRepository::validators) to the server.

pub mod action;
mod builder;
mod form;
mod migrate;
mod query;
mod read;
mod repair;
mod repository;
mod results;
mod settings;
mod write;

pub use builder::BucketRepositoryBuilder;
pub use form::document::Bucket;
pub use form::token::{ItemToken, PageToken};
pub use mongo_patterns_core::{Deleted, Progress, Removed, Repository, Updated};
pub use query::time_format::TimeFormat;
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::BucketRepository;
pub use results::{
    AppendProgress, Appended, AppendedMany, Counts, DeletedItems, FoundItem, ItemsPlan, Migrated, RefreshedFigures,
    Totals,
};
pub use settings::window::{TimeUnit, Window};
