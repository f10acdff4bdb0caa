//! The catalog: one collection in each database, with the settings of its managed collections.
//!
//! `ensure_indexes()` stores the settings of a repository in the collection [`mongo_patterns`](COLLECTION) of its database,
//! and refuses other settings afterwards. `verify()`, `repair()`, `follow()` and all migrations compare their settings with
//! it first, by one read. Plain reads and writes do not read it, except calls that replace or delete a document
//! ([once](#owners)).
//!
//! A call that rewrites or deletes stored documents needs an entry: a repair, a rebuild, and a migration within its
//! collections. Dry runs and plans need none. `ensure_indexes()` stores an entry for existing documents only if they fit: a
//! sample has the fields, no index of other settings exists, and no document has a value of the application in a field of
//! the pattern.
//!
//! # Owners
//!
//! An entry also says what its repository owns: the fields that only it may write, such as the flag of a list, and its
//! second collection. Calls that read the catalog refuse a field or a second collection that another entry owns, with
//! `SettingsMismatch`, and name the call of the builder that chooses another name. In one collection, a pattern with several
//! documents of a thing, such as intervals, excludes patterns for which each document is one thing. Of two such repositories
//! that call `ensure_indexes()` concurrently, at most one succeeds.
//!
//! A call that replaces or restores a document keeps the stored values of fields that other entries own. The version of the
//! schema pattern is different: the new document's version counts, and the stored one stays if it has none. An update by
//! operators that names an owned field is refused. A call that deletes a document is refused where documents of another
//! repository depend on it, and names the call that deletes both.
//!
//! `ensure_indexes()` learns of the other entries by the read that it makes anyway. A repository without this call reads
//! them once, before its first call that needs them, and again after this process has stored another entry of the
//! collection. Other processes know a new repository after their restart. So call its `ensure_indexes()`, and restart the
//! programs that replace or delete these documents, before it writes.
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
//!   "verified": { "findings": { "$numberLong": "0" }, "at_least": false, "at": { "$date": "2026-11-22T13:00:00Z" } },
//!   "format": 1,
//!   "library": "0.1.0",
//!   "created": { "$date": "2026-11-22T12:00:00Z" },
//!   "changed": { "$date": "2026-11-22T12:00:00Z" }
//! }
//! ```
//!
//! `settings` has all settings of the stored form; a missing one is `null`. `owns` has fields and second collections, with
//! their `database` if it differs. Entries with the same word in `shared` can both have a field, which only the one with
//! `alone` writes. A field with `content` belongs to the content of a document. `dependents` has the call that deletes a
//! document with its dependents, and their only collection. `indexes` has the names of the required indexes. The next
//! `ensure_indexes()` adds what an entry of an earlier version lacks. While a repository looks for other owners, its new
//! entry is `unconfirmed`. `format` is the version of this form.
//!
//! `key_type` is the BSON type of the keys, by its name in `$jsonSchema`, if the type of a repository knows it: `int`
//! for all integers. `verified` is the outcome of the last `verify` of the command line; with `at_least`, more findings
//! can exist. `library` is the version of the crate that wrote the settings. The times are the server's.
//!
//! The same collection has the progress of migrations, with the `_id` `{ kind: "migration", collection }`, where the
//! collection is the target ([`migrations`] lists them, and [`forget_migration`] deletes one). It has the positions of
//! followers, with the `_id` `{ kind: "follower", name }`, [leases](crate::lease), with the `_id` `{ kind: "lease", name }`,
//! and the applied steps of the schema pattern, with the `_id` `{ kind: "steps", name }`. And it has the records of the
//! files of an archive, with the `_id` `{ kind: "archive_file", collection, name }`.
//!
//! # Permissions
//!
//! A user who may only read needs `find` on the collection. Without it, a user works as if there were no entry: it cannot
//! repair, and its calls that replace a document keep no fields of other repositories.
//!
//! # Design
//!
//! ## Why are settings not compared by every read and write?
//!
//! A write names its index in a hint, and the name contains the fields and the page size, so the server refuses a write with
//! other settings. A call that rewrites a whole collection has no such protection.

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
