//! The entries of related documents in a trash.
//!
//! # Design
//!
//! ## Why does the entry of a document count them?
//!
//! The server deletes expired entries one by one, and `delete_before` deletes them by several commands. So a restore
//! compares their number, and restores all or nothing.
//!
//! ## Why does a deletion in a transaction of the caller read them first?
//!
//! The caller can commit in spite of an error. So it deletes the document only when it knows that all entries fit. Otherwise
//! it deletes the document first: its snapshot is then the latest one, also when it had to wait for a writer.
//!
//! ## Why does a further attempt lock them?
//!
//! A push to a known list writes an overflow document alone, again and again. A deletion that reads them and then deletes
//! them would conflict with each push in between.

use std::slice::from_ref;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, refused_document, refused_move};
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::size::MAX_BYTES;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::transaction::lock_documents;
use mongo_patterns_core::{Deleted, Error, ErrorKind, Remedy, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, RawDocument, RawDocumentBuf, doc};
use mongodb::options::FindOptions;

use crate::entry::{COLLECTION, DATABASE, Entry, OF, RELATED, document_of};
use crate::related::{self, RelatedDocuments};
use crate::trash::Shared;

/// The entries of the related documents of a document that is deleted.
#[derive(Default)]
pub(crate) struct RelatedEntries {
    /// What finds the documents.
    related: Vec<RelatedDocuments>,
    entries: Vec<RawDocumentBuf>,
    /// The collection and the `_id` of each document.
    origins: Vec<(Collection<RawDocumentBuf>, Bson)>,
}

impl RelatedEntries {
    /// Reads the related documents of a document.
    pub(crate) async fn read(shared: &Shared, id: &Bson, entry: &Entry, conn: &mut Conn<'_>) -> Result<Self> {
        let mut read = Self::default();
        if !shared.has_related() {
            return Ok(read);
        }
        let document = RawDocumentBuf::try_from(&doc! { "_id": id }).map_err(CommandError::from)?;
        let related = shared.related.read(&[document], false, conn).await;
        read.related = related.map_err(|error| error.of_collection(&shared.current))?;
        let database = &shared.trash.namespace().db;
        for one in &mut read.related {
            for document in std::mem::take(&mut one.documents) {
                let stored = entry.with_related(&one.from.namespace(), database, &document);
                let id = id_of(&document);
                if stored.as_bytes().len() > MAX_BYTES {
                    return Err(too_large(id).of_collection(&one.from));
                }
                read.entries.push(stored);
                read.origins.push((one.from.clone(), id));
            }
        }
        Ok(read)
    }

    /// Deletes the related documents.
    pub(crate) async fn delete_documents(&self, conn: &mut Conn<'_>) -> Result<()> {
        related::delete(&self.related, conn).await
    }

    /// Inserts the entry of a document, and the entries of its related documents.
    pub(crate) async fn insert_with(
        self,
        shared: &Shared,
        entry: &Entry,
        document: &RawDocument,
        conn: &mut Conn<'_>,
    ) -> Result<Deleted> {
        let Shared { current, trash, .. } = shared;
        let mut origins = vec![(current.clone(), id_of(document))];
        origins.extend(self.origins);
        let entry = Entry {
            related: entry.related.map(|_| self.entries.len() as i64),
            ..entry.clone()
        };
        let own = entry.with(document);
        let inserted = match self.entries.is_empty() {
            true => conn.insert_one(trash, own, None).await.map(drop),
            false => {
                let entries: Vec<_> = [own].into_iter().chain(self.entries).collect();
                conn.insert_many(trash, entries, None).await.map(drop)
            }
        };
        inserted.map_err(|error| {
            let refused = refused_document(&error).and_then(|number| origins.get(number));
            let (from, id) = refused.unwrap_or(&origins[0]);
            refused_move(error, from, trash, from_ref(id))
        })?;
        Ok(Deleted::new(origins.len() as u64))
    }
}

