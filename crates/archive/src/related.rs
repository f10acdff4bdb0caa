//! Documents of other collections that move with a document.
//!
//! # Design
//!
//! ## Can a related document be left behind?
//!
//! The transaction reads the related documents that exist, and deletes them. A related document that is inserted after that
//! is not among them. So its writer also writes the document that it belongs to, in one transaction: the two transactions
//! conflict, and the later one runs again. The outlier pattern does so when it opens an overflow document, and the history
//! pattern with each revision.
//!
//! ## Why are related documents measured before they are read?
//!
//! Their number is not known: a history can have any number of revisions. All that moves together is in memory, and in the
//! cache of the server. So too many related documents halve the chunk, before they are read.

use std::collections::HashSet;

use mongo_patterns_core::catalog::Owned;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{bytes, with_ids};
use mongo_patterns_core::error::refused_move;
use mongo_patterns_core::index::{Managed, PlannedIndex};
use mongo_patterns_core::migration::{Step, and, number};
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, Result};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOptions;
use mongodb::{Collection, Namespace};

/// The most related documents of several documents that move together, and the most bytes.
const MOST: (u64, u64) = (10_000, 16 * 1024 * 1024);
/// The same for one document. The smallest cache of a server, 256 MB, refuses a transaction of twice as many bytes.
const MOST_OF_ONE: (u64, u64) = (100_000, 32 * 1024 * 1024);

/// What belongs to the documents of an archive.
pub(crate) struct Related {
    /// The field with the id by which related documents name a document.
    pub(crate) id: FieldName,
    pub(crate) collections: Vec<RelatedCollection>,
}

/// The two collections of related documents.
pub(crate) struct RelatedCollection {
    pub(crate) current: Collection<RawDocumentBuf>,
    pub(crate) archived: Collection<RawDocumentBuf>,
    /// The field with the id of the document that they belong to.
    pub(crate) field: FieldName,
}

/// The related documents of one collection that move.
pub(crate) struct RelatedDocuments {
    pub(crate) from: Collection<RawDocumentBuf>,
    pub(crate) to: Collection<RawDocumentBuf>,
    pub(crate) filter: Document,
    /// How many there are.
    pub(crate) count: usize,
    pub(crate) documents: Vec<RawDocumentBuf>,
}

impl RelatedCollection {
    /// Returns where they are, and the other collection.
    pub(crate) fn source_and_target(&self, archived: bool) -> [&Collection<RawDocumentBuf>; 2] {
        match archived {
            true => [&self.archived, &self.current],
            false => [&self.current, &self.archived],
        }
    }

    /// Matches the related documents of documents with these ids. An array has the ids of several documents.
    pub(crate) fn with_ids(&self, ids: &[Bson]) -> Document {
        let field = self.field.as_str();
        and(with_ids(field, ids), doc! { field: { "$not": { "$type": "array" } } })
    }
}

impl Related {
    fn is_by_id(&self) -> bool {
        self.id.as_str() == "_id"
    }

    /// Returns whether the documents of a collection are deleted, or move, with the documents.
    pub(crate) fn has(&self, collection: &Namespace) -> bool {
        self.collections
            .iter()
            .any(|one| one.current.namespace() == *collection)
    }

    /// Adds the settings of the stored form.
    pub(crate) fn add_settings(&self, settings: &mut Document) {
        if self.collections.is_empty() {
            return;
        }
        let related = self.collections.iter().map(|one| {
            let [collection, archive] = [&one.current, &one.archived].map(|one| one.namespace().to_string());
            doc! { "collection": collection, "archive": archive, "field": one.field.as_str() }
        });
        settings.insert("related", related.collect::<Vec<_>>());
        settings.insert("id", self.id.as_str());
    }

    /// Returns the description of one of the two collections of the documents.
    pub(crate) fn managed(&self, collection: &Collection<RawDocumentBuf>, mut indexes: Vec<PlannedIndex>) -> Managed {
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
        self.collections.iter().map(move |one| {
            let ([collection, _], field) = (one.source_and_target(archived), one.field.as_str());
            let index = PlannedIndex::new(format!("{field}_1"), doc! { field: 1 }).or_longer();
            Managed::new(collection, field, reason).indexes(vec![index])
        })
    }

