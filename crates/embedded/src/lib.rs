//! MongoDB's embedded one-to-many pattern as a typed repository: a parent with its children in one document.
//!
//! The pattern is that of MongoDB's manual, "Model One-to-Many Relationships with Embedded Documents". A patron and the
//! addresses that refer to it,
//!
//! ```text
//! { _id: "joe", name: "Joe Bookreader" }
//!
//! { _id: 1, patron_id: "joe", street: "123 Fake Street", city: "Faketon", state: "MA", zip: "12345" }
//! { _id: 2, patron_id: "joe", street: "1 Some Other Street", city: "Boston", state: "MA", zip: "12345" }
//! ```
//!
//! become one document:
//!
//! ```text
//! { _id: "joe", name: "Joe Bookreader", addresses: [
//!     { _id: 1, street: "123 Fake Street", city: "Faketon", state: "MA", zip: "12345" },
//!     { _id: 2, street: "1 Some Other Street", city: "Boston", state: "MA", zip: "12345" } ] }
//! ```
//!
//! One find returns a patron with all addresses, and a write to an address is one to that document. The names and the
//! bound are yours. Only an id is new in the manual's addresses: by it single ones are changed and removed.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns_embedded::EmbeddedRepository;
//! use mongodb::bson::{Document, doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Address {
//!     id: String,
//!     street: String,
//!     zip: String,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Patron {
//!     #[serde(rename = "_id")]
//!     id: String,
//!     name: String,
//!     #[serde(default)]
//!     addresses: Vec<Address>,
//! }
//!
//! # async fn f(database: mongodb::Database) -> mongo_patterns_core::Result<()> {
//! let patrons = EmbeddedRepository::<Patron, Address>::builder(database.collection::<Document>("patron"))
//!     .children_field("addresses")
//!     .child_id_field("id")
//!     .max_children(20)
//!     .build()?;
//!
//! let joe = Patron { id: "joe".into(), name: "Joe Bookreader".into(), addresses: vec![] };
//! patrons.insert(&joe).await?;
//! let home = Address { id: "home".into(), street: "123 Fake Street".into(), zip: "12345".into() };
//! patrons.add_child("joe", &home).await?; // one round trip, from any number of writers
//! patrons.update_child("joe", "home", doc! { "zip": "54321" }).await?;
//! let joe: Option<Patron> = patrons.get("joe").await?; // with all addresses
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - Children that a parent gets ever more of: the bound ends it. Where only the newest are looked at, use the subset
//!   pattern, which keeps those with the parent and all in a collection of their own. Where few parents have very many,
//!   use the outlier pattern. Where all of them are a history that is read page by page, use the bucket pattern.
//! - Children that are mostly read or changed without their parent, or found by several of their own fields: keep one
//!   document each.
//! - Children that many parents share.
//!
//! # Guarantees
//!
//! With any number of writers, in any number of processes, on a replica set, a sharded cluster or a standalone:
//!
//! - A write that returns is done, once, to the collection's write concern. One that fails has changed nothing, unless the
//!   error says that its [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown).
//! - No call gives a parent more children than its bound, or two with the same id. The command that writes is the one
//!   that looks.
//! - A write to a child changes that child and no other, wherever in the array it is by then. No child that another
//!   writer adds, removes or changes at the same time is lost or comes back.
//! - "No such parent", "no such child", "there already" and "full" are four different errors:
//!   [`NotFound`](mongo_patterns_core::ErrorKind::NotFound), [`ChildNotFound`](mongo_patterns_core::ErrorKind::ChildNotFound),
//!   [`AlreadyExists`](mongo_patterns_core::ErrorKind::AlreadyExists) and [`LimitReached`](mongo_patterns_core::ErrorKind::LimitReached).
//! - Ids and values are values, whatever they look like: `{ $gt: "" }` is an id like any other.
//!
//! Other programs are not bound by this. [`validator`](EmbeddedRepository::validator) lets the server refuse what they
//! would break, and [`verify`](EmbeddedRepository::verify) finds what they broke.
//!
//! The collection must have the simple collation, which is the default; [`ensure_indexes`](EmbeddedRepository::ensure_indexes)
//! tells. Children with fields that start with `$` need MongoDB 5.0; an older server refuses them.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`insert`](EmbeddedRepository::insert) | 1 | none |
//! | [`get`](EmbeddedRepository::get), [`child`](EmbeddedRepository::child) | 1 | 1 |
//! | [`add_child`](EmbeddedRepository::add_child), [`replace_child`](EmbeddedRepository::replace_child), [`update_child`](EmbeddedRepository::update_child), [`remove_child`](EmbeddedRepository::remove_child), [`reorder_children`](EmbeddedRepository::reorder_children) | 1 | 1 |
//! | ... that are refused | 2: the write, and a look for the reason | 1, each |
//! | [`ensure_indexes`](EmbeddedRepository::ensure_indexes) | 2 | none |
//! | [`verify`](EmbeddedRepository::verify) | 1, and 1 for some thousands of findings | all |
//! | [`migrate_from_references`](EmbeddedRepository::migrate_from_references) | 6 or 7, and 2 for each 1000 parents | the parents four times, and the children three times |
//! | [`migrate_to_references`](EmbeddedRepository::migrate_to_references) | 9 to 11, and some for each 1000 parents or 100,000 children | the parents six times |
//! | [`orphans`](EmbeddedRepository::orphans) | 1, and 1 for some thousands of orphans | the children, and their parents |
//!
//! The server reads and writes a parent as a whole, so keep the bound where a parent stays a matter of some kilobytes.
//!
//! # Indexes
//!
//! None besides that of `_id`. To find parents by a field of their children, create one of your own. On a sharded
//! cluster, shard by `_id`: every call carries it.
//!
//! # Cookbook
//!
//! **A retry without fear.** When the connection breaks under a write, nobody knows whether it is done. Replacing,
//! changing, removing and reordering may simply be called again. Adding may be too: `AlreadyExists` says that the first
//! call did it.
//!
//! ```no_run
//! # use mongo_patterns_core::ErrorKind;
//! # use mongo_patterns_embedded::EmbeddedRepository;
//! # async fn f(patrons: EmbeddedRepository<(), i32>, home: i32) -> mongo_patterns_core::Result<()> {
//! let mut added = patrons.add_child("joe", &home).await;
//! while added.as_ref().is_err_and(|error| error.is_outcome_unknown()) {
//!     added = match patrons.add_child("joe", &home).await {
//!         Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
//!         added => added,
//!     };
//! }
//! # added
//! # }
//! ```
//!
//! **Another order.** Read the children, and name all their ids. When another writer was there in between, the answer is
//! [`ChildSetMismatch`](mongo_patterns_core::ErrorKind::ChildSetMismatch): read them again.
//!
//! **A write together with others.** `?` works in the driver's callback, and the driver runs it again when writers
//! conflict, because errors keep their labels:
//!
//! ```no_run
//! # use mongo_patterns_embedded::EmbeddedRepository;
//! # use mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, patrons: EmbeddedRepository<(), i32>, audit: Collection<Document>) -> mongodb::error::Result<()> {
//! let (patrons, audit) = (patrons.clone(), audit.clone());
//! let mut session = client.start_session().await?;
//! session
//!     .start_transaction()
//!     .and_run2(async move |session| {
//!         patrons.remove_child("joe", "home").session(&mut *session).await?;
//!         audit.insert_one(doc! { "removed": "home" }).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! # fn is_send(_: impl Send) {}
//! # fn g(client: Client, patrons: EmbeddedRepository<(), i32>, audit: Collection<Document>) {
//! # is_send(f(client, patrons, audit));
//! # }
//! ```
//!
//! The closure owns what it uses (`async move`, of clones), so that the future is `Send` and can be spawned. A closure
//! that borrows makes it fail to compile there, with "implementation of `Send` is not general enough".
//!
//! Dropping the future of a call aborts the whole transaction, and the session is of no further use: see
//! [cancel safety](mongo_patterns_core::action#cancel-safety).
//!
//! **From references.** Stop the writers, give the children's collection an index that starts with the reference, and
//! call [`migrate_from_references`](EmbeddedRepository::migrate_from_references). Only ids pass through the client, what
//! cannot be embedded is refused before anything is written, children of no parent are counted and
//! [listed](EmbeddedRepository::orphans), and when it is interrupted, run it again.
//! [`migrate_to_references`](EmbeddedRepository::migrate_to_references) is the way back.
//!
//! **A collection that no other program can break.** Give [`validator`](EmbeddedRepository::validator) to the server.

pub mod action;
mod builder;
mod document;
mod finding;
#[cfg(feature = "__fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod ids;
mod migrate;
mod query;
mod repository;
mod settings;
mod validator;
mod write;

pub use action::{Inserted, Orphan, Removed, Updated};
pub use builder::EmbeddedRepositoryBuilder;
pub use finding::{Finding, Problem};
pub use migrate::{Migrated, MigrationPlan};
pub use mongo_patterns_core::Progress;
pub use repository::EmbeddedRepository;
