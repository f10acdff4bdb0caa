//! Migrations: between a flat collection, one document an item, and buckets, and to another page size.
//!
//! # Design
//!
//! ## Why does a migration only insert?
//!
//! A chunk may run twice, also concurrently, because the server continues for a while with the command of a killed client.
//! So the `_id` of a target document is a function of the source, and existing documents are kept. It is no `keepExisting`,
//! which takes a dot in a field name for a path.
//!
//! ## Why does the record of a migration stay?
//!
//! A process can be killed between its last command and its last line. With the record, the next call reports that the
//! migration has finished.

mod check;
pub(crate) mod migration;
pub(crate) mod page_size;
mod run;
mod selection;
