//! Tests of several patterns on the same documents and collections.

mod cases;
mod history_and_trash;
mod kept;
mod owns;
mod pairs;
mod repositories;
mod sources_with_history;
mod suppliers;
mod through;
mod versioned;
