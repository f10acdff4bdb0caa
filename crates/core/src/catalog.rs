//! The catalog: one collection in each database, with the settings of its managed collections.
//!
//! `ensure_indexes()` stores the settings of a repository in the collection [`mongo_patterns`](COLLECTION) of its
//! database, and refuses other settings afterwards. `verify()`, `repair()`, `follow()` and all migrations compare their
//! settings with it first, by one read. Plain reads and writes do not read it, but for those that replace or delete a document
//! ([once](#owners)).
//!
//! A call that rewrites or deletes stored documents needs an entry: a repair, a rebuild, and a migration within its
//! collections. `ensure_indexes()` stores one for existing documents only if they fit: a sample of them has the fields, no
//! index of other settings exists, and no document has a value of the application in a field that only the pattern writes.
//! Dry runs and plans of repairs need none.
//!
//! # Owners
//!
//! An entry also has what its repository owns: the fields that only it may write, such as the flag of a list, and its second
//! collection. `ensure_indexes()` and all other calls that read the catalog refuse a field or a second collection that another
//! entry owns, with `SettingsMismatch`, and name the call of the builder that chooses another one. Two patterns of which one
//! makes several documents of a thing and the other takes each document for one thing, such as intervals and embedded
//! children, are refused in one collection. Of two such repositories that call `ensure_indexes()` at the same time, at most one
//! succeeds.
//!
//! A call that replaces a document, or restores it, keeps what other entries own in it: the stored values of their fields stay,
//! whatever the new document has. The version of the schema pattern is different: that of the new document counts, and the stored one
//! stays if it has none. An update by operators that names such a field is refused. A call that deletes a document is refused where
//! documents of another repository depend on it, and names the call that deletes both.
//!
//! `ensure_indexes()` learns of the other entries by the read that it makes anyway. A repository without this call reads them once,
//! before its first call that needs them, and again after this process has stored another entry of the collection. Other processes know a
//! new repository after their restart: call its `ensure_indexes()`, and restart the programs that replace or delete these documents,
//! before it writes.
//!
//! The names of collections are compared within one catalog, so two databases can share a second collection in a third one
//! unnoticed. The entry of a repository that is no longer used can be deleted.
//!
//! # Stored form
//!
//! One document for each bucket collection, and for each array field that another pattern manages:
//!
//! ```json
//! {
//!   "_id": { "kind": "outlier", "collection": "sales", "field": "customers_purchased" },
//!   "settings": { "array": "customers_purchased", "threshold": 50, "extras_collection": "extra_sales" },
//!   "owns": [
//!     {
//!       "collection": "sales", "field": "_id", "shared": "parents",
//!       "dependents": { "call": "delete", "collection": "extra_sales" }
//!     },
//!     { "collection": "sales", "field": "customers_purchased" },
//!     { "collection": "sales", "field": "has_extras" },
//!     { "collection": "extra_sales" }
//!   ],
//!   "indexes": [{ "collection": "extra_sales", "name": "parent_1_seq_1" }],
//!   "verified": { "findings": { "$numberLong": "0" }, "at": { "$date": "2026-11-22T13:00:00Z" } },
//!   "format": 1,
//!   "library": "0.1.0",
//!   "created": { "$date": "2026-11-22T12:00:00Z" },
//!   "changed": { "$date": "2026-11-22T12:00:00Z" }
//! }
//! ```
//!
//! `settings` has all settings of the stored form; a missing one is `null`. `owns` has fields and second collections, with
//! their `database` if it is another one. Entries with the same word in `shared` can both have a field, which only the one
//! with `alone` writes, if there is one. A field with `content` belongs to the content of a document. `dependents` has the
//! call that deletes a document with what depends on it, and the collection of what does, if there is only one. `indexes` has
//! the names of the indexes that the repository needs. The next `ensure_indexes()` adds what an entry of an earlier version lacks. While a repository looks for other owners, its new entry is
//! `unconfirmed`. `format` is the version of this form.
//! Where the type of a repository knows the type of its keys, as that of buckets does, `key_type` is their BSON type, by its
//! name in `$jsonSchema`: `int` for all types of integers, which have one form. An entry of a version without this setting
//! is valid for keys of each type, and the next `ensure_indexes()` adds it. Other ids are of any type, which is not stored.
//! `verified` is the outcome of the last `verify` of the command line. `library` is the version of the crate that wrote the settings. The times are those of the server.
//!
//! The same collection has the progress of migrations, with the `_id` `{ kind: "migration", collection }`, where the
//! collection is the target ([`migrations`] lists them, and
//! [`forget_migration`] deletes one), the positions of followers, with the `_id` `{ kind: "follower", name }`,
//! [leases](crate::lease), with the `_id` `{ kind: "lease", name }`, and the steps that the schema pattern has applied,
//! with the `_id` `{ kind: "steps", name }`. And it has the records of the files of an archive, with the `_id`
//! `{ kind: "archive_file", collection, name }`.
//!
//! # Permissions
//!
//! A user who may only read needs `find` on the collection. A user without it works as if there were no entry, and
//! so cannot repair, and its calls that replace a document keep nothing of other repositories.
//!
//! # Design
//!
//! ## Why are settings not compared by every read and write?
//!
//! A write names its index in a hint, and the name contains the fields and the page size, so the server refuses a write
//! with other ones. An operator's call that rewrites a whole collection has no such protection.

mod entry;
mod filter;
mod others;
mod owned;
mod plausible;
mod record;
mod records;

use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use mongodb::options::{CollectionOptions, ReadConcern, WriteConcern};

#[doc(hidden)]
pub use self::entry::{Entry, StoredSettings};
#[doc(hidden)]
pub use self::filter::storable_filter;
pub(crate) use self::others::Known;
#[doc(hidden)]
pub use self::others::{Others, Place};
#[doc(hidden)]
pub use self::owned::{Owned, conflicts};
#[doc(hidden)]
pub use self::plausible::{OwnField, OwnFields, check_fields, implausible};
pub use self::record::{Position, Record};
pub use self::records::{MigrationRecord, forget_migration, migrations};
#[doc(hidden)]
pub use self::records::{check_no_migration_runs, migration_comment};
use crate::send::primary;
pub use crate::settings::COLLECTION;

/// Returns the catalog of the database of a managed collection.
#[doc(hidden)]
pub fn catalog_of(managed: &Collection<RawDocumentBuf>, concern: Option<WriteConcern>) -> Collection<RawDocumentBuf> {
    let options = CollectionOptions::builder()
        .write_concern(concern)
        .read_concern(ReadConcern::local())
        .selection_criteria(primary())
        .build();
    let database = managed.client().database(&managed.namespace().db);
    database.collection_with_options(COLLECTION, options)
}
