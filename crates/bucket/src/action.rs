//! The calls of a repository: one file each, with its method and its action.

mod append;
mod append_many;
mod append_stream;
mod buckets;
mod delete_before;
mod find_items;
mod items;
mod keys;
mod migrate_from_flat;
mod migrate_page_size;
mod migrate_to_flat;
mod page;
mod read;
mod refresh_figures;
mod repair;
mod totals;
mod verify;
mod write;

pub use append::Append;
pub use append_many::AppendMany;
pub use append_stream::AppendStream;
pub use delete_before::{DeleteBefore, DeleteKeyBefore};
pub use find_items::FindItems;
pub use items::Items;
pub use keys::Keys;
pub use migrate_from_flat::MigrateFromFlat;
pub use migrate_page_size::MigratePageSize;
pub use migrate_to_flat::MigrateToFlat;
pub use mongo_patterns_core::action::{Read, Write};
pub use mongo_patterns_core::verify::{Repair, Verify};
pub use page::GetPage;
pub use refresh_figures::RefreshFigures;
pub use totals::{ReadTotals, ReadTotalsBy};