    /// Returns what no other archive may own: the ids in archived documents.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Owned> {
        let related = self.collections.iter();
        related.map(|one| Owned::field(&one.archived, one.field.as_str(), "related").written_alone())
    }

    /// Returns the ids by which related documents name these documents. Null, an array and a missing value name none.
    fn ids(&self, documents: &[RawDocumentBuf]) -> Vec<Bson> {
        distinct_ids(documents, self.id.as_str())
    }

    /// Returns the collections with related documents of the given documents.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) if these are too many to move together.
    pub(crate) async fn measure(
        &self,
        documents: &[RawDocumentBuf],
        archived: bool,
        conn: &mut Conn<'_>,
    ) -> Result<Vec<RelatedDocuments>> {
        let (mut related, mut count, mut bytes) = (Vec::new(), 0, 0);
        if self.collections.is_empty() {
            return Ok(related);
        }
        let ids = self.ids(documents);
        for collection in self.collections.iter().filter(|_| !ids.is_empty()) {
            let [from, to] = collection.source_and_target(archived).map(Clone::clone);
            let filter = collection.with_ids(&ids);
            let sum =
                doc! { "_id": null, "documents": { "$sum": 1_i64 }, "bytes": { "$sum": { "$bsonSize": "$$ROOT" } } };
            let stages = [doc! { "$match": filter.clone() }, doc! { "$group": sum }];
            let measure = Step::aggregate("measure related documents", &from, stages);
            let size = conn.read(measure).await?.first()?;
            if number(&size, "documents") > 0 {
                count += number(&size, "documents");
                bytes += number(&size, "bytes");
                related.push(RelatedDocuments {
                    from,
                    to,
                    filter,
                    count: usize::try_from(number(&size, "documents")).unwrap_or(usize::MAX),
                    documents: Vec::new(),
                });
            }
        }
        let most = if documents.len() == 1 { MOST_OF_ONE } else { MOST };
        if count > most.0 || bytes > most.1 {
            return Err(too_large(&id_of(&documents[0])));
        }
        Ok(related)
    }

    pub(crate) async fn read(
        &self,
        documents: &[RawDocumentBuf],
        archived: bool,
        conn: &mut Conn<'_>,
    ) -> Result<Vec<RelatedDocuments>> {
        let mut related = self.measure(documents, archived, conn).await?;
        for one in &mut related {
            let options = FindOptions::default();
            let find = Step::find("read related documents", &one.from, one.filter.clone(), options);
            one.documents = conn.read(find.up_to(one.count)).await?.documents;
        }
        Ok(related)
    }

    /// Matches the documents whose id, or whose related documents, the target has.
    pub(crate) async fn in_target(
        &self,
        documents: &[RawDocumentBuf],
        target: &Collection<RawDocumentBuf>,
        archived: bool,
        conn: &mut Conn<'_>,
    ) -> Result<Option<Document>> {
        let (id, ids) = (self.id.as_str(), self.ids(documents));
        if self.collections.is_empty() || ids.is_empty() {
            return Ok(None);
        }
        let mut in_target = match self.is_by_id() {
            true => Vec::new(),
            false => read_ids(target, with_ids(id, &ids), id, conn).await?,
        };
        for one in &self.collections {
            let [_, target] = one.source_and_target(archived);
            in_target.extend(read_ids(target, one.with_ids(&ids), one.field.as_str(), conn).await?);
        }
        Ok((!in_target.is_empty()).then(|| with_ids(id, &in_target)))
    }

    /// Deletes the related documents of the target's documents that are replaced by these.
    pub(crate) async fn delete_replaced(
        &self,
        documents: &[RawDocumentBuf],
        (target, replaced): (&Collection<RawDocumentBuf>, &Document),
        archived: bool,
        conn: &mut Conn<'_>,
    ) -> Result<()> {
        if self.collections.is_empty() {
            return Ok(());
        }
        let mut ids = self.ids(documents);
        ids.extend(read_ids(target, replaced.clone(), self.id.as_str(), conn).await?);
        for collection in self.collections.iter().filter(|_| !ids.is_empty()) {
            let [_, target] = collection.source_and_target(archived);
            let filter = collection.with_ids(&ids);
            conn.write(Step::delete_many("delete what is replaced", target, filter))
                .await?;
        }
        Ok(())
    }
}

/// Reads the values of a field that can be ids, each once.
async fn read_ids(
    from: &Collection<RawDocumentBuf>,
    filter: Document,
    field: &str,
    conn: &mut Conn<'_>,
) -> Result<Vec<Bson>> {
    let options = FindOptions::builder().projection(doc! { field: 1 }).build();
    let find = Step::find("look for their ids", from, filter, options);
    Ok(distinct_ids(&conn.read(find).await?.documents, field))
}

/// Returns the different values of a field that can be ids.
pub(crate) fn distinct_ids(documents: &[RawDocumentBuf], field: &str) -> Vec<Bson> {
    let mut seen = HashSet::new();
    let values = documents.iter().filter_map(|document| value(document, field));
    values
        .filter(|value| DocumentId::new(value.clone()).is_ok() && seen.insert(bytes(value)))
        .collect()
}

/// Deletes related documents where they were read.
pub(crate) async fn delete(related: &[RelatedDocuments], conn: &mut Conn<'_>) -> Result<()> {
    for one in related {
        let delete = Step::delete_many("delete related documents", &one.from, one.filter.clone());
        conn.write(delete).await?;
    }
    Ok(())
}

/// Inserts them in the target.
pub(crate) async fn insert(related: &[RelatedDocuments], conn: &mut Conn<'_>) -> Result<()> {
    for one in related {
        let RelatedDocuments {
            from, to, documents, ..
        } = one;
        let insert = Step::insert_many("insert related documents", to, documents.clone());
        conn.write(insert).await.map_err(|error| {
            let ids: Vec<Bson> = documents.iter().map(|document| id_of(document)).collect();
            refused_move(error, from, to, &ids)
        })?;
    }
    Ok(())
}

fn too_large(id: &Bson) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        "a document has more than 100,000 related documents, or 32 MiB of them, which do not move in one transaction, so it stays, nothing was changed: keep it, or delete some of them",
    )
    .of_document(id.clone(), "")
}
