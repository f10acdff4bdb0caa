//! The calls of a repository that take and return values.

use futures::future::LocalBoxFuture;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

/// The documents, items, elements or children of a pattern, by their ids.
pub(super) trait Values: Sized + 'static {
    /// Whether an id can be a document with an operator. The server refuses it as an `_id`.
    const OPERATORS: bool;

    async fn new(db: &TestDatabase) -> Self;
    /// Returns whether a value can be an id.
    fn is_id(_value: &Bson) -> bool {
        true
    }
    /// Stores these fields by every write, and the document of them in the field `v` by an update.
    async fn put(&self, id: &Bson, fields: &Document);
    /// Reads the data of an id, by every read.
    async fn read(&self, id: &Bson) -> Vec<Document>;
    /// Returns whether there was something to remove.
    async fn remove(&self, id: &Bson) -> bool;
    /// Returns the number of findings of `verify`.
    async fn findings(&self) -> usize;
}

/// [`Values`] without the type: the tests are compiled once, and not for each pattern.
pub(super) trait AnyValues {
    fn operators(&self) -> bool;
    fn is_id(&self, value: &Bson) -> bool;
    fn put<'a>(&'a self, id: &'a Bson, fields: &'a Document) -> LocalBoxFuture<'a, ()>;
    fn read<'a>(&'a self, id: &'a Bson) -> LocalBoxFuture<'a, Vec<Document>>;
    fn remove<'a>(&'a self, id: &'a Bson) -> LocalBoxFuture<'a, bool>;
    fn findings(&self) -> LocalBoxFuture<'_, usize>;
}

impl<V: Values> AnyValues for V {
    fn operators(&self) -> bool {
        V::OPERATORS
    }

    fn is_id(&self, value: &Bson) -> bool {
        V::is_id(value)
    }

    fn put<'a>(&'a self, id: &'a Bson, fields: &'a Document) -> LocalBoxFuture<'a, ()> {
        Box::pin(Values::put(self, id, fields))
    }

    fn read<'a>(&'a self, id: &'a Bson) -> LocalBoxFuture<'a, Vec<Document>> {
        Box::pin(Values::read(self, id))
    }

    fn remove<'a>(&'a self, id: &'a Bson) -> LocalBoxFuture<'a, bool> {
        Box::pin(Values::remove(self, id))
    }

    fn findings(&self) -> LocalBoxFuture<'_, usize> {
        Box::pin(Values::findings(self))
    }
}

/// Returns a document with these fields after it.
pub(super) fn with(mut document: Document, fields: &Document) -> Document {
    document.extend(fields.clone());
    document
}

/// Returns the update of the field `v`.
pub(super) fn set(fields: &Document) -> Document {
    doc! { "$set": { "v": fields } }
}

/// Returns the elements of an array that have a value in a field.
pub(super) fn of_array(document: &Document, array: &str, field: &str, id: &Bson) -> Vec<Document> {
    let elements = document.get_array(array).into_iter().flatten();
    let elements = elements.filter_map(Bson::as_document);
    let found = elements.filter(|element| {
        element
            .get(field)
            .is_some_and(|value| value.to_string() == id.to_string())
    });
    found.cloned().collect()
}
