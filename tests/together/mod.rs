//! Tests of several patterns on the same documents and collections.

mod history_and_trash;
mod owns;