/// Locks the related documents of a document.
pub(crate) async fn lock(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    for one in &shared.related.collections {
        lock_documents(conn, &one.current, &one.with_ids(from_ref(id))).await?;
    }
    Ok(())
}

/// Checks that an entry is of a document of the trash, and that the trash restores all that belongs to it.
pub(crate) fn check(shared: &Shared, entry: &RawDocument) -> Result<()> {
    match !is_related(entry) && (shared.has_related() || count(entry) == 0) {
        true => Ok(()),
        false => Err(not_related().of_collection(&shared.trash)),
    }
}

/// Reads the related documents that were deleted with the document of an entry, by the collections into which they are
/// restored. Refuses an entry whose related documents are gone, or of another collection.
pub(crate) async fn find(shared: &Shared, entry: &RawDocument, conn: &mut Conn<'_>) -> Result<Vec<RelatedDocuments>> {
    let mut found: Vec<RelatedDocuments> = Vec::new();
    let (trash, expected) = (&shared.trash, count(entry));
    if expected == 0 {
        return Ok(found);
    }
    let filter = doc! { OF: { "$eq": id_of(entry) } };
    let find = Step::find(
        "read the related entries",
        trash,
        filter.clone(),
        FindOptions::default(),
    );
    let most = usize::try_from(expected).unwrap_or(0);
    let entries = conn.read(find.up_to(most)).await?.documents;
    if entries.len() as i64 != expected {
        return Err(incomplete(document_of(entry).map_or(Bson::Null, id_of)).of_collection(trash));
    }
    for entry in &entries {
        let text = |field| entry.get_str(field).ok();
        let database = text(DATABASE).unwrap_or(&trash.namespace().db).to_owned();
        let is_own = |collection: &Collection<_>| {
            collection.namespace().db == database && Some(collection.name()) == text(COLLECTION)
        };
        let mut collections = shared.related.collections.iter().map(|one| &one.current);
        let to = collections.find(|one| is_own(one)).ok_or_else(not_related)?;
        let document = document_of(entry)
            .map_err(|error| error.of_collection(trash))?
            .to_owned();
        match found.iter_mut().find(|one| one.to.namespace() == to.namespace()) {
            Some(one) => one.documents.push(document),
            None => found.push(RelatedDocuments {
                from: trash.clone(),
                to: to.clone(),
                filter: filter.clone(),
                count: most,
                documents: vec![document],
            }),
        }
    }
    Ok(found)
}

/// Restores the related documents that were found, and deletes their entries.
pub(crate) async fn restore(found: &[RelatedDocuments], conn: &mut Conn<'_>) -> Result<()> {
    // One filter finds all entries.
    related::delete(&found[..found.len().min(1)], conn).await?;
    related::insert(found, conn).await
}

fn is_related(entry: &RawDocument) -> bool {
    entry.get(OF).ok().flatten().is_some()
}

/// Returns how many related documents were deleted with the document of an entry.
pub(crate) fn count(entry: &RawDocument) -> i64 {
    entry.get(RELATED).ok().flatten().and_then(stored_integer).unwrap_or(0)
}

fn too_large(id: Bson) -> Error {
    let text = "a related document with its deletion would pass MongoDB's limit of 16 MiB, nothing was changed: remove a part of it first";
    Error::new(ErrorKind::TooLarge, text).of_document(id, "")
}

fn incomplete(id: Bson) -> Error {
    let text = "some of the related documents that were deleted with the document are gone from the trash, because the entries expire or are being deleted, nothing was restored: insert the document again";
    Error::new(ErrorKind::NotFound, text).of_document(id, "document")
}

fn not_related() -> Error {
    let text = "an entry of the trash is that of a related document, or has some, of a collection that is not one of the trash's, nothing was changed: build the trash with all collections that its entries name, by related(..)";
    Error::new(ErrorKind::SettingsMismatch, text).with_remedy(Remedy::CheckSettings)
}
