//! The calls of a repository: one file each, with its method, its action and its work.

mod append;
mod append_many;
mod append_stream;
mod change_page_size;
mod counts;
mod ensure_indexes;
mod item;
mod items;
mod move_from_flat;
mod move_to_flat;
mod newest;
mod page;
mod pages;
mod remove_item;
mod repair;
mod replace_item;
mod update_item;
mod verify;

pub use append::{Append, Appended};
pub use append_many::{AppendMany, AppendedMany};
pub use append_stream::{AppendStream, Progress};
pub use change_page_size::{ChangePageSize, PageSizeChanged};
pub use counts::{CountPages, Counts, CountsOfKey};
pub use ensure_indexes::EnsureIndexes;
pub use item::FindItem;
pub use items::{ItemSlice, ItemStream, Items, PageOfItems};
pub use move_from_flat::MoveFromFlat;
pub use move_to_flat::MoveToFlat;
pub use newest::Newest;
pub use page::PageByNumber;
pub use pages::{PageSlice, Pages};
pub use remove_item::{RemoveItem, Removed};
pub use repair::{Left, Repair, Repaired, RepairedStream};
pub use replace_item::ReplaceItem;
pub use update_item::{UpdateItem, Updated};
pub use verify::{FindingStream, Verify};
