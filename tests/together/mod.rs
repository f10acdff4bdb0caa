//! Tests of several patterns on the same documents and collections.

mod cases;
mod chain;
mod deleted;
mod histories;
mod history_and_trash;
mod kept;
mod killed;
mod late_items;
mod moved_references;
mod owners;
mod owns;
mod pairs;
mod parts;
mod replaced;
mod replacers;
mod repositories;
mod restored;
mod sources_with_history;
mod suppliers;
mod through;
mod trash_with_related;
mod trash_with_related_concurrent;
mod versioned;
