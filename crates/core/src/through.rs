//! Deletions and restorations through another repository of the same document.
//!
//! A document can belong to several patterns: a supplier is a source of references, and its deleted documents are kept in a
//! trash. The call of one repository then has the other one do its part, in one transaction:
//!
//! | call | through | effect |
//! |---|---|---|
//! | `delete_source`, `delete_parent`, `delete` of a list | a repository that [deletes](Deletes) | it deletes the document, such as a trash, which keeps it |
//! | `restore` of a trash, `restore` and `restore_many` of an archive | a repository that [restores](Restores) | it brings the document up to date, such as its references |
//! | `run` of an archive | one of the archived documents that [restores](Restores) | it brings the document up to date, such as a bucket that joins another one |
//!
//! The document itself and what depends on it change together, or not at all.

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::{Bson, RawDocumentBuf};

use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::repository::sealed::Sealed;

/// A repository that deletes a document for another one.
///
/// Other crates cannot implement it.
pub trait Deletes: Sealed + Send + Sync {
    /// Returns the collection of the documents, and the field with the id by which they are deleted.
    #[doc(hidden)]
    fn deletes(&self) -> (&Collection<RawDocumentBuf>, &str);

    /// Checks the indexes and the deployment, once, before the transaction.
    #[doc(hidden)]
    fn prepare(&self) -> BoxFuture<'_, Result<()>>;

    /// Deletes a document in the transaction of the connection. Returns whether it was found.
    #[doc(hidden)]
    fn delete_in<'a>(&'a self, id: &'a Bson, conn: &'a mut Conn<'_>) -> BoxFuture<'a, Result<bool>>;
}

/// A repository that brings restored documents up to date.
///
/// Other crates cannot implement it.
pub trait Restores: Sealed + Send + Sync {
    /// Returns the collection of the documents.
    #[doc(hidden)]
    fn restores(&self) -> &Collection<RawDocumentBuf>;

    /// Brings documents up to date in the transaction of the connection, before they are inserted.
    #[doc(hidden)]
    fn restore_in<'a>(
        &'a self,
        documents: Vec<RawDocumentBuf>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>>;
}

/// Prepares a deletion through another repository of the documents, if there is one. The own ones are deleted by `_id`.
///
/// # Errors
/// Those of [`check`], and those of the other repository.
#[doc(hidden)]
pub async fn prepare(own: &Collection<RawDocumentBuf>, other: Option<&dyn Deletes>) -> Result<()> {
    let Some(other) = other else { return Ok(()) };
    check((own, "_id"), other.deletes())?;
    other.prepare().await
}

/// Deletes a document that the transaction has found.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) when the other repository does not find it, and those of the other repository.
#[doc(hidden)]
pub async fn delete_found(other: &dyn Deletes, id: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    match other.delete_in(id, conn).await? {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Corrupt,
            "the repository of through(..) does not find the document, which is damaged for it, nothing was deleted: call its verify()",
        )
        .of_document(id.clone(), "")),
    }
}

/// Checks that two repositories have the same documents, by the same id.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument).
#[doc(hidden)]
pub fn check(own: (&Collection<RawDocumentBuf>, &str), other: (&Collection<RawDocumentBuf>, &str)) -> Result<()> {
    let [(own, id), (other, other_id)] = [own, other].map(|(collection, id)| (collection.namespace(), id));
    if own != other {
        let text = format!(
            "the documents are those of `{own}`, and the repository of through(..) has those of `{other}`, nothing was sent: pass one of the same collection"
        );
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    }
    if id != other_id {
        let text = format!(
            "the id is the field `{id}`, and that of the repository of through(..) is `{other_id}`, nothing was sent: pass one with the same id"
        );
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    }
    Ok(())
}
