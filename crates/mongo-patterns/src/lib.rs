//! MongoDB's schema design patterns as typed repositories, correct under concurrency and faults.
//!
//! MongoDB's manual describes its patterns as shell recipes, which lose data when two writers meet. Here each pattern is a
//! repository over the official driver. It is generic over your serde types, stores the manual's documents, and its
//! guarantees are tested against a real server.
//!
//! | pattern | feature | purpose |
//! |---|---|---|
//! | [`bucket`] | `bucket` | a history of a key in pages, one document for each page |
//! | [`outlier`] | `outlier` | arrays up to a threshold; the rest of a few long ones in a second collection |
//! | [`subset`] | `subset` | the first few children in their parent, all of them in a second collection |
//! | [`embedded`] | `embedded` | a few children in the document of their parent, with a limit |
//! | [`history`] | `history` | current documents, all of their revisions in a second collection |
//! | [`intervals`] | `intervals` | documents with the intervals in which they are valid, all in one collection |
//! | [`reference`](mod@reference) | `reference` | references with copies of fields of their sources, which follow them |
//! | [`schema`] | `schema` | documents of several versions in one collection; migrations that run once |
//! | [`archive`] | `archive` | old documents in a second collection; a trash of deleted documents |
//! | [`counters`] | `counters` | counts that are collected in the process and flushed, each once |
//!
//! The [`guide`] leads from questions about your data to one of them, or to none. These features are on by default.
//! The feature `derive` adds derive macros: `Fields` gives a struct the stored names of its fields, so that a builder takes
//! `Trade::DATE` instead of `"date"`, and `AsKey` and `IntoId` make newtypes keys and ids.
//! The feature `metrics` adds [metrics](#observability), and `archive-files` an archive in files of a directory or an object store.
//!
//! `rustls-tls`, `openssl-tls` and `dns-resolver` are the driver's features of the same names. The first and the last are on by
//! default. The crates use bson 3, and Cargo compiles the driver once, with the features of all crates. So in your program
//! `mongodb::bson` is bson 3 too: `mongodb = { version = "3.9", features = ["bson-3"] }`.
//!
//! # First use
//!
//! Every pattern is used in the same way. A builder over the driver's collections names the fields. A service calls
//! [`ensure_indexes`](Repository::ensure_indexes) once when it starts, and clones the repository freely. As in the driver,
//! every call is an action: set options, then await it. With `session(..)` it runs in a session of yours.
//!
//! The trait [`Repository`], which the [`prelude`] has, is what the repositories of all patterns have in common. With
//! it, a service sets them up in one loop:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::bson::Document;
//! use mongo_patterns::prelude::*;
//!
//! # async fn f(
//! #     trades: BucketRepository<u32, Document>,
//! #     books: OutlierRepository<Document, String>,
//! #     policies: HistoryRepository<Document>,
//! # ) -> mongo_patterns::Result<()> {
//! for repository in [&trades as &dyn Repository, &books, &policies] {
//!     repository.ensure_indexes().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A **bucket** for each ten trades of a customer:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::{DateTime, Document}};
//! # use serde::{Deserialize, Serialize};
//! use mongo_patterns::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Trade { ticker: String, qty: i32, date: DateTime }
//!
//! # async fn f(database: Database) -> mongo_patterns::Result<()> {
//! let trades = BucketRepository::<u32, Trade>::builder(database.collection::<Document>("trades"))
//!     .key_field("customerId")
//!     .items_field("history")
//!     .time_field("date")
//!     .page_size(10)
//!     .build()?;
//! trades.ensure_indexes().await?;
//!
//! trades.append(&123, &Trade { ticker: "MDB".into(), qty: 419, date: DateTime::now() }).await?;
//! let newest = trades.buckets(&123).newest_first().limit(1).page().await?; // with a token for the next one
//! # Ok(())
//! # }
//! ```
//!
//! An **outlier**, such as the one book that a thousand customers bought:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::Document};
//! # use serde::{Deserialize, Serialize};
//! use mongo_patterns::outlier::Pushed;
//! use mongo_patterns::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Book { _id: i32, title: String, customers_purchased: Vec<String> }
//!
//! # async fn f(database: Database) -> mongo_patterns::Result<()> {
//! let (sales, extra_sales) = (database.collection::<Document>("sales"), database.collection::<Document>("extra_sales"));
//! let books = OutlierRepository::<Book, String>::builder(sales, extra_sales)
//!     .array_field("customers_purchased")
//!     .parent_field("book_id")
//!     .threshold(50)
//!     .build()?;
//! books.ensure_indexes().await?;
//!
//! let pushed: Pushed = books.push(2, "user00").await?; // inline, or overflow
//! let book = books.get(2).await?; // up to fifty customers, and whether it has more
//! # Ok(())
//! # }
//! ```
//!
//! A **subset**, the ten newest reviews in their product:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::{DateTime, Document, doc}};
//! # use serde::{Deserialize, Serialize};
//! use mongo_patterns::prelude::*;
//! use mongo_patterns::subset::Subset;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Review { review_id: i32, product_id: i32, review_text: String, published_date: DateTime }
//!
//! # async fn f(database: Database, review: Review) -> mongo_patterns::Result<()> {
//! let (product, reviews) = (database.collection::<Document>("product"), database.collection::<Document>("review"));
//! let products = SubsetRepository::<Document, Review>::builder(product, reviews)
//!     .parent_field("product_id")
//!     .child_id_field("review_id")
//!     .subset(Subset::new("reviews").sort(doc! { "published_date": -1 }).size(10))
//!     .build()?;
//! products.ensure_indexes().await?;
//!
//! products.insert(&review).await?;
//! let product = products.get(1).await?; // with the ten newest
//! let more = products.children(1).limit(50).page().await?; // with a token for the next fifty
//! # Ok(())
//! # }
//! ```
//!
//! **Embedded** addresses, at most twenty per patron:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
//! # use serde::{Deserialize, Serialize};
//! use mongo_patterns::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Address { id: String, street: String, zip: String }
//!
//! # async fn f(database: Database, home: Address) -> mongo_patterns::Result<()> {
//! let patrons = EmbeddedRepository::<Document, Address>::builder(database.collection::<Document>("patron"))
//!     .children_field("addresses")
//!     .child_id_field("id")
//!     .max_children(20)
//!     .build()?;
//! patrons.ensure_indexes().await?;
//!
//! patrons.add_child("joe", &home).await?; // or the error `LimitReached`
//! patrons.update_child("joe", "home", doc! { "$set": { "zip": "54321" } }).await?;
//! let joe = patrons.get("joe").await?; // with all addresses
//! # Ok(())
//! # }
//! ```
//!
//! A **history** of every version of a policy:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::{DateTime, Document, doc}};
//! # use serde::{Deserialize, Serialize};
//! use mongo_patterns::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Policy { policy_id: i32, customer_name: String, items_insured: Vec<String> }
//!
//! # async fn f(database: Database, policy: Policy, accident: DateTime) -> mongo_patterns::Result<()> {
//! let current = database.collection::<Document>("currentPolicies");
//! let revisions = database.collection::<Document>("policyRevisions");
//! let policies = HistoryRepository::<Policy>::builder(current, revisions).id_field("policyId").build()?;
//! policies.ensure_indexes().await?;
//!
//! policies.insert(&policy).await?; // revision 1
//! policies.update(1, doc! { "$push": { "itemsInsured": "watch" } }).await?; // revision 2
//! let valid = policies.as_of(1, accident).await?; // the revision at that time
//! # Ok(())
//! # }
//! ```
//!
//! A **reference** of an order to its customer, with a copy of the name:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
//! use mongo_patterns::prelude::*;
//!
//! # async fn f(database: Database) -> mongo_patterns::Result<()> {
//! let (orders, customers) = (database.collection::<Document>("orders"), database.collection::<Document>("customers"));
//! let orders = ReferenceRepository::<Document, Document>::builder(orders, customers)
//!     .reference_field("customer")
//!     .copied_fields(["name"])
//!     .build()?;
//! orders.ensure_indexes().await?;
//!
//! orders.insert(&doc! { "_id": 1, "total": 42.5, "customer": { "_id": 456 } }).await?; // with the name
//! orders.update_source(456, doc! { "$set": { "name": "Ann" } }).await?; // in the customer and in all of her orders
//! # Ok(())
//! # }
//! ```
//!
//! The pages of [`schema`], [`archive`] and [`counters`] have their programs. Each pattern's page has its guarantees and the cost of each
//! call. The [book] has a tutorial, the hazards of the manual's recipes, a cookbook for services, operations, and a reference
//! of errors. The package `examples/service` of the repository is a web service over the six patterns above,
//! with a trash.
//!
//! [book]: https://github.com/mongo-patterns/mongo-patterns/blob/main/book/src/SUMMARY.md
//!
//! # Results
//!
//! All patterns follow the same rules:
//!
//! - An add that is idempotent by an id returns `already_there` or `AlreadyThere` when the id is stored already. An
//!   insert of a document, or of a child with its own id, returns [`AlreadyExists`](ErrorKind::AlreadyExists) then, and
//!   changes nothing.
//! - A removal or a deletion returns `found`. Only a missing parent document is an error,
//!   [`NotFound`](ErrorKind::NotFound).
//! - An update or a replacement returns `modified`. A missing target is [`NotFound`](ErrorKind::NotFound), or
//!   [`ChildNotFound`](ErrorKind::ChildNotFound) when only the child is missing.
//! - An upsert returns `inserted`.
//! - A read of something missing returns `None`, or nothing.
//! - Numbers are `u64`, named after what they count. `id` is the `_id` of the target of a call, and `document_id` that of
//!   a document in a finding or an error.
//!
//! Documents are inserted and deleted. Parts of an array are appended, pushed or added, and removed.
//!
//! # Errors and retries
//!
//! All patterns share the [`Error`]. Its [`kind`](Error::kind) is for a program, its text says what to do, and neither its
//! text nor its sources contain user values. Predicates group the kinds:
//!
//! - [`is_invalid_input`](Error::is_invalid_input): correct the input. Nothing was stored.
//! - [`is_transient`](Error::is_transient): retry later. Nothing was stored.
//! - [`is_outcome_unknown`](Error::is_outcome_unknown): the write may have taken effect. Make your writes
//!   idempotent by an id, as each pattern allows, and retry. On a sharded cluster, errors of a shard that is unavailable
//!   are transient for reads only, because the router may have sent a write before.
//! - [`is_setup_error`](Error::is_setup_error), [`is_corrupt`](Error::is_corrupt): alert the operator.
//!
//! [`ErrorKind`] documents them for every kind. [`remedy`](Error::remedy) is what to do as data, and an error serializes for
//! logs, with the [code](ErrorKind::code) of its kind.
//!
//! # Cancel safety
//!
//! The future of every call can be dropped at any point, by a timeout or `select!`. No transaction stays open, no connection
//! is closed, and calls for other documents do not wait. A task runs a command in flight to its reply; [`drain`] waits for
//! these tasks when a service shuts down. Each write documents what it may have done, and
//! [core](mongo_patterns_core::action#cancel-safety) what holds for all of them, also in a transaction of yours.
//!
//! # The driver
//!
//! The driver is re-exported as [`mongodb`], its BSON as `mongodb::bson`. It handles TLS, authentication and connections: you
//! pass a [`Collection`](mongodb::Collection). [Keys](key) of buckets are integers, strings, ObjectIds and UUIDs, or types of
//! yours that are stored as one of them ([`AsKey`]). All other ids can be any BSON type ([`IntoId`]).
//!
//! Build one repository for a collection and clone it. In the clones, calls that write one document wait for each other in
//! the client, with one write in flight, and appends, pushes, inserts and changes that wait are sent together. Repositories
//! that were built separately do not know each other's calls: these wait on the server, each with a connection. A warning
//! names a collection with more than 16 of them.
//!
//! # Sharded clusters
//!
//! [`ensure_sharded`](Repository::ensure_sharded) shards the collections of a repository and does what `ensure_indexes` does,
//! in the order that the server accepts. [`shard_keys`](Repository::shard_keys) returns the suitable shard keys, with reasons
//! and limits, and [`verify_shard_keys`](Repository::verify_shard_keys) names collections with another one. See [`sharding`].
//! No mongos of a supported version has run the tests of these calls yet.
//!
//! # Verification and repair
//!
//! `verify` of a repository finds documents that another program, a restore or an interrupted call has left wrong, and
//! `repair` fixes what needs no guess. Their results have one form for all patterns, which can be serialized. See
//! [`verify`](mod@verify).
//!
//! # Pages of any query
//!
//! [`pages::Pages`] reads the documents of any collection page by page, by a filter and a sort: forward and backward, each document
//! once, beside writers, also where values are equal, missing, or of several types.
//!
//! # Observability
//!
//! Every call is a `tracing` span at debug level, whose [fields](action#spans) follow the OpenTelemetry conventions for
//! databases. With the feature `metrics`, which is off by default, the calls count operations, conflicts, retries, spilled
//! elements, refreshes and migrated documents, and measure durations and the lag of followers, through the
//! [`metrics`](https://docs.rs/metrics) crate: the module `metrics` of this crate documents all names. Neither spans, labels
//! nor the texts of errors contain keys or items.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "archive")]
#[doc(inline)]
pub use mongo_patterns_archive as archive;
#[cfg(feature = "archive-files")]
#[doc(inline)]
pub use mongo_patterns_archive_files as archive_files;
#[cfg(feature = "bucket")]
#[doc(inline)]
pub use mongo_patterns_bucket as bucket;
#[cfg(feature = "metrics")]
#[doc(inline)]
pub use mongo_patterns_core::metrics;
#[cfg(feature = "counters")]
#[doc(inline)]
pub use mongo_patterns_counters as counters;
// In braces: the module, without the macro of that name.
#[doc(inline)]
pub use mongo_patterns_core::action::{self};
#[doc(inline)]
pub use mongo_patterns_core::{
    AsKey, Deleted, Error, ErrorKind, FoundInvalid, Inserted, IntoId, InvalidDocuments, Key, MigrationRecord, Moved,
    PlanWarning, Planned, PlannedCommand, Progress, Remedy, Removed, Repository, Result, RetryPolicy, Updated,
    Validator, catalog, drain, forget_migration, index, key, lease, list, migrations, pages, sharding, through, verify,
};
/// Makes a newtype a key that is stored as the key in it: implements `AsKey`.
///
/// ```
/// use mongo_patterns::AsKey;
/// use mongo_patterns::key::EncodeKey;
///
/// #[derive(AsKey, Clone, Debug, PartialEq, Eq)]
/// struct CustomerId(u32);
///
/// assert_eq!(CustomerId(123).encode_key()?.text(), "123");
/// # Ok::<(), mongo_patterns::key::KeyError>(())
/// ```
#[cfg(feature = "derive")]
pub use mongo_patterns_derive::AsKey;
/// Gives a struct the stored names of its fields as constants: `Trade::DATE` for the field `date`.
///
/// ```
/// use mongo_patterns::Fields;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Fields)]
/// #[serde(rename_all = "camelCase")]
/// struct Review {
///     #[serde(rename = "_id")]
///     id: i32,
///     product_id: i32,
///     #[serde(skip)]
///     is_new: bool,
/// }
///
/// assert_eq!((Review::ID, Review::PRODUCT_ID), ("_id", "productId"));
/// ```
#[cfg(feature = "derive")]
pub use mongo_patterns_derive::Fields;
/// Makes a newtype an id of documents, children and items that is stored as the value in it: implements `IntoId`.
///
/// ```
/// use mongo_patterns::IntoId;
/// use mongo_patterns::mongodb::bson::Bson;
///
/// #[derive(IntoId)]
/// struct OrderId(u64);
///
/// assert_eq!(OrderId(7).into_id()?, Bson::Int32(7));
/// # Ok::<(), mongo_patterns::Error>(())
/// ```
#[cfg(feature = "derive")]
pub use mongo_patterns_derive::IntoId;
#[cfg(feature = "embedded")]
#[doc(inline)]
pub use mongo_patterns_embedded as embedded;
#[cfg(feature = "history")]
#[doc(inline)]
pub use mongo_patterns_history as history;
#[cfg(feature = "intervals")]
#[doc(inline)]
pub use mongo_patterns_intervals as intervals;
#[cfg(feature = "outlier")]
#[doc(inline)]
pub use mongo_patterns_outlier as outlier;
#[cfg(feature = "reference")]
#[doc(inline)]
pub use mongo_patterns_reference as reference;
#[cfg(feature = "schema")]
#[doc(inline)]
pub use mongo_patterns_schema as schema;
#[cfg(feature = "subset")]
#[doc(inline)]
pub use mongo_patterns_subset as subset;
pub use mongodb;

pub mod guide;
pub mod prelude;

/// The programs of the READMEs.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../../../README.md")]
    struct Facade;
    #[doc = include_str!("../../bucket/README.md")]
    struct Bucket;
    #[doc = include_str!("../../outlier/README.md")]
    struct Outlier;
    #[doc = include_str!("../../subset/README.md")]
    struct Subset;
    #[doc = include_str!("../../embedded/README.md")]
    struct Embedded;
    #[doc = include_str!("../../history/README.md")]
    struct History;
    #[doc = include_str!("../../intervals/README.md")]
    struct Intervals;
    #[doc = include_str!("../../reference/README.md")]
    struct Reference;
    #[doc = include_str!("../../schema/README.md")]
    struct Schema;
    #[doc = include_str!("../../archive/README.md")]
    struct Archive;
    #[cfg(feature = "archive-files")]
    #[doc = include_str!("../../archive-files/README.md")]
    struct ArchiveFiles;
    #[doc = include_str!("../../counters/README.md")]
    struct Counters;
    #[doc = include_str!("../../testkit/README.md")]
    struct Testkit;
    #[cfg(feature = "derive")]
    #[doc = include_str!("../../derive/README.md")]
    struct Derive;
}
