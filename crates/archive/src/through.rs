//! Documents that move into a collection, which other repositories bring up to date.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{self, Restores};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

/// The repositories of a call.
pub(crate) type Through<'a> = [&'a dyn Restores];

/// Checks that the repositories have the documents of the collection.
pub(crate) fn check(through: &Through<'_>, target: &Collection<RawDocumentBuf>) -> Result<()> {
    let mut others = through.iter();
    others.try_for_each(|other| through::check((target, "_id"), (other.restores(), "_id")))
}

/// Lets the repositories bring documents up to date, in the transaction of the connection.
pub(crate) async fn updated(
    through: &Through<'_>,
    mut documents: Vec<RawDocumentBuf>,
    conn: &mut Conn<'_>,
) -> Result<Vec<RawDocumentBuf>> {
    for other in through {
        documents = other.restore_in(documents, conn).await?;
    }
    Ok(documents)
}
