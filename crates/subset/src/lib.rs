//! MongoDB's subset pattern as a typed repository: all children in a collection of their own, and the first few of them,
//! in an order of yours, in their parent.
//!
//! The pattern is that of MongoDB's manual, "Model One-to-Many Relationships with Embedded Documents", its second half.
//! A product has thousands of reviews, and its page shows the ten newest:
//!
//! ```text
//! product: { _id: 1, name: "Super Widget", reviews: [ { review_id: 786, review_author: "Kristina", .. }, .. nine more ],
//!            reviews_version: 4012 }
//! review:  { review_id: 786, product_id: 1, review_author: "Kristina", review_text: "..", published_date: .. }
//!          { review_id: 785, product_id: 1, .. }
//! ```
//!
//! The page is one find of a small document, and more reviews are a second one. "You must also implement logic", says
//! the manual, "to ensure that the reviews in the product are always the ten most recent ones". This is it. The order, the
//! number, the fields that are embedded and all names are yours: best-rated comments and the biggest roles of a cast are
//! subsets, too, and so is a one-to-one relationship, with a size of 1.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns_subset::{Direction, SubsetRepository};
//! use mongodb::bson::{DateTime, Document, doc};
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
//! # async fn f(database: mongodb::Database, review: Review) -> mongo_patterns_core::Result<()> {
//! let (product, reviews) = (database.collection::<Document>("product"), database.collection::<Document>("review"));
//! let products = SubsetRepository::<Product, Review>::builder(product, reviews)
//!     .subset_field("reviews")
//!     .parent_field("product_id")
//!     .child_id_field("review_id")
//!     .order_by("published_date", Direction::Descending)
//!     .subset_size(10)
//!     .build()?;
//! products.ensure_indexes().await?; // once, at the start of the service
//!
//! products.insert(&review).await?;
//! products.update(1, 786, doc! { "review_text": "Still amazing." }).await?;
//! products.delete(1, 785).await?; // the eleventh review comes back
//! if let Some(product) = products.get(1).await? {
//!     // the ten newest reviews
//! }
//! let first = products.children(1).limit(50).await?; // any of them, page by page
//! # Ok(())
//! # }
//! ```
//!
//! Parents are yours: insert them by their [collection](SubsetRepository::collection), with or without an empty subset,
//! and change all of their fields but the subset and its version.
//!
//! # When not to use it
//!
//! - A parent has few children, and always will: embed them all.
//! - The page shows the *first* that came, and the others hardly ever: that is the outlier pattern.
//! - Children are written much more often than parents are read: each write of one that is shown costs two or three
//!   commands more than its own.
//!
//! # How it is kept right
//!
//! A subset is always made from the children that are stored, and never from what a writer believes to have changed. Next
//! to it stands its version, which every write of the subset counts up (`reviews_version`; a missing one is 0). A refresh
//!
//! 1. finds the parent's version,
//! 2. finds the first children, by the index of the order,
//! 3. writes them, if the version is still the same, and counts it up. If it is not, it begins again.
//!
//! As the version is read before the children, what a refresh writes is never older than what it overwrites. A writer
//! that lost twice since it wrote its child need not try a third time: the second refresh that won began after the first
//! had ended, so it has read that child. So there are three attempts at most, and no waits.
//!
//! With [`Consistency::Eventual`] a writer finds the parent, writes the child, and refreshes. A repository that wrote to a
//! parent twice with nobody else in between knows its version, and inserts without the first find: if the version is still
//! that one when the parent is written, it was so when the children were read. An update or a delete always
//! writes the parent, also where it finds nothing to change: two changes that undo each other would otherwise let a
//! slower refresh bring back what was in between. Only a *new* child that is not among the first may leave a right parent
//! as it is: it comes up by another write alone, which will see it.
//!
//! With [`Consistency::Transactional`] all is one transaction, and begins by counting the version. That write is what
//! makes two transactions on a parent conflict: to write an equal subset would be no write to the server. Both
//! consistencies may write to the same collections at the same time. In a transaction of the caller's the second form is
//! always used, since nobody else sees what is written there before it ends.
//!
//! The number of all children can stand beside the subset, as its
//! [total](SubsetRepositoryBuilder::total_field): a transaction adds to it, and a refresh counts the children, by the
//! index alone, and writes their number with the subset.
//!
//! Writes of one process to one parent wait for each other, as they would only lose against each other.
//!
//! # Guarantees
//!
//! With any number of writers, in any number of processes:
//!
//! - When the writes to a parent have returned, its subset is the first of its children, field by field. With
//!   [`Transactional`](Consistency::Transactional) writes it is so at every moment. Equal children are ordered by their
//!   id.
//! - A write that returns is stored, to the collections' write concern. One that fails has changed nothing, unless the
//!   error says that its [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown), or how many children are
//!   [stored](mongo_patterns_core::Error::stored_count). Every call may be repeated then: an insert says
//!   [`AlreadyExists`](mongo_patterns_core::ErrorKind::AlreadyExists) where the child is stored, and all of them leave the
//!   parent right.
//! - A child's id is once in its parent, by a unique index.
//! - An [`Eventual`](Consistency::Eventual) write that breaks off between child and parent leaves a subset of before. So
//!   does a failover that takes back a child which was not yet on most members. The next write to that parent mends it,
//!   whichever it is; [`verify`](SubsetRepository::verify) finds it, and [`repair`](SubsetRepository::repair) mends it.
//!
//! What is *not* promised: a program that writes children past the repository leaves the subset as it is, until the next
//! write by one, [`rebuild`](SubsetRepository::rebuild), or a follower. A second repository over the same children is such
//! a program, if its parents, its subset field, its order, its size or its embedded fields are other ones: each updates its
//! own subset and no other. Where one collection of children has two subsets, run a
//! [follower](SubsetRepository::follow) for each of them, under names of their own, or call `rebuild` of the other one
//! after each write. Where a parent is deleted and inserted again with the same `_id`, a write that is under way can bring
//! a subset of before, and so can, where its version gets to be the same as then, an insert by a process that wrote to the
//! old one.
//!
//! # Following other programs
//!
//! An importer, a script or an older service writes the children and knows nothing of subsets. A
//! [follower](SubsetRepository::follow) sees their changes in a change stream, and refreshes the parents:
//!
//! ```no_run
//! # use mongo_patterns_subset::SubsetRepository;
//! # async fn f(products: SubsetRepository<i32, i32>, shutdown: tokio::sync::oneshot::Receiver<()>)
//! # -> mongo_patterns_core::Result<()> {
//! let follow = products.follow("reviews").enable_pre_images();
//! let followed = follow.until(async { drop(shutdown.await) }).await?; // in a task of its own
//! println!("{} changes, {} refreshes", followed.changes, followed.refreshed);
//! # Ok(())
//! # }
//! ```
//!
//! A subset is right as soon as the follower has come to the last change of its children; how far it is,
//! [`on_progress`](action::Follow::on_progress) tells. The place is stored only after the parents of a batch are
//! refreshed, so a follower that is killed, or off for days, goes on where it was. A refresh by it is as any other, so
//! several followers and all writers may run beside each other. It needs MongoDB 6.0 and a replica set, and pre-images of
//! the children, by which it knows whose child was deleted or moved. With
//! [`run_until_current`](action::Follow::run_until_current) it is a job that runs now and then.
//!
//! It costs a refresh for what repositories write, too, which have refreshed the parent already: have one where other
//! programs write, and none where they do not.
//!
//! # Cost
//!
//! | call | round trips | in a transaction | documents examined |
//! |---|---|---|---|
//! | [`insert`](SubsetRepository::insert) | 3, where others do not write to the parent; at first 4, or 3 for one that is not among the first | 5 | 1 each, and the first children |
//! | [`update`](SubsetRepository::update), [`replace`](SubsetRepository::replace), [`delete`](SubsetRepository::delete) | 4 | 5 | the same |
//! | ... where other processes write to the parent | up to 7 more | again | the same each time |
//! | ... with a [total](SubsetRepositoryBuilder::total_field) | 1 more each time, and a new child always writes its parent | the same | as many keys as the parent has children; in a transaction none |
//! | [`insert_many`](SubsetRepository::insert_many) | 1, and 3 a parent, or 2 as above where there is one | 2, and 3 a parent | the same a parent |
//! | [`get`](SubsetRepository::get), [`child`](SubsetRepository::child) | 1 | 1 | 1 |
//! | [`children`](SubsetRepository::children) | 1 | 1 | those it returns, on any page, and at most 1 more |
//! | [`delete_parent`](SubsetRepository::delete_parent) | 3, or 2 without children, and 1 more where there is no such parent | 3 | all of its children |
//! | [`rebuild`](SubsetRepository::rebuild) | 3 | 3 | 1, and the first children |
//! | [`rebuild_all`](SubsetRepository::rebuild_all) | 2 | | all parents, and their first children, twice |
//! | [`verify`](SubsetRepository::verify) | 2, and 1 for each finding | | all parents, their first children, and all children |
//! | [`repair`](SubsetRepository::repair) | those, and 3 for each stale parent | | the same |
//! | [`follow`](SubsetRepository::follow) | 2 a batch of changes, and 3 a parent in it; 1 a second | | the same as `rebuild` a parent |
//! | [`migrate_from_embedded`](SubsetRepository::migrate_from_embedded) | about 15, and 3 for each chunk of 100,000 children | | the parents three or four times, what is embedded, and those of `rebuild_all` |
//! | [`migrate_existing`](SubsetRepository::migrate_existing), [`migrate_layout_from`](SubsetRepository::migrate_layout_from) | about 7, and 1 for each 10,000 parents | | those of `rebuild_all`; `migrate_existing` also the parent field of all children |
//! | [`ensure_indexes`](SubsetRepository::ensure_indexes) | 2, or 3 when it creates | | all children, when it creates |
//!
//! The first write of a repository has one round trip more, which checks the indexes, and another one, which asks what the
//! deployment is, where the [consistency](SubsetRepositoryBuilder::consistency) was not chosen.
//!
//! # Indexes
//!
//! Two on the children: one on the parent, the order and the child's id, which gives the first children and every page
//! without a sort, and a unique one on the parent and the child's id. [`indexes`](SubsetRepository::indexes) gives their
//! definitions. Reads and writes name them in hints, so that they are refused where one is missing.
//!
//! # In a transaction of yours
//!
//! Pass its session to each call. `?` works in the driver's callback, and the driver runs it again when writers conflict,
//! because errors keep their labels:
//!
//! ```no_run
//! # use mongo_patterns_subset::SubsetRepository;
//! # use mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, products: SubsetRepository<Document, Document>, audit: Collection<Document>)
//! # -> mongodb::error::Result<()> {
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
//! The closure owns what it uses (`async move`, of clones), so that the future is `Send` and can be spawned. A closure
//! that borrows makes it fail to compile there, with "implementation of `Send` is not general enough".
//!
//! Dropping the future of a call aborts the whole transaction, and the session is of no further use: see
//! [cancel safety](mongo_patterns_core::action#cancel-safety).
//!
//! # Moving over
//!
//! - All children are embedded: [`migrate_from_embedded`](SubsetRepository::migrate_from_embedded) copies them into their
//!   collection, and lets each parent keep the first ones.
//! - Two collections without a subset, or with one that was kept by hand: [`migrate_existing`](SubsetRepository::migrate_existing).
//! - Another order, size, or other embedded fields: [`migrate_layout_from`](SubsetRepository::migrate_layout_from).
//!
//! All work on the server, while writers of this crate go on, and are called again where they were interrupted. `plan()`
//! lists every command that they would send.
//!
//! A parent with children and without a version was not written by a repository. What is embedded there may be nowhere
//! else, so its first write looks whether all of it is in the collection, which costs up to four round trips. Where it is
//! not, every write to that parent or its children is [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated), with
//! nothing stored, and [`repair`](SubsetRepository::repair) and [`rebuild_all`](SubsetRepository::rebuild_all) leave the
//! parent as it is: move it. Where a subset that was kept by hand has leftovers, give them up with
//! [`rebuild(..).discard_embedded()`](action::Rebuild::discard_embedded).
//!
//! # Sharding
//!
//! Shard the parents by `_id` and the children by the parent field. Every read and write has both by equality.

pub mod action;
mod builder;
mod follow;
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

pub use builder::SubsetRepositoryBuilder;
pub use form::token::ChildToken;
pub use mongo_patterns_core::{Progress, Removed};
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::SubsetRepository;
pub use results::{
    ChildPage, DeletedParent, Followed, Inserted, InsertedMany, Migrated, MigratedExisting, MigratedLayout,
    MigrationPlan, Rebuilt, RebuiltAll, UpdatedChild,
};
pub use settings::{Consistency, Direction};
