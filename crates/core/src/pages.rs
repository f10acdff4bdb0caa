//! The pages of any query: each document once, in the order of an index, forward and backward.
//!
//! ```no_run
//! use mongo_patterns::mongodb::bson::{Document, doc};
//! use mongo_patterns::pages::{DocumentToken, Pages};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     #[serde(rename = "_id")]
//!     id: i32,
//!     total: f64,
//! }
//!
//! # async fn f(database: mongo_patterns::mongodb::Database, link: &str) -> mongo_patterns::Result<()> {
//! let orders = Pages::<Order>::over(database.collection::<Document>("orders"))
//!     .filter(doc! { "tenant": 7 })
//!     .sort(doc! { "rank": -1, "total": 1 })
//!     .build()?;
//! orders.ensure_index().await?; // { tenant: 1, rank: -1, total: 1, _id: 1 }
//!
//! let first = orders.list().limit(20).page().await?; // documents, and a token for the next page
//! let after: DocumentToken = link.parse()?;
//! let page = orders.list().limit(20).after(after).page().await?; // 1 round trip, 21 keys of the index
//! # Ok(())
//! # }
//! ```
//!
//! `skip` reads all documents before the page, and an insert there moves a document from one page to the next. A filter such
//! as `{ rank: { $gt: last } }` misses documents of the last rank, and documents whose rank has another type or none. Here a
//! page begins at a position in the index.
//!
//! # Index
//!
//! It has first the fields that the filter compares for equality, `{ field: value }` or `{ field: { $eq: value } }` at its
//! top. The fields of the sort follow, then `_id`. The reverse sort has the same index. Other conditions, also a regular
//! expression, an array, or one on `_id`, are checked on each document: a page examines the documents that they leave out.
//!
//! An equality with null finds documents without the field too, but not the deprecated type undefined, as in MongoDB 8.0.
//!
//! A document with an array in a field of the index would have a position for each element. So
//! [`ensure_index`](Pages::ensure_index) refuses an index with such a document, and a page with one is refused too. Once an
//! index has, or had, an array, the server sorts each page in memory. For a filter by an element, such as `{ tags: "red" }`,
//! use `{ tags: { $in: ["red"] } }`, which is no equality.
//!
//! # Guarantees
//!
//! - From the first page to the last, forward or backward, a document that does not change is on exactly one page, whatever
//!   changes around it.
// proof: pages::beside_writers::a_document_that_does_not_change_is_on_one_page
//! - Values of all types, null and missing ones, and equal ranks are in the order of the server's sort, in mixed directions too.
// proof: pages::complete::equal_ranks_and_mixed_directions, pages::complete::documents_at_the_edges_of_the_index_are_on_a_page
//! - A page is one round trip, and examines one key more than it has documents, at any position. The server sorts nothing.
//!   The last page of a query without an equality takes a second one. The first page of a process takes one more, which
//!   checks the index, unless it has called [`ensure_index`](Pages::ensure_index).
// proof: pages::cost::a_page_is_one_round_trip_and_examines_one_key_more_than_it_has
//! - A page over an index that has only some of the documents, or another order, is refused.
// proof: pages::refused::a_page_over_an_index_that_cannot_serve_it_is_refused
//! - A document with an array in the sort is never missed or returned twice: the page with it is refused.
// proof: pages::arrays::a_page_with_an_array_is_refused
//! - A token of another filter or sort, and a modified one, is refused. A forged one reads only documents of the filter.
// proof: pages::tokens::a_token_is_of_one_filter_and_sort, pages::tokens::a_modified_token_is_refused, pages::tokens::a_forged_token_reads_only_documents_of_the_filter
//! - Values of a filter and of documents are never in an error or in the `Debug` of pages and tokens. Values of tokens are
//!   never interpreted.
// proof: pages::tokens::no_value_is_printed, pages::tokens::a_forged_token_reads_only_documents_of_the_filter
//!
//! # Limits
//!
//! - A document whose value of the sort changes between two pages, or that begins or ceases to match, may be on both, or on
//!   none. In a snapshot session of the caller, all pages see one moment.
//! - A filter with a value that changes with each request, such as the present time, is another filter each time, and its
//!   tokens are refused: put the value into the link too.
//! - On a sharded cluster, each shard reads a page and the router merges them. The `_id`s must be unique in all shards,
//!   which the server ensures for the shard key only: of two documents with equal values of the sort and one `_id`, a page
//!   may miss one. No mongos of a supported version has run the tests yet.
//! - The strict Stable API has no bounds of an index: a page is `Unsupported` there.

mod action;
mod by_date;
mod handle;
mod order;
mod query;
mod range;
mod token;

#[doc(hidden)]
pub use crate::limit::{check_limit, cut};
#[doc(hidden)]
pub use by_date::{DatePosition, DateToken, DatedDocument};
pub use handle::{Pages, PagesBuilder};
pub use token::DocumentToken;
