//! Tests of several patterns on the same documents and collections.

mod cases;
mod history_and_trash;
mod owns;
mod repositories;
