//! MongoDB's embedded one-to-many pattern as a typed repository: a parent with its children in one document.
//!
//! The pattern comes from MongoDB's manual, "Model One-to-Many Relationships with Embedded Documents". A patron and the
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
//! One find returns a patron with all addresses, and one command writes to an address. The names and the bound are yours.
//! The manual's documents only get an id for each address, by which it is updated and removed.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::embedded::EmbeddedRepository;
//! use mongo_patterns::mongodb::bson::{Document, doc};
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
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
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
//! patrons.update_child("joe", "home", doc! { "$set": { "zip": "54321" } }).await?;
//! let joe: Option<Patron> = patrons.get("joe").await?; // with all addresses
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - The children of a parent grow without a bound. If readers need only the newest, use the subset pattern. If few parents
//!   have very many children, use the outlier pattern. If the children are a history that is read page by page, use the
//!   bucket pattern.
//! - Children are mostly read or written without their parent, or found by several of their own fields: store one document
//!   for each.
//! - Many parents share a child.
//!
//! # Guarantees
//!
//! Safe for concurrent writers in any number of processes, on a replica set, a sharded cluster or a standalone:
//!
//! - A write that returns has taken effect once, to the collection's write concern. A write that fails has no effect, unless
//!   its [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown).
// proof: embedded::concurrent::concurrent_writers_of_the_same_parents_lose_nothing, embedded::calls::refused_writes_have_distinct_errors_and_no_effect
//! - A parent never has more children than its bound, and never two children with the same id. The command that writes
//!   checks both.
// proof: embedded::concurrent::sixty_four_writers_fill_parents_to_their_bound_without_duplicates, embedded::upsert::sixty_four_writers_upsert_without_duplicates_within_the_bound
//! - A write to a child changes that child and no other, at whatever index it is by then. It never loses or restores a child
//!   that another writer adds, removes or changes.
// proof: embedded::operators::every_operator_changes_one_child_and_nothing_else, embedded::operators::increments_of_sixty_four_tasks_add_up, embedded::grandchild::increments_of_sixty_four_tasks_add_up_while_children_move
//! - Five different errors tell why a write was refused: [`NotFound`] for the parent, [`ChildNotFound`],
//!   [`GrandchildNotFound`], [`AlreadyExists`] and [`LimitReached`].
// proof: embedded::calls::refused_writes_have_distinct_errors_and_no_effect, embedded::upsert::a_refused_upsert_has_its_reason_and_no_effect, embedded::grandchild::a_missing_element_differs_from_an_unchanged_one_and_from_a_missing_child
//! - A parent that is [migrated to a subset](#migrations) is never read or written as if it embedded all of its children.
// proof: subset::migrated_parents::calls_for_embedded_children_refuse_migrated_parents, conformance::migrations::two_forms::children::embedded_children_and_a_subset_have_writers_during_the_migration
//! - Ids are equal if their values are, also in a collection with a collation. They are never interpreted: `{ $gt: "" }` is
//!   an id like any other.
// proof: embedded::values::ids_that_are_equal_under_a_collation_lose_no_child, embedded::values::an_id_that_looks_like_an_operator_matches_nothing_else, conformance::values::fields_of_any_name_and_type_are_stored_literally, conformance::values::an_id_of_any_type_is_one_value, embedded::grandchild::an_id_that_looks_like_an_operator_matches_nothing_else
//!
//! Other programs can violate these invariants. With [`validators`](EmbeddedRepository::validators) the server refuses
//! their writes, and [`verify`](EmbeddedRepository::verify) finds what they damaged.
//!
//! The collection must have the simple collation, which is the default;
//! [`ensure_indexes`](EmbeddedRepository::ensure_indexes) checks it.
//!
//! [`NotFound`]: mongo_patterns_core::ErrorKind::NotFound
//! [`ChildNotFound`]: mongo_patterns_core::ErrorKind::ChildNotFound
//! [`GrandchildNotFound`]: mongo_patterns_core::ErrorKind::GrandchildNotFound
//! [`AlreadyExists`]: mongo_patterns_core::ErrorKind::AlreadyExists
//! [`LimitReached`]: mongo_patterns_core::ErrorKind::LimitReached
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`insert`](EmbeddedRepository::insert) | 1 | none |
//! | [`insert_many`](EmbeddedRepository::insert_many) | 1 for each 8 MB | none |
//! | [`find`](EmbeddedRepository::find) | 1 for each batch | those of its index |
//! | [`get`](EmbeddedRepository::get), [`child`](EmbeddedRepository::child) | 1 | 1 |
//! | [`add_child`](EmbeddedRepository::add_child), [`upsert_child`](EmbeddedRepository::upsert_child), [`replace_child`](EmbeddedRepository::replace_child), [`update_child`](EmbeddedRepository::update_child), [`update_grandchild`](EmbeddedRepository::update_grandchild), [`remove_child`](EmbeddedRepository::remove_child), [`reorder_children`](EmbeddedRepository::reorder_children) | 1 | 1 |
//! | the same, refused | 2: the write, and a read of the reason | 1 each |
//! | [`ensure_indexes`](EmbeddedRepository::ensure_indexes) | 3, or 4 the first time | none |
//! | [`ensure_sharded`](EmbeddedRepository::ensure_sharded) | 5, or 11 the first time | none |
//! | [`verify`](EmbeddedRepository::verify) | 1, and 1 for each further batch of findings | all |
//! | [`migrate_from_references`](EmbeddedRepository::migrate_from_references) | 7 or 8, and 2 for each 1000 parents | the parents five times, the children four times |
//! | [`orphans`](EmbeddedRepository::orphans) | 1, and 1 for each further batch of orphans | the children and their parents |
//!
//! In a collection with a collation, the calls for one child scan the collection if the `_id` of the parent is a text: they
//! compare by the simple collation, which the index of `_id` does not have then.
//!
//! The server reads and writes a parent as a whole, so choose a bound with which a parent has a few kilobytes.
//!
//! # Lanes
//!
//! Each parent has a lane: a queue of the calls that write it, with one write in flight. So a parent that is written often,
//! or that another client has locked, occupies one connection, and calls for other parents do not wait.
//! [`insert`](EmbeddedRepository::insert) has no lane.
//!
//! See also what is true of [all lanes](mongo_patterns_core::action#lanes).
//!
//! # Indexes
//!
//! None besides the index of `_id`. To find parents by a field of their children, create one of your own. On a sharded
//! cluster, call [`ensure_sharded`](EmbeddedRepository::ensure_sharded), which shards by `_id`.
//!
//! # Cookbook
//!
//! **Idempotent retries.** When the connection breaks during a write, its outcome is unknown. To upsert, replace, remove or
//! reorder children is idempotent, and so is an update by `$set` or `$unset`: retry it. To add a child is too:
//! `AlreadyExists` means that the first call added it.
//!
//! ```no_run
//! # use mongo_patterns::ErrorKind;
//! # use mongo_patterns::embedded::EmbeddedRepository;
//! # async fn f(patrons: EmbeddedRepository<(), i32>, home: i32) -> mongo_patterns::Result<()> {
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
//! **Attributes.** The manual's [attribute pattern](https://www.mongodb.com/docs/manual/data-modeling/design-patterns/group-data/attribute-pattern/)
//! stores fields that vary as pairs `{ k: "color", v: "blue" }` of a list. They are children whose id is `k`:
//!
//! ```no_run
//! # use mongo_patterns::embedded::EmbeddedRepository;
//! # use mongo_patterns::mongodb::bson::{Document, doc};
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let items = EmbeddedRepository::<Document, Document>::builder(database.collection::<Document>("items"))
//!     .children_field("attributes")
//!     .child_id_field("k")
//!     .build()?;
//! items.upsert_child(7, &doc! { "k": "color", "v": "blue" }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Another order.** Read the children, and list all their ids. If another writer changed the set in between, the error is
//! [`ChildSetMismatch`](mongo_patterns_core::ErrorKind::ChildSetMismatch): read them again.
//!
//! **A write in a transaction.** `?` works in the driver's callback. Errors keep their labels, so the driver runs the
//! transaction again after a write conflict:
//!
//! ```no_run
//! # use mongo_patterns::embedded::EmbeddedRepository;
//! # use mongo_patterns::mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, patrons: EmbeddedRepository<(), i32>, audit: Collection<Document>) -> mongo_patterns::mongodb::error::Result<()> {
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
//! The closure owns what it uses, so that the future [can be
//! spawned](mongo_patterns_core::action#sessions-and-transactions).
//!
//! **Protection from other programs.** Give its [`validators`](EmbeddedRepository::validators) to the server.
//!
//! # Migrations
//!
//! **From references.** Stop the writers, create an index on the reference in the children's collection, and call
//! [`migrate_from_references`](EmbeddedRepository::migrate_from_references). Documents that cannot be embedded are refused
//! before anything is written. Children of no parent are counted, and [listed](EmbeddedRepository::orphans).
//!
//! **To a subset.** `migrate_from_embedded` of the subset pattern sets a field of each parent, such as `addresses_version`
//! for `addresses`. Every call for a parent with this field returns
//! [`NewerVersion`](mongo_patterns_core::ErrorKind::NewerVersion). So calls of this repository may continue during the
//! migration: where one is refused, call the subset repository. A field of your own must not have this name.

pub mod action;
mod builder;
mod form;
mod migrate;
mod query;
mod repair;
mod repository;
mod results;
mod settings;
mod write;

pub use builder::EmbeddedRepositoryBuilder;
pub use mongo_patterns_core::{Inserted, Progress, Removed, Repository, Updated};
pub use repair::finding::{Finding, Problem};
pub use repository::EmbeddedRepository;
pub use results::{Migrated, Upserted};
