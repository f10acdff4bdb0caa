//! MongoDB's schema versioning pattern as a typed repository, and migrations of a database that run once.
//!
//! The pattern comes from MongoDB's manual, "Maintain Different Schema Versions". Documents of several versions are in one
//! collection, and a field says which version each of them has:
//!
//! ```text
//! { _id: 1, name: "Taylor", home: "209-555-7788", work: "503-555-0110" }
//!
//! { _id: 2, schemaVersion: 2, name: "Cameron", contactInfo: { cell: "903-555-1122", work: "670-555-7878" } }
//! ```
//!
//! A document without the field has version 1. A service reads both as the newest one, and converts old documents in the
//! background. [`migrations`] is the other half of the crate: steps that change a database once, by one instance of a
//! service.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::schema::SchemaRepository;
//! use mongo_patterns::mongodb::bson::{Document, doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct ContactV1 {
//!     name: String,
//!     home: Option<String>,
//!     work: Option<String>,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Contact {
//!     name: String,
//!     #[serde(rename = "contactInfo")]
//!     info: ContactInfo,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! struct ContactInfo {
//!     home: Option<String>,
//!     work: Option<String>,
//! }
//!
//! impl From<ContactV1> for Contact {
//!     fn from(old: ContactV1) -> Self {
//!         Self { name: old.name, info: ContactInfo { home: old.home, work: old.work } }
//!     }
//! }
//!
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let contacts = SchemaRepository::<Contact>::builder(database.collection::<Document>("contacts"))
//!     .step(1, |old: ContactV1| Ok(Contact::from(old))) // from version 1 to 2
//!     .build()?;
//!
//! let taylor: Option<Contact> = contacts.get(1).await?; // of any version
//! contacts.update(1, doc! { "$set": { "contactInfo.cell": "+1 555" } }).await?; // converted first
//! contacts.migrate().rate(5_000).await?; // once the old release has ended
//! # Ok(())
//! # }
//! ```
//!
//! # Two releases to begin with
//!
//! A conversion is safe only if every *writer* names the version that it understands. In a rolling deployment, programs of
//! the old release write beside the new one. If the old release writes by `_id` alone, it writes the old fields into
//! converted documents, where no reader finds them. Measured, 193 of 400 acknowledged writes were lost in that way. So:
//!
//! 1. Release the repository **without a step**. Its writes have version 1 in their filter. Deploy it everywhere.
//! 2. Release it with the step. Where the first release meets a converted document, its write is refused by
//!    [`NewerVersion`], and the caller tries again at an instance of the second release.
//! 3. When the first release has ended, call [`migrate`](SchemaRepository::migrate). When
//!    [`versions`](SchemaRepository::versions) shows no older document, delete the step in a later release, and set
//!    [`newest`](SchemaRepositoryBuilder::newest).
//!
//! A further version needs the second and the third step only.
//!
//! # When not to use it
//!
//! - A field is added that old documents do not need: `#[serde(default)]` is enough.
//! - The program can stop for the time of an `updateMany`: a [step](migrations) that runs once is simpler.
//! - Programs that cannot use the repository write the collection: they must name the version in their filters too.
//!
//! # Guarantees
//!
//! Safe for concurrent writers in any number of processes and of releases that use the repository:
//!
//! - A write that returns has taken effect once, in the form of its release's version, to the collection's write concern. A
//!   write that fails has no effect, unless its [outcome is unknown](mongo_patterns_core::Error::is_outcome_unknown).
// proof: schema::releases::programs_of_two_releases_lose_nothing_while_one_of_them_migrates, schema::migrate::no_write_is_lost_beside_the_migration
//! - A document is never written by a release that does not know its version, and never decoded as another version.
// proof: schema::calls::a_document_that_the_program_does_not_understand_is_refused_and_stays
//! - A step is applied to a document once. A concurrent write is in the document before the step, or after it, or refused.
// proof: schema::migrate::a_write_between_the_read_and_the_replacement_is_kept, schema::migrate::no_write_is_lost_beside_the_migration
//! - A step keeps the `_id`, and the fields that its old type does not have, also in documents. If such a field has no place
//!   in the result, as in an element of an array, the document is refused.
// proof: schema::values::a_typed_step_keeps_the_fields_that_its_type_does_not_have, schema::calls::the_error_of_a_step_names_it_and_the_document
//! - A read writes nothing. A query that would miss documents that are not converted is refused.
// proof: schema::calls::an_older_document_is_converted_when_it_is_read_and_stays_stored, schema::find::a_query_that_would_miss_older_documents_is_refused
//! - [`find`](SchemaRepository::find) leaves out no document that its filter matches: a document that this release cannot
//!   read is an error, as in [`get`](SchemaRepository::get).
// proof: schema::find::a_document_that_get_refuses_is_an_error_of_find_too
//! - A migration can end at any point, and resumes when it is called again.
// proof: conformance::migrations::interrupted::a_migration_that_fails_or_is_dropped_at_a_command_resumes
//! - Ids and values are never interpreted.
// proof: schema::values::hostile_values_are_stored_and_converted_literally
//!
//! Not guaranteed: a query that reads while documents are converted can return one in both forms, or miss it, as any query
//! does whose documents move in its index. Read with a snapshot session for one point in time.
//!
//! Other programs can write without the version. [`verify`](SchemaRepository::verify) finds their fields.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`insert`](SchemaRepository::insert) | 1 | none |
//! | [`insert_many`](SchemaRepository::insert_many) | 1 for each 8 MB | none |
//! | [`get`](SchemaRepository::get) | 1; 2 for an older document with steps on the server | 1 |
//! | [`update`](SchemaRepository::update), [`replace`](SchemaRepository::replace), [`delete`](SchemaRepository::delete) | 1 | 1 |
//! | the same, refused | 2: the write, and a read of the reason | 1 each |
//! | [`update`](SchemaRepository::update) of an older document | 4 with steps on the server, 6 with typed steps | 1 each |
//! | [`find`](SchemaRepository::find) | 1, and 1 if an older version has no filter | those of its indexes |
//! | [`versions`](SchemaRepository::versions) | 1 | none, and all keys of one index |
//! | [`migrate`](SchemaRepository::migrate) | 3, and for each chunk of 500 1, or 4 with typed steps | the older ones, twice |
//! | [`verify`](SchemaRepository::verify) | 1, and 1 for each 1000 documents | all |
//!
//! # Steps
//!
//! | | [`step`](SchemaRepositoryBuilder::step) | [`pipeline_step`](SchemaRepositoryBuilder::pipeline_step) |
//! |---|---|---|
//! | is | a function from the old type to the new one | stages of an update, on the server |
//! | needs | a replica set or a sharded cluster | nothing |
//! | a chunk of a migration is converted | as a whole, in a transaction | one document after another |
//!
//! Steps of both kinds can follow each other. In a transaction of the caller a document is converted in that transaction.
//!
//! [`NewerVersion`]: mongo_patterns_core::ErrorKind::NewerVersion

pub mod action;
mod builder;
mod convert;
mod finding;
mod form;
pub mod migrations;
mod query;
mod repository;
mod results;
mod settings;
mod steps;
mod versioned;
mod write;

pub use builder::SchemaRepositoryBuilder;
pub use finding::{Finding, Problem};
pub use migrations::Migrations;
pub use mongo_patterns_core::{Deleted, Inserted, Progress, Repository, Updated};
pub use repository::SchemaRepository;
pub use results::{Migrated, VersionCount};
pub use versioned::{HasVersions, Versioned, Versions, VersionsBuilder};
