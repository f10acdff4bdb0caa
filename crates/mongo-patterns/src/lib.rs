//! MongoDB's schema design patterns as typed repositories that are right under concurrency and faults.
//!
//! MongoDB's manual gives its patterns as shell recipes. Copied as they stand, they lose data when two writers meet. Here
//! each is a repository over the official driver: generic over your serde types, with the same documents in the
//! database, and with its guarantees tested against a real server.
//!
//! | pattern | feature | what it does |
//! |---|---|---|
//! | [`bucket`] | `bucket` | the history of a key in pages, one document a page |
//! | [`outlier`] | `outlier` | an array up to a threshold, the rest of the few long ones in a second collection |
//! | [`subset`] | `subset` | the first few of a document's children in it, all of them in a second collection |
//! | [`embedded`] | `embedded` | the few children of a parent, in its own document |
//!
//! The [`guide`] leads from questions about your data to one of them, or to none. All features are on by default.
//!
//! # First use
//!
//! Every pattern has the same shape. A builder over the driver's collections names the fields, `ensure_indexes` is called
//! once at the start of the service, and the repository is cloned to wherever it is needed. Every call is an action in
//! the driver's own style: a builder of options that is awaited, and that runs in a session of yours when you give it one.
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
//! let newest = trades.pages(&123).newest_first().await?; // and a token for the next page
//! # Ok(())
//! # }
//! ```
//!
//! An **outlier**, such as the one book that a thousand customers bought:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::Document};
//! # use serde::{Deserialize, Serialize};
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
//! let pushed: Pushed = books.push(2, &"user00".to_owned()).await?; // inline, or overflow
//! let book = books.get(2).await?; // up to fifty customers, and whether there are more
//! # Ok(())
//! # }
//! ```
//!
//! A **subset**, the ten newest reviews in their product:
//!
//! ```no_run
//! # use mongo_patterns::mongodb::{Database, bson::{DateTime, Document}};
//! # use serde::{Deserialize, Serialize};
//! use mongo_patterns::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Review { review_id: i32, product_id: i32, review_text: String, published_date: DateTime }
//!
//! # async fn f(database: Database, review: Review) -> mongo_patterns::Result<()> {
//! let (product, reviews) = (database.collection::<Document>("product"), database.collection::<Document>("review"));
//! let products = SubsetRepository::<Document, Review>::builder(product, reviews)
//!     .subset_field("reviews")
//!     .parent_field("product_id")
//!     .child_id_field("review_id")
//!     .order_by("published_date", Direction::Descending)
//!     .subset_size(10)
//!     .build()?;
//! products.ensure_indexes().await?;
//!
//! products.insert(&review).await?;
//! let product = products.get(1).await?; // with the ten newest
//! let more = products.children(1).limit(50).await?; // and a token for the next fifty
//! # Ok(())
//! # }
//! ```
//!
//! **Embedded** addresses, at most twenty a patron:
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
//! patrons.add_child("joe", &home).await?; // or an error that says `LimitReached`
//! patrons.update_child("joe", "home", doc! { "zip": "54321" }).await?;
//! let joe = patrons.get("joe").await?; // with all addresses
//! # Ok(())
//! # }
//! ```
//!
//! The documentation of each pattern has its guarantees, what each call costs, its indexes, and a cookbook. The example
//! `service` is a web service over all four.
//!
//! # Results
//!
//! All patterns answer in the same way:
//!
//! - What is added by an id that recognises it is no error when it is stored already: the result says so, by
//!   `already_there` or `AlreadyThere`. A new document, or a child with an id of its own, is
//!   [`AlreadyExists`](ErrorKind::AlreadyExists) then, and what is stored stays as it is.
//! - What is removed or deleted may be gone already: the result's `found` says whether it was there. Only when the document
//!   that it would be in does not exist, this is [`NotFound`](ErrorKind::NotFound).
//! - What is replaced or changed must be there, else it is [`NotFound`](ErrorKind::NotFound), or
//!   [`ChildNotFound`](ErrorKind::ChildNotFound) when the parent is there and has no such child. The result's `modified`
//!   says whether anything is other than before.
//! - What is read may be absent: `None`, or nothing in it.
//! - Numbers are `u64`, named after what they count. `id` is the `_id` of what the call is about, and `document_id` that of
//!   a document at fault.
//!
//! Documents are inserted and deleted; what is in an array is appended, pushed or added, and removed.
//!
//! # Errors and retries
//!
//! All patterns share the [`Error`]. Its [`kind`](Error::kind) is for a program to act on, its text says what to do, and
//! neither its text nor its sources hold user values. What to do with one:
//!
//! - [`is_invalid_input`](Error::is_invalid_input): correct the input. Nothing was stored.
//! - [`is_transient`](Error::is_transient): make the same call again, later. Nothing was stored.
//! - [`is_outcome_unknown`](Error::is_outcome_unknown): something may be stored. Give what you store an id, as each pattern
//!   allows, and make the same call again: what is stored already is recognised.
//! - [`is_setup_error`](Error::is_setup_error), [`is_corrupt`](Error::is_corrupt): a matter for whoever runs the service.
//!
//! [`ErrorKind`] says of each kind which of these it is.
//!
//! # Cancel safety
//!
//! The future of every call can be dropped at any point, by a timeout or `select!`. It leaves no transaction open and no
//! key locked. Each call documents what it may have done, and [core](mongo_patterns_core::action#cancel-safety) what holds
//! for all of them, also in a transaction of yours.
//!
//! # The driver
//!
//! It is re-exported as [`mongodb`], its BSON as `mongodb::bson`. TLS, authentication and the rest of the connection are the
//! driver's: you pass a [`Collection`](mongodb::Collection). [Keys](key) of buckets are integers, strings, ObjectIds and
//! UUIDs, and types of yours that are stored as one of them ([`AsKey`]); all other ids are whatever BSON has ([`IntoId`]).
//!
//! A service that drops many futures, by short timeouts under load, should set `max_connecting` and `max_pool_size` of
//! the driver's `ClientOptions` to at least the number of its concurrent calls. The driver (3.9) leaves the request of a
//! dropped future in the queue of its connection pool, and skips one such request per event of the pool: where a client is
//! idle otherwise, one in 500 ms. With the defaults of 2 and 10, a burst of dropped futures can delay the next command, or
//! the abort of a dropped call's transaction, by many seconds.
//!
//! # Observability
//!
//! Every call is a `tracing` span `mongo_patterns` at debug level, with the fields `pattern`, `operation`, `namespace`
//! and `attempts`. Neither spans nor the texts of errors ever hold keys or items.

#[cfg(feature = "bucket")]
pub use mongo_patterns_bucket as bucket;
pub use mongo_patterns_core::{
    AsKey, Error, ErrorKind, IntoId, Key, PlannedCommand, Progress, Result, RetryPolicy, index, key,
};
#[cfg(feature = "embedded")]
pub use mongo_patterns_embedded as embedded;
#[cfg(feature = "outlier")]
pub use mongo_patterns_outlier as outlier;
#[cfg(feature = "subset")]
pub use mongo_patterns_subset as subset;
pub use mongodb;

pub mod guide;
pub mod prelude;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
