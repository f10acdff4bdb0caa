//! Documents of other collections that move with a document.
//!
//! # Design
//!
//! ## Can a related document be left behind?
//!
//! The transaction reads the related documents that exist, and deletes them. One that is inserted after that is not among them.
//! So whoever inserts a related document also writes the document that it belongs to, in one transaction: the two transactions
//! conflict, and the later one runs again. The outlier pattern does so when it opens an overflow document, and the history
//! pattern with each revision. An update of a related document needs no such write: it conflicts itself.
//!
//! ## Why are related documents measured before they are read?
//!
//! Their number is not known: a history can have any number of revisions. The client holds what moves together in memory, and
//! the server in its cache. So too many of them halve the chunk, before they are read.

use mongo_patterns_core::document_id::with_ids;
use mongo_patterns_core::error::refused_document;
use mongo_patterns_core::index::{Managed, PlannedIndex};
use mongo_patterns_core::migration::{Step, both, number};
use mongo_patterns_core::stored::value;
use mongodb::options::FindOptions;

use crate::prelude::*;
use crate::refused::refused;

/// The most related documents of several documents that move together, and the most bytes.
const MOST: (u64, u64) = (10_000, 16 * 1024 * 1024);
/// The same for one document. The smallest cache of a server, 256 MB, refuses a transaction of twice as many bytes.
const MOST_OF_ONE: (u64, u64) = (100_000, 32 * 1024 * 1024);

/// The two collections of related documents.
#[derive(Clone)]
pub(crate) struct Related {
    pub(crate) current: Raw,
    pub(crate) archived: Raw,
    /// The field with the id of the document that they belong to.
    pub(crate) field: FieldName,
}

/// What belongs to the documents of an archive.
pub(crate) struct Wholes {
    /// The field with the id by which related documents name a document.
    pub(crate) id: FieldName,
    pub(crate) related: Vec<Related>,
}

impl Related {
    /// Returns where they are, and the other collection.
    pub(crate) fn ends(&self, archived: bool) -> [&Raw; 2] {
        match archived {
            true => [&self.archived, &self.current],
            false => [&self.current, &self.archived],
        }
    }

    /// Matches those of documents with these ids. An array has the ids of several documents.
    pub(crate) fn of(&self, ids: &[Bson]) -> Document {
        let field = self.field.as_str();
        both(with_ids(field, ids), doc! { field: { "$not": { "$type": "array" } } })
    }

    fn indexes(&self) -> Vec<PlannedIndex> {
        let field = self.field.as_str();
        vec![PlannedIndex::new(format!("{field}_1"), doc! { field: 1 }).or_longer()]
    }
}

impl Wholes {
    fn is_by_id(&self) -> bool {
        self.id.as_str() == "_id"
    }

    /// Adds the settings of the stored form.
    pub(crate) fn add_settings(&self, form: &mut Document) {
        if self.related.is_empty() {
            return;
        }
        let related = self.related.iter().map(|one| {
            let [collection, archive] = [&one.current, &one.archived].map(|one| one.namespace().to_string());
            doc! { "collection": collection, "archive": archive, "field": one.field.as_str() }
        });
        form.insert("related", related.collect::<Vec<_>>());
        form.insert("id", self.id.as_str());
    }

    /// Returns the description of one of the two collections of the documents.
    pub(crate) fn managed(&self, collection: &Raw, mut indexes: Vec<PlannedIndex>) -> Managed {
        if self.is_by_id() {
            return Managed::by_id(collection).indexes(indexes);
        }
        let id = self.id.as_str();
        let reason =
            "the unique index of the id by which related documents name a document must start with the shard key";
        indexes.push(PlannedIndex::new(format!("{id}_1"), doc! { id: 1 }).unique());
        Managed::new(collection, id, reason).indexes(indexes)
    }

    /// Returns the descriptions of the collections of related documents, on one side.
    pub(crate) fn managed_related(&self, archived: bool) -> impl Iterator<Item = Managed> {
        let reason = "the related documents of a document move together, by its id, so they reach one shard";
        self.related.iter().map(move |one| {
            let [collection, _] = one.ends(archived);
            Managed::new(collection, one.field.as_str(), reason).indexes(one.indexes())
        })
    }

    /// Returns the ids by which related documents name these. None names one by null, an array or a missing value.
    pub(crate) fn ids(&self, documents: &[RawDocumentBuf]) -> Vec<Bson> {
        values(documents, self.id.as_str())
    }
}

/// Returns the different values of a field that can be ids.
pub(crate) fn values(documents: &[RawDocumentBuf], field: &str) -> Vec<Bson> {
    let mut seen = std::collections::HashSet::new();
    let values = documents.iter().filter_map(|document| value(document, field));
    values
        .filter(|value| DocumentId::new(value.clone()).is_ok() && seen.insert(bytes(value)))
        .collect()
}

/// The related documents of a move, in one direction.
#[derive(Clone, Copy)]
pub(crate) struct Moving<'a> {
    pub(crate) wholes: &'a Wholes,
    /// Whether they move from the archive.
    pub(crate) restores: bool,
}

/// The related documents of one collection that move.
pub(crate) struct Part {
    from: Raw,
    to: Raw,
    filter: Document,
    documents: Vec<RawDocumentBuf>,
}

