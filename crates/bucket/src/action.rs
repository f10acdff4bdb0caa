//! The calls of a repository: one file each, with its method and its action.

mod append;
mod append_many;
mod append_stream;
mod find_items;
mod items;
mod keys;
mod migrate_from_flat;
mod migrate_page_size;
mod migrate_to_flat;
mod page;
mod pages;
mod read;
mod rebuild_figures;
mod remove_before;
mod repair;
mod totals;
mod verify;
mod write;

pub use append::Append;
pub use append_many::AppendMany;
pub use append_stream::AppendStream;
pub use find_items::{FindItems, FoundItemStream};
pub use items::{GetItemPage, ItemStream, Items};
pub use keys::{KeyStream, Keys};
pub use migrate_from_flat::MigrateFromFlat;
pub use migrate_page_size::MigratePageSize;
pub use migrate_to_flat::MigrateToFlat;
pub use mongo_patterns_core::action::{Read, Write};
pub use page::GetPage;
pub use pages::Pages;
pub use rebuild_figures::RebuildFigures;
pub use remove_before::{RemoveAllBefore, RemoveBefore};
pub use repair::Repair;
pub use totals::{ReadTotals, ReadTotalsBy};
pub use verify::Verify;
