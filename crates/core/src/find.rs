//! Reads with or without the caller's session.

use futures::TryStreamExt;
use mongodb::ClientSession;
use mongodb::action::Find;
use mongodb::bson::RawDocumentBuf;

/// All documents of a find, which should have a limit.
///
/// # Errors
/// Those of the driver.
pub async fn find_all(
    find: Find<'_, RawDocumentBuf>,
    session: Option<&mut ClientSession>,
) -> mongodb::error::Result<Vec<RawDocumentBuf>> {
    match session {
        None => find.await?.try_collect().await,
        Some(session) => {
            let mut cursor = find.session(&mut *session).await?;
            cursor.stream(session).try_collect().await
        }
    }
}
