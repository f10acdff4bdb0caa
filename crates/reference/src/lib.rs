//! Copies of fields of referenced MongoDB documents as a typed repository: the extended reference pattern.
//!
//! The pattern comes from MongoDB's manual ("Extended Reference", "Enforce Data Consistency"). An order refers to its
//! customer, and has a copy of the fields that are read with it:
//!
//! ```text
//! customers: { _id: 456, name: "Ann", address: { city: "Dublin" }, phone: .., v: 3 }
//! orders:    { _id: 1, total: 42.5, customer: { _id: 456, name: "Ann", address: { city: "Dublin" }, v: 3 } }
//! ```
//!
//! One read shows the order with its customer. The manual's recipe for a rename is an `updateOne` of the customer, and then
//! an `updateMany` of the orders. If two renames meet, or a rename and a new order, copies stay outdated for good, also if
//! each is a transaction. This crate stores the same documents, with a version, without these faults.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::reference::{OnReferences, ReferenceRepository, Repository};
//! use mongo_patterns::mongodb::bson::{Document, doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Customer { _id: i32, name: String, phone: String }
//!
//! #[derive(Serialize, Deserialize)]
//! struct CustomerCopy { _id: i32, #[serde(default)] name: String } // filled in by the repository
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order { _id: i32, total: f64, customer: CustomerCopy }
//!
//! # async fn f(database: mongo_patterns::mongodb::Database, order: Order) -> mongo_patterns::Result<()> {
//! let orders = database.collection::<Document>("orders");
//! let customers = database.collection::<Document>("customers");
//! let orders = ReferenceRepository::<Order, Customer>::builder(orders, customers)
//!     .reference_field("customer")
//!     .copied_fields(["name"])
//!     .build()?;
//! orders.ensure_indexes().await?; // once, at the start of the service
//!
//! let ann = Customer { _id: 456, name: "Ann".into(), phone: "1".into() };
//! orders.sources_collection().insert_one(ann).await?; // the driver's insert
//! orders.insert(&order).await?; // with the name of its customer
//! orders.update_source(456, doc! { "$set": { "name": "Anna" } }).await?; // in the customer and in all of her orders
//! let order = orders.get(1).await?;
//! orders.set_reference(1, 457).await?;
//! orders.delete_source(456).on_references(OnReferences::Restrict).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - The copied fields change all the time, such as a balance: read the source, by a second read or a `$lookup`.
//! - Sources have millions of copies, and change often: each update writes all of them.
//! - The document is always read without its source: store the id alone.
//!
//! # How it works
//!
//! A source and each copy have a version, the field `v`. A source without it has the version 0.
//!
//! - [`update_source`](ReferenceRepository::update_source) updates the source and increments its version by one
//!   `findAndModify`. Then it updates all copies with a lower version. A copy never goes back.
//! - [`insert`](ReferenceRepository::insert) reads the source, inserts the document, and reads the source again. If it was
//!   updated in between, it updates its own copy. If it was deleted, it withdraws the document.
//! - [`delete_source`](ReferenceRepository::delete_source) marks the source, looks for references, and deletes it while it
//!   has the mark. A new reference removes the mark.
//!
//! # Stored documents
//!
//! A field can be an [array](ReferenceRepositoryBuilder::array) of references, `products: [{ _id, name, v, quantity }]`,
//! with one element for each source. Its elements keep their own fields. A document can have [several reference
//! fields](ReferenceRepositoryBuilder::add_reference), [several collections](ReferenceRepositoryBuilder::add_referring) can
//! refer to one source, and a field can have [another name](ReferenceRepositoryBuilder::copied_field) in the copy.
//! [Snapshots](ReferenceRepositoryBuilder::snapshot), such as the price that was paid, do not follow their source. Documents
//! can name their sources by another unique field, [the source key](ReferenceRepositoryBuilder::source_key).
//!
//! A field that the source does not have is removed from the copies. A copied path through an array has no value.
//!
//! A copy whose source was deleted by [`KeepCopy`](OnReferences::KeepCopy) has `deleted: true`.
//!
//! # Guarantees
//!
//! With any number of writers, in any number of processes that write through repositories with the same references:
//!
//! - When all calls have returned, every copy has the current data of its source, except snapshots.
// proof: reference::concurrent::sixty_four_writers_leave_no_stale_copy, reference::several::a_snapshot_stays_and_still_counts_as_a_reference
//! - A copy never goes back to an older version.
// proof: reference::concurrent::readers_see_no_copy_go_back
//! - When all calls have returned, every reference has its source, unless it was deleted with
//!   [`KeepCopy`](OnReferences::KeepCopy). [`delete_source`](ReferenceRepository::delete_source) has an exception for
//!   transactions of the caller.
// proof: reference::concurrent::deletions_leave_no_dangling_reference
//! - After a process died between two commands, [`verify`](ReferenceRepository::verify) finds the outdated copies, and
//!   [`repair`](ReferenceRepository::repair) or a [follower](ReferenceRepository::follow) corrects them.
// proof: reference::interrupted::a_rename_that_died_before_its_sweep_is_completed, reference::interrupted::an_insert_that_died_before_its_second_read_is_corrected, reference::follow_commands::what_dead_processes_left_is_completed
//! - An update of many copies is not one transaction: another writer waits for one document, and not for the update.
// proof: reference::concurrent::a_sweep_of_40_000_copies_does_not_block_another_writer
//! - A reference of another form, such as a DBRef, is reported with its form. No call changes it.
// proof: reference::migrate_forms::errors_and_findings_name_the_form
//!
//! Not guaranteed: a read can see a copy that a running update has not reached yet.
//! [`max_staleness`](action::Get::max_staleness) bounds it. After a change of a source by another pattern's repository or
//! program, call [`refresh_copies`](ReferenceRepository::refresh_copies), or run a [follower](ReferenceRepository::follow).
//! [`repair`](ReferenceRepository::repair) finds the difference later.
//!
//! Repositories with other references to the same sources do not know of each other: pass all referring collections to each
//! of them.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`insert`](ReferenceRepository::insert) | 3; in a transaction 4 | the sources, twice |
//! | [`insert_many`](ReferenceRepository::insert_many) | 5, and 1 for each further 1000 sources | the sources, three times |
//! | [`find`](ReferenceRepository::find) | 1 for each batch | those of its index |
//! | [`get`](ReferenceRepository::get) | 1; with `max_staleness` 2 | 1, and the sources |
//! | [`set_reference`](ReferenceRepository::set_reference), [`add_reference_to`](ReferenceRepository::add_reference_to) | 3; in a transaction 4 | 1 each |
//! | [`clear_reference`](ReferenceRepository::clear_reference), [`remove_reference`](ReferenceRepository::remove_reference) | 1 | 1 |
//! | [`update_source`](ReferenceRepository::update_source) | 1, and 1 for each reference; 1 if no copied field can change | all copies of the source |
//! | [`refresh_copies`](ReferenceRepository::refresh_copies) | 1, and 3 for each reference | all copies of the source |
//! | [`delete_source`](ReferenceRepository::delete_source) | 2, and 1 for each reference; 1 less for the other rules; 1 more through another repository, and those of its deletion | 1 each; for the other rules all copies |
//! | [`verify`](ReferenceRepository::verify), [`repair`](ReferenceRepository::repair) | 2 for each 500 documents | all |
//! | [`follow`](ReferenceRepository::follow) | 2 for each batch of changes, 2 for each 500 changed documents, 2 for each reference of a changed source | those, and all copies of a changed source |
//! | [`migrate_from_references`](ReferenceRepository::migrate_from_references) | about 10, or 14 the first time, and 3 for each 1000 documents | all three times, and those to migrate twice more, with their sources three times |
//! | [`ensure_indexes`](ReferenceRepository::ensure_indexes) | 4, or 7 the first time | all, to create |
//!
//! The first update or deletion of a source checks the indexes, with one more for each collection.
//!
//! # Lanes
//!
//! Each document and each source has a lane: a queue of the calls that write it, with one write in flight.
//! [`insert`](ReferenceRepository::insert) and the calls that change a reference take the lane of their document.
//! [`update_source`](ReferenceRepository::update_source), [`refresh_copies`](ReferenceRepository::refresh_copies) and
//! [`delete_source`](ReferenceRepository::delete_source) take the lane of their source. So a document that another client
//! has locked occupies one connection, and calls for others do not wait.
//!
//! See also what is true of [all lanes](mongo_patterns_core::action#lanes).
//!
//! # Indexes
//!
//! Each reference has an index on the id of its copies, such as `{ "customer._id": 1 }`, which the manual's recipe needs
//! too. [`indexes`](ReferenceRepository::indexes) returns the definitions. Updates of copies name them in hints, so that the
//! server refuses them if one is missing. A [source key](ReferenceRepositoryBuilder::source_key) has a unique index in the
//! sources.
//!
//! # Sessions and transactions
//!
//! Pass the session of a transaction to each call. `?` works in the driver's callback, which runs again when writers
//! conflict:
//!
//! ```no_run
//! # use mongo_patterns::reference::ReferenceRepository;
//! # use mongo_patterns::mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, orders: ReferenceRepository<Document, Document>, stock: Collection<Document>)
//! # -> mongo_patterns::mongodb::error::Result<()> {
//! let (orders, stock) = (orders.clone(), stock.clone());
//! let mut session = client.start_session().await?;
//! session
//!     .start_transaction()
//!     .and_run2(async move |session| {
//!         orders.insert(&doc! { "_id": 1, "customer": { "_id": 456 } }).session(&mut *session).await?;
//!         stock.update_one(doc! { "_id": "pen" }, doc! { "$inc": { "quantity": -1 } }).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! In a transaction, an insert locks its sources, so that a concurrent update or deletion of a source conflicts with it.
//! [`update_source`](ReferenceRepository::update_source) and [`delete_source`](ReferenceRepository::delete_source) say what
//! a transaction around them cannot see.
//!
//! # Sharding
//!
//! [`ensure_sharded`](ReferenceRepository::ensure_sharded) shards all collections by `_id`. A call for one document or one
//! source reaches one shard, and updates of copies reach all. Sources with a [source
//! key](ReferenceRepositoryBuilder::source_key) stay on one shard.

pub mod action;
mod builder;
mod follow;
mod form;
mod migrate;
mod query;
mod read;
mod reference;
mod repair;
mod repository;
mod results;
mod settings;
mod write;

pub use builder::ReferenceRepositoryBuilder;
pub use mongo_patterns_core::follow::Followed;
pub use mongo_patterns_core::{Inserted, Progress, Repository};
pub use reference::Reference;
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::ReferenceRepository;
pub use results::{DeletedSource, Migrated, OnReferences, UpdatedSource};
