//! MongoDB's subset pattern as a typed repository: a collection of all children, and the first few embedded in their parent,
//! in an order of your choice.
//!
//! The pattern comes from MongoDB's manual, "Model One-to-Many Relationships with Embedded Documents". A product has
//! thousands of reviews, and its page shows the ten newest:
//!
//! ```text
//! product: { _id: 1, name: "Super Widget", reviews: [ { review_id: 786, review_author: "Kristina", .. }, .. nine more ],
//!            reviews_version: 4012 }
//! review:  { review_id: 786, product_id: 1, review_author: "Kristina", review_text: "..", published_date: .. }
//!          { review_id: 785, product_id: 1, .. }
//! ```
//!
//! One find of a small document returns the page, and a second one returns more reviews. The manual adds: "You must also
//! implement logic to ensure that the reviews in the product are always the ten most recent ones". This crate implements it.
//! The order, the subset size, the embedded fields and all names are settings. A subset size of 1 is a one-to-one
//! relationship.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::subset::{Repository, Subset, SubsetRepository};
//! use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Product {
//!     name: String,
//!     #[serde(default)]
//!     reviews: Vec<Embedded>,
//! }
//!
//! #[derive(Deserialize)]
//! struct Embedded {
//!     review_id: i32,
//!     review_text: String,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Review {
//!     review_id: i32,
//!     product_id: i32,
//!     review_text: String,
//!     published_date: DateTime,
//! }
//!
//! # async fn f(database: mongo_patterns::mongodb::Database, review: Review) -> mongo_patterns::Result<()> {
//! let (product, reviews) = (database.collection::<Document>("product"), database.collection::<Document>("review"));
//! let products = SubsetRepository::<Product, Review>::builder(product, reviews)
//!     .parent_field("product_id")
//!     .child_id_field("review_id")
//!     .subset(Subset::new("reviews").sort(doc! { "published_date": -1 }).size(10))
//!     .build()?;
//! products.ensure_indexes().await?; // once, at the start of the service
//!
//! products.insert(&review).await?;
//! products.update(1, 786, doc! { "$set": { "review_text": "Still amazing." } }).await?;
//! products.delete(1, 785).await?; // the eleventh review enters the subset
//! if let Some(product) = products.get(1).await? {
//!     // the ten newest reviews
//! }
//! let first = products.children(1).limit(50).page().await?; // all reviews, page by page
//! # Ok(())
//! # }
//! ```
//!
//! The application owns the parents: insert them by their [collection](SubsetRepository::collection), and change all of
//! their fields except the subset, its version, the total and the figures.
//!
//! # When not to use it
//!
//! - A parent always has few children: embed them all.
//! - The page shows the *first* children that were inserted, and rarely the others: use the outlier pattern.
//! - Children are written much more often than parents are read: each write of a child needs three more commands.
//!
//! # How it works
//!
//! One transaction writes the child and the parent. It computes the subset from the stored children, by the index of the
//! order, and never from a change. It also increments the version beside the subset (`reviews_version`; a missing one is 0).
//! So of two concurrent transactions for one parent, one conflicts and runs again. A transaction locks the parent first,
//! unless this repository has written that parent before without a conflict.
//!
//! Calls that change no child, such as [`refresh`](SubsetRepository::refresh), [`repair`](SubsetRepository::repair) and a
//! [follower](SubsetRepository::follow), read the version, then the first children, and write them if the version is still
//! the same. Otherwise they start again. A refresh that loses twice is done, because the second winner has read the same
//! children. With a total or figures, which the winners only add to, it starts again up to sixteen times.
//!
//! A replica set of one node is enough. On a standalone, which has no transactions, writes fail with
//! [`Unsupported`](mongo_patterns_core::ErrorKind::Unsupported), and nothing is stored.
//!
//! A parent can have [several subsets](SubsetRepositoryBuilder::subset), with their own orders, sizes, filters and fields:
//! the ten newest reviews, and the three best. One command updates all of them.
//!
//! The parent can also store the [number of all children](SubsetRepositoryBuilder::total_field), and
//! [figures](SubsetRepositoryBuilder#figures) of all children: sums, minima, maxima, and counts by value.
//!
//! # Guarantees
//!
//! With any number of writers, in any number of processes:
//!
//! - The subset of a parent is always the first of its children, field by field. Equal children are ordered by their id.
// proof: subset::concurrent::an_observer_of_transactional_writes_never_sees_a_stale_subset, subset::values::missing_mixed_and_equal_values_are_ordered
//! - A write that returns `Ok` is stored, to the write concern of the parents. A write that fails has no effect, unless its
//!   [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown). Every call is safe to retry, except an update
//!   that is not idempotent, such as `$inc`.
// proof: subset::concurrent::subsets_are_correct_when_64_writers_stop, faults::table::every_operation_with_a_fault_and_a_drop
//! - The ids of a parent's children are unique, by a unique index.
// proof: subset::duplicates::children_with_one_id_are_named_before_the_index_exists, subset::writes::a_refused_write_stores_nothing
//!
//! Not guaranteed:
//!
//! - A program that writes children without the repository leaves the subset stale until the next write by a repository, a
//!   [`refresh`](SubsetRepository::refresh), or a follower. So does a second repository over the same children with other
//!   parents or other subsets. Run a [follower](SubsetRepository::follow) with its own name for each.
//! - If a parent is deleted and inserted again with the same `_id`, a running refresh, repair or follower can store a subset
//!   of the old parent.
//!
//! # Following other programs
//!
//! An importer, a script or an older service writes children without the repository. A
//! [follower](SubsetRepository::follow) watches their changes in a change stream, and refreshes the parents.
//!
//! A subset is correct as soon as the follower has processed the last change of its children. The follower resumes after any
//! interruption, and runs concurrently with other followers and all writers: as a task of a service, or as a [periodic
//! job](action::Follow::run_until_current). It also refreshes parents that repositories have written: run it only where
//! other programs write.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`insert`](SubsetRepository::insert), [`update`](SubsetRepository::update), [`replace`](SubsetRepository::replace), [`delete`](SubsetRepository::delete) | 4 if no other process writes to the parent; at first 5 | 1 each, and the first children |
//! | ... with a [total](SubsetRepositoryBuilder::total_field) | 5 | the same |
//! | ... with [figures](SubsetRepositoryBuilder#figures) | 5; more if a sum must be computed from all children | the same, and one key for each minimum and maximum |
//! | ... with [several subsets](SubsetRepositoryBuilder::subset) | the same | 1 each, and the first children of each subset; with a filter, those before the last one that matches |
//! | [`insert_many`](SubsetRepository::insert_many) | 2, and 3 for each parent, or as above for a single one | the same for each parent |
//! | [`get`](SubsetRepository::get), [`child`](SubsetRepository::child) | 1 | 1 |
//! | [`find`](SubsetRepository::find) | 1 for each batch | those of its index |
//! | a page of [`children`](SubsetRepository::children) | 1 | those it returns, on any page, and at most 1 more |
//! | ... of [`children_of_subset`](SubsetRepository::children_of_subset) | 1 | the same; with a filter, also those between them |
//! | [`delete_parent`](SubsetRepository::delete_parent) | 3, and 1 more if the parent does not exist | all of its children |
//! | [`refresh`](SubsetRepository::refresh) | 3, and 1 more with a total or figures | 1, and the first children; with a total or figures as many keys as the parent has children |
//! | [`refresh_all`](SubsetRepository::refresh_all) | 2; 4 if other clients write stale parents concurrently | all parents, and their first children; three times if it checks again |
//! | [`verify`](SubsetRepository::verify) | 2, and 1 for each finding | all parents, their first children, and all children |
//! | [`repair`](SubsetRepository::repair) | those, and 3 for each stale parent | the same |
//! | [`follow`](SubsetRepository::follow) | 2 for each batch of changes, and 3 for each of its parents; 1 a second | those of `refresh` for each parent |
//! | [`migrate_from_embedded`](SubsetRepository::migrate_from_embedded) | about 18, and 4 for each chunk of 100,000 children | the parents three or four times, the embedded children, and twice those of `refresh_all` |
//! | [`migrate_existing`](SubsetRepository::migrate_existing), [`migrate_layout_from`](SubsetRepository::migrate_layout_from) | about 9, and 1 for each 10,000 parents | twice those of `refresh_all`; `migrate_existing` also the parent field of all children |
//! | [`ensure_indexes`](SubsetRepository::ensure_indexes) | 4, or 8 the first time | all, the first time |
//!
//! A write that meets a conflict with another process runs again, as often as the [retry
//! policy](SubsetRepositoryBuilder::retry) allows. The first write of a repository checks the indexes, with one more round
//! trip.
//!
//! # Lanes
//!
//! Each parent has a lane: a queue of the calls that write it or its children, with one transaction in flight. So
//! transactions of one process never conflict, and a parent that another client has locked occupies one connection. Calls
//! for other parents do not wait.
//!
//! An [`insert`](SubsetRepository::insert) that meets no other call has a transaction of its own, at once. Children that
//! wait are inserted by the next transaction together, up to 1000, and a refused child fails alone. Inserts in a session,
//! and all other writes, wait for their turn.
//!
//! See also what is true of [all lanes](mongo_patterns_core::action#lanes).
//!
//! # Indexes
//!
//! The children need two: one on the parent, the order and the child's id, and a unique one on the parent and the child's
//! id. Each further subset needs one for its order, and figures one for each field of the children.
//! [`indexes`](SubsetRepository::indexes) returns their definitions. Reads and writes name them in hints, so that the server
//! refuses them if one is missing.
//!
//! # Sessions and transactions
//!
//! Pass the session of a transaction to each call. Child and parent are then written in that transaction. `?` works in the
//! driver's callback. The driver runs it again when writers conflict, because errors keep their labels:
//!
//! ```no_run
//! # use mongo_patterns::subset::SubsetRepository;
//! # use mongo_patterns::mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, products: SubsetRepository<Document, Document>, audit: Collection<Document>)
//! # -> mongo_patterns::mongodb::error::Result<()> {
//! let (products, audit) = (products.clone(), audit.clone());
//! let mut session = client.start_session().await?;
//! session
//!     .start_transaction()
//!     .and_run2(async move |session| {
//!         products.delete(1, 786).session(&mut *session).await?;
//!         audit.insert_one(doc! { "deleted": 786 }).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! # fn is_send(_: impl Send) {}
//! # fn g(client: Client, products: SubsetRepository<Document, Document>, audit: Collection<Document>) {
//! # is_send(f(client, products, audit));
//! # }
//! ```
//!
//! The closure owns what it uses, so that the future [can be
//! spawned](mongo_patterns_core::action#sessions-and-transactions).
//!
//! # Migrations
//!
//! - All children are embedded: [`migrate_from_embedded`](SubsetRepository::migrate_from_embedded) copies them into their
//!   collection. Each parent keeps the first.
//! - Two collections without a subset, or with one that was maintained by hand:
//!   [`migrate_existing`](SubsetRepository::migrate_existing).
//! - Another order, size, or other embedded fields: [`migrate_layout_from`](SubsetRepository::migrate_layout_from).
//!
//! All run on the server, concurrently with writers of this crate, and resume after interruptions. None removes a child that
//! only a parent has. `plan()` returns every command that they would send.
//!
//! A parent that embeds children and has no version is *unmanaged*: no repository has written it. Its children may be stored
//! nowhere else, so its first write checks their collection, with up to four round trips. If a child is missing there, every
//! write to that parent or its children fails with [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated), and
//! [`repair`](SubsetRepository::repair) and [`refresh_all`](SubsetRepository::refresh_all) leave the parent unchanged:
//! migrate it. If a subset that was maintained by hand has leftovers, discard them with
//! [`refresh(..).discard_embedded()`](action::Refresh::discard_embedded).
//!
//! # Sharding
//!
//! [`ensure_sharded`](SubsetRepository::ensure_sharded) shards the parents by `_id` and the children by the parent field.
//! Every read and write has both by equality.

pub mod action;
mod builder;
mod follow;
mod form;
mod migrate;
mod query;
mod read;
mod repair;
mod repository;
mod results;
mod settings;
mod through;
mod write;

pub use builder::{Subset, SubsetRepositoryBuilder};
pub use form::token::ChildToken;
pub use mongo_patterns_core::follow::Followed;
pub use mongo_patterns_core::{Deleted, Progress, Repository};
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::SubsetRepository;
pub use results::{InsertedChild, InsertedMany, Migrated, Refreshed, RefreshedAll, UpdatedChild};
