//! MongoDB's outlier pattern as a typed repository: an array up to a threshold in each document, and further elements in a
//! second collection.
//!
//! The pattern comes from MongoDB's manual, "Group Data with the Outlier Pattern". Most books are bought by a few customers,
//! and one by a thousand. Up to fifty customers stay in the book. The others are in overflow documents, and a flag in the
//! book says so:
//!
//! ```text
//! sales:       { _id: 1, title: "Invisible Cities", customers_purchased: [ "user00", "user01", "user02" ] }
//!              { _id: 2, title: "The Wooden Amulet", customers_purchased: [ "user00", .. "user49" ], has_extras: true }
//! extra_sales: { book_id: 2, seq: 0, count: 500, customers_purchased_extra: [ "user50", .. "user549" ] }
//!              { book_id: 2, seq: 1, count: 450, customers_purchased_extra: [ "user550", .. "user999" ] }
//! ```
//!
//! The book is the **main document**, and `sales` and `extra_sales` are the two collections. A main document and its
//! overflow documents are a **list**. A list with overflow documents is an **outlier**. The field `seq` is the position of
//! an overflow document.
//!
//! A page that shows a hundred books reads a hundred small documents, whatever sells best. The names, the threshold and the
//! bound of an overflow document are settings. The manual keeps all overflow elements of a book in one document, up to 16
//! MiB. Here they are in bounded documents, in order. The repository reads documents of the manual's form, and
//! [`migrate_existing`](OutlierRepository::migrate_existing) migrates them.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::outlier::{OutlierRepository, Pushed, Repository};
//! use mongo_patterns::mongodb::bson::Document;
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
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
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
//! let pushed = books.push(2, "user00").await?;
//! assert_eq!(pushed, Pushed::Inline);
//! if let Some(book) = books.get(2).await? {
//!     // up to fifty customers; book.has_extras is true if there are more
//! }
//! let third_page: Vec<String> = books.elements(2).skip(40).limit(20).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - Most documents have long lists. Use buckets, or a document for each element.
//! - The page shows the newest or the best elements. Use the subset pattern. Here the array has the *first* elements.
//! - Elements are often changed, or searched by their own fields. Use a document for each element.
//!
//! # Guarantees
//!
//! With any number of concurrent writers, in any number of processes:
//!
//! - A push that returns has stored its element once, to the collections' write concern, and every later read has it. A push
//!   that fails has not stored it, unless its [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown).
// proof: outlier::push::sixty_four_writers_on_one_book_and_an_observer, outlier::mixed::sixty_four_writers_push_and_remove_their_own
//! - The array never exceeds the threshold, and an overflow document never exceeds its bound. Elements keep the order in
//!   which they were pushed.
// proof: outlier::push::a_batch_fills_the_array_and_whole_overflow_documents, outlier::push::sixty_four_writers_on_one_book_and_an_observer
//! - A document with overflow documents has the flag: it is set before there are overflow documents. A process that dies
//!   then leaves a flag without overflow documents, and never an element that no reader sees. A
//!   [`delete`](OutlierRepository::delete) of an outlier is atomic.
// proof: outlier::push::the_flag_is_set_before_there_are_overflow_documents, outlier::faults::a_client_killed_between_any_two_commands_loses_nothing
//! - Pushes never fill the gaps that removals leave in an outlier, so that no reader finds an element twice or not at all.
//!   [`refresh`](OutlierRepository::refresh) closes gaps, in a transaction.
// proof: outlier::known::a_push_to_a_known_outlier_does_not_fill_the_gaps_of_removals, outlier::refresh::gaps_of_removals_are_filled_in_order
//! - With [unique elements](OutlierRepositoryBuilder::unique_elements) a list has every element once, however many writers
//!   push it, and however often. An exception: after a push that overflows and fails before its last check, the list can
//!   have an element twice until the next refresh; `verify` finds it.
// proof: outlier::mixed::sixty_four_writers_push_and_remove_unique_elements, outlier::push::two_hundred_distinct_elements_by_four_tries_each_are_stored_once
//! - A document that violates these invariants, for example by another program, is reported as an error with its `_id`. It
//!   is never silently misread.
// proof: outlier::reads::an_unreadable_document_is_named, conformance::damages::each_kind_of_damage_is_found_and_nothing_else
//!
//! Not guaranteed: if a `refresh`, `migrate_existing` or `repair` moves elements of a list during a read, the read can find
//! some elements twice or not at all. In a transaction it does not. If another program deletes a main document or clears its
//! flag, and leaves its overflow documents, it hides later pushes of a process that [knows the outlier](#known-outliers):
//! [`verify`](OutlierRepository::verify) finds them.
//!
//! Transactions need a replica set, for which one node is enough, or a sharded cluster.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`push`](OutlierRepository::push) to a typical document | 1 | 1 |
//! | ... to a [known outlier](#known-outliers) | 1 | 1, however long the list |
//! | ... to another outlier | 3 | 1 each, however long the list |
//! | ... that waits in a [lane](#lanes) | those of one `push_many` for all that wait | 1 each |
//! | ... that opens an overflow document, once for `max_overflow_elements` elements | 4 more | 1 each |
//! | [`push_unique`](OutlierRepository::push_unique) | 1, or 2 to an overflow document of a known outlier, 3 to that of another one | 1 each |
//! | [`push_many`](OutlierRepository::push_many) | as `push`, and 4 for each 100 overflow documents or 16 MiB that it opens | 1 each |
//! | [`insert`](OutlierRepository::insert) | 1, or about 4 for an outlier | none |
//! | [`get`](OutlierRepository::get) | 1 | 1 |
//! | [`find`](OutlierRepository::find) | 1 for each batch | those of its index |
//! | [`get_full`](OutlierRepository::get_full), [`elements`](OutlierRepository::elements) | 1, or 2 for an outlier | all of the list |
//! | ... with [`skip`](action::Elements::skip) or [`limit`](action::Elements::limit) | 1 if the array has them, else 3 | all of the list; only those with requested elements are sent |
//! | [`contains`](OutlierRepository::contains) | 1, or 2 | all of the list, or 2 where elements are unique |
//! | [`count`](OutlierRepository::count) | 1, or 2 for an outlier | all of the list |
//! | [`remove`](OutlierRepository::remove) | 1, or 2 for an outlier, 5 if the list does not have the element | all of the list, or 3 where elements are unique |
//! | [`update_element`](OutlierRepository::update_element) | 1 in the array, 3 in an overflow document, 6 if an outlier does not have the element | 1, or those before the element |
//! | [`delete`](OutlierRepository::delete) | 1, or 3 for a known outlier, 4 for another one | all of the list |
//! | [`refresh`](OutlierRepository::refresh) | 3 if there is nothing to do, else about 10 | all of the list |
//! | [`verify`](OutlierRepository::verify), [`verify_document`](OutlierRepository::verify_document) | 1, and 4 for each list with findings | all of both collections, or of the list |
//! | [`migrate_existing`](OutlierRepository::migrate_existing), [`repair`](OutlierRepository::repair) | that, and a `refresh` for each list that needs it | all, and those lists again |
//! | [`ensure_indexes`](OutlierRepository::ensure_indexes) | 4, or 8 the first time | all, the first time |
//! | [`ensure_sharded`](OutlierRepository::ensure_sharded) | 5, or 17 the first time | as `ensure_indexes` |
//!
//! ## Known outliers
//!
//! A repository and its clones know up to 10,000 outliers, which they have inserted, or whose overflow documents they have
//! pushed to. A push to a known outlier does not touch the main document: it stores its element in the newest overflow
//! document. If there is none, because another process has deleted or refreshed the list, the push begins with the main
//! document, with one round trip more. In a session of the caller, every push begins with the main document.
//!
//! # Lanes
//!
//! Each list has a lane: a queue of the calls that write it, with one write in flight. So a list that is written often, or
//! that another client has locked, occupies one connection, and calls for other lists do not wait.
//!
//! A [`push`](OutlierRepository::push) that meets no other call is sent at once. Pushes that wait are sent together, up to
//! 1000 elements, and a refused element fails alone. Pushes in a session, [unique](OutlierRepository::push_unique) pushes,
//! and all other writes, wait for their turn. So does the part of [`verify`](OutlierRepository::verify) that reads a list
//! with findings again.
//!
//! See also what is true of [all lanes](mongo_patterns_core::action#lanes).
//!
//! # Indexes
//!
//! One besides `_id`, on the overflow documents: unique, on parent and position. It keeps positions apart, finds the newest
//! overflow document, and returns all in order. Pushes name it in a hint, so the server refuses them if it does not exist.
//! Unique elements need a second index. [`indexes`](OutlierRepository::indexes) returns the definitions.
//!
//! # Cookbook
//!
//! **Choose a threshold.** `mongo-patterns outlier analyze` of the command line reads the existing collection. It needs no
//! overflow documents and no index, and prints the distribution of the lengths, and the effect of a few thresholds.
//!
//! **Migrate an existing collection, or change the threshold or bound.** Build the repository with the new settings, call
//! [`migrate_existing`](OutlierRepository::migrate_existing), then [`ensure_indexes`](OutlierRepository::ensure_indexes).
//! Writers of this crate may continue concurrently.
//!
//! **After many removals.** [`refresh`](OutlierRepository::refresh) fills the array from the overflow documents, and
//! clears the flag if none are left.
//!
//! **A damaged collection, or one that other programs wrote.** [`verify`](OutlierRepository::verify) reports every problem,
//! with document ids, while others write. [`repair`](OutlierRepository::repair) repairs them, and never deletes an element
//! automatically. Try its dry run first.
//!
//! **Push together with other writes.** `?` works in the driver's callback. Errors keep their labels, so the driver retries
//! the transaction after write conflicts:
//!
//! ```no_run
//! # use mongo_patterns::outlier::OutlierRepository;
//! # use mongo_patterns::mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, books: OutlierRepository<Document, String>, orders: Collection<Document>)
//! # -> mongo_patterns::mongodb::error::Result<()> {
//! let (books, orders) = (books.clone(), orders.clone());
//! let mut session = client.start_session().await?;
//! session
//!     .start_transaction()
//!     .and_run2(async move |session| {
//!         books.push(2, "user00").session(&mut *session).await?;
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
//! The closure owns what it uses, so that the future [can be
//! spawned](mongo_patterns_core::action#sessions-and-transactions).
//!
//! # Sharding
//!
//! [`ensure_sharded`](OutlierRepository::ensure_sharded) shards the main documents by `_id` and the overflow documents by
//! the parent field. Every read and write has both by equality.

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
mod through;
mod write;

pub use builder::OutlierRepositoryBuilder;
pub use mongo_patterns_core::{Deleted, Inserted, Progress, Removed, Repository, Updated};
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::OutlierRepository;
pub use results::{Counts, Migrated, Pushed, PushedMany, Refreshed, StoredDocument};