impl Moving<'_> {
    /// Returns the collections with related documents of these.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) if these are too many to move together.
    pub(crate) async fn measure(self, documents: &[RawDocumentBuf], conn: &mut Conn<'_>) -> Result<Vec<Part>> {
        let (mut parts, mut documents_of, mut bytes_of) = (Vec::new(), 0, 0);
        if self.wholes.related.is_empty() {
            return Ok(parts);
        }
        let ids = self.wholes.ids(documents);
        for related in self.wholes.related.iter().filter(|_| !ids.is_empty()) {
            let [from, to] = related.ends(self.restores).map(Clone::clone);
            let filter = related.of(&ids);
            let sum =
                doc! { "_id": null, "documents": { "$sum": 1_i64 }, "bytes": { "$sum": { "$bsonSize": "$$ROOT" } } };
            let stages = [doc! { "$match": filter.clone() }, doc! { "$group": sum }];
            let measure = Step::aggregate("measure related documents", &from, stages);
            let size = conn.read(measure).await?.first()?;
            if number(&size, "documents") > 0 {
                documents_of += number(&size, "documents");
                bytes_of += number(&size, "bytes");
                parts.push(Part {
                    from,
                    to,
                    filter,
                    documents: Vec::new(),
                });
            }
        }
        let most = if documents.len() == 1 { MOST_OF_ONE } else { MOST };
        if documents_of > most.0 || bytes_of > most.1 {
            return Err(too_large(&id_of(&documents[0])));
        }
        Ok(parts)
    }

    /// Reads the related documents of these.
    ///
    /// # Errors
    /// Those of [`measure`](Self::measure).
    pub(crate) async fn read(self, documents: &[RawDocumentBuf], conn: &mut Conn<'_>) -> Result<Vec<Part>> {
        let mut parts = self.measure(documents, conn).await?;
        for part in &mut parts {
            let purpose = "read related documents";
            let find = Step::find(purpose, &part.from, part.filter.clone(), FindOptions::default());
            part.documents = conn.read(find).await?.documents;
        }
        Ok(parts)
    }

    /// Matches those of the documents of which the target has related ones, or a document with their id.
    pub(crate) async fn there(
        self,
        documents: &[RawDocumentBuf],
        to: &Raw,
        conn: &mut Conn<'_>,
    ) -> Result<Option<Document>> {
        let (Wholes { id, related, .. }, ids) = (self.wholes, self.wholes.ids(documents));
        if related.is_empty() || ids.is_empty() {
            return Ok(None);
        }
        let mut found = match self.wholes.is_by_id() {
            true => Vec::new(),
            false => named(to, with_ids(id.as_str(), &ids), id.as_str(), conn).await?,
        };
        for one in related {
            let [_, to] = one.ends(self.restores);
            found.extend(named(to, one.of(&ids), one.field.as_str(), conn).await?);
        }
        Ok((!found.is_empty()).then(|| with_ids(id.as_str(), &found)))
    }

    /// Deletes the related documents of the target's documents that are replaced by these.
    pub(crate) async fn delete_replaced(
        self,
        documents: &[RawDocumentBuf],
        to: &Raw,
        replaced: &Document,
        conn: &mut Conn<'_>,
    ) -> Result<()> {
        if self.wholes.related.is_empty() {
            return Ok(());
        }
        let mut ids = self.wholes.ids(documents);
        ids.extend(named(to, replaced.clone(), self.wholes.id.as_str(), conn).await?);
        for related in self.wholes.related.iter().filter(|_| !ids.is_empty()) {
            let [_, to] = related.ends(self.restores);
            conn.write(Step::delete_many("delete what is replaced", to, related.of(&ids)))
                .await?;
        }
        Ok(())
    }
}

/// Reads the values of a field, each once.
async fn named(from: &Raw, filter: Document, field: &str, conn: &mut Conn<'_>) -> Result<Vec<Bson>> {
    let options = FindOptions::builder().projection(doc! { field: 1 }).build();
    let find = Step::find("look for their ids", from, filter, options);
    Ok(values(&conn.read(find).await?.documents, field))
}

/// Deletes related documents where they were found.
pub(crate) async fn delete(parts: &[Part], conn: &mut Conn<'_>) -> Result<()> {
    for part in parts {
        let delete = Step::delete_many("delete related documents", &part.from, part.filter.clone());
        conn.write(delete).await?;
    }
    Ok(())
}

/// Inserts them in the target.
pub(crate) async fn insert(parts: &[Part], conn: &mut Conn<'_>) -> Result<()> {
    for Part { to, documents, .. } in parts {
        let insert = Step::insert_many("insert related documents", to, documents.clone());
        conn.write(insert).await.map_err(|error| {
            let id = refused_document(&error).and_then(|at| documents.get(at));
            refused(error, to, id.map(|document| id_of(document)))
        })?;
    }
    Ok(())
}

impl Part {
    pub(crate) fn documents(&self) -> &[RawDocumentBuf] {
        &self.documents
    }
}

fn too_large(id: &Bson) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        "a document has more than 100,000 related documents, or 32 MiB of them, which do not move in one transaction, so it stays, nothing was changed: keep it, or delete some of them",
    )
    .at(id.clone(), "")
}
