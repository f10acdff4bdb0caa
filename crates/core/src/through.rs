//! Deletions and restorations through another repository of the same document.
//!
//! A document can belong to several patterns: a supplier is a source of references, and deleted suppliers are kept in a
//! trash. The call of one repository then has the other repository do its part, in one transaction:
//!
//! | call | through | effect |
//! |---|---|---|
//! | `delete_source`, `delete_parent`, `delete` of a list | a repository that [deletes](Deletes) | it deletes the document, such as a trash, which keeps it |
//! | `restore` of a trash, `restore` and `restore_many` of an archive | a repository that [restores](Restores) | it brings the document up to date, such as its references |
//! | `run` of an archive | one of the archived documents that [restores](Restores) | it brings the document up to date, such as a bucket that joins another one |
//!
//! The document and its dependents change together, or not at all. A document of more than two patterns has a `through(..)`
//! for each further one.

use std::sync::Arc;

use futures::future::BoxFuture;
use mongodb::bson::{Bson, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use crate::catalog::Others;
#[doc(hidden)]
pub use crate::catalog::Place;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::repository::sealed::Sealed;

/// A repository that deletes a document for another repository.
///
/// Other crates cannot implement it.
pub trait Deletes: Sealed + Send + Sync {
    /// Returns the collection of the documents, and the field with the id by which they are deleted.
    #[doc(hidden)]
    fn deletes(&self) -> (&Collection<RawDocumentBuf>, &str);

    /// Returns whether the documents of another collection that depend on a document are deleted with it.
    #[doc(hidden)]
    fn deletes_related(&self, collection: &Namespace) -> bool;

    /// Returns when it deletes, of all that have a part in the deletion of a document.
    #[doc(hidden)]
    fn place(&self) -> Place;

    /// Checks the indexes and the deployment, once, before the transaction.
    #[doc(hidden)]
    fn prepare(&self) -> BoxFuture<'_, Result<()>>;

    /// Deletes a document in the transaction of the connection, through further repositories. Returns whether it was found.
    #[doc(hidden)]
    fn delete_in<'a>(
        &'a self,
        id: &'a Bson,
        through: &'a Through<'a>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<bool>>;
}

/// The repositories of a deletion, in the order of their places. The last one deletes the document, and the others its
/// dependents.
#[doc(hidden)]
pub type Through<'a> = [&'a dyn Deletes];

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

/// Prepares a deletion through other repositories of the documents, and puts them in order. `own` is the id and the place of
/// the repository of the call. Refuses a deletion that would leave dependents.
#[doc(hidden)]
pub async fn prepare(
    own: (&Collection<RawDocumentBuf>, &str, Place),
    others: impl Future<Output = Result<Arc<Others>>> + Send,
    through: &mut Through<'_>,
) -> Result<()> {
    let (collection, id, own) = own;
    through.sort_by_key(|other| other.place());
    for other in through.iter() {
        check((collection, id), other.deletes())?;
    }
    let keeps_twice = |pair: &[&dyn Deletes]| pair[0].place() == pair[1].place() && pair[0].place() > Place::Parts;
    if through.windows(2).any(keeps_twice)
        || (own == Place::History && through.iter().any(|other| other.place() == own))
    {
        let text = "two repositories of through(..) would keep the document, nothing was sent: pass one trash, and one history";
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    }
    // One before this call would delete its parts too late.
    let has_part = |other: &&dyn Deletes| other.place() >= own;
    let is_related = |collection: &Namespace| {
        let mut others = through.iter().filter(|other| has_part(other));
        others.any(|other| other.deletes_related(collection))
    };
    others.await?.check_delete(Some(own), is_related)?;
    for other in through.iter() {
        other.prepare().await.map_err(of_another)?;
    }
    Ok(())
}

/// Adds to the error of a missing index that it is one of another repository.
fn of_another(error: Error) -> Error {
    match error.kind() {
        ErrorKind::IndexMissing => {
            let text = error.to_string();
            error.with_text(format!("of a repository of through(..), {text}"))
        }
        _ => error,
    }
}

/// Deletes what depends on a document that the transaction has not found, by the repositories of its parts.
#[doc(hidden)]
pub async fn delete_left(through: &Through<'_>, id: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    for other in through.iter().filter(|other| other.place() == Place::Parts) {
        other.delete_in(id, &[], conn).await?;
    }
    Ok(())
}

/// Deletes a document that the transaction has found through other repositories, if there are any.
#[doc(hidden)]
pub async fn delete_found(through: &Through<'_>, id: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    let Some((other, rest)) = through.split_first() else {
        return Ok(());
    };
    match other.delete_in(id, rest, conn).await? {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Corrupt,
            "the repository of through(..) does not find the document, which is damaged for it, nothing was deleted: call its verify()",
        )
        .of_document(id.clone(), "")),
    }
}

/// Checks that two repositories have the same documents, by the same id.
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
