//! The replacement of a document, or its insert, with its revision.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::ClientSession;
use mongodb::bson::Document;

use super::behind;
use super::change::{Attempt, Request, no_match};
use super::insert::Insert;
use super::record::{Behind, finish};
use crate::form::document::Encoded;
use crate::query::change::Change;
use crate::repository::Shared;
use crate::results::Recorded;

/// Replaces a document, or inserts it if it does not exist.
pub(crate) async fn upsert(
    shared: &Shared,
    encoded: &Encoded,
    session: Option<&mut ClientSession>,
) -> Result<Recorded> {
    shared.check_write().await?;
    shared.others().await?;
    let mut conn = shared.enter(&encoded.id, session).await?;
    let mut content = encoded.document.clone();
    content.remove("_id");
    upsert_in_lane(shared, encoded, Change::Replace(content), None, &mut conn).await
}

/// Does what [`upsert`] does, in the lane of the document, by this change if the document exists. With an expected revision,
/// it must exist.
pub(crate) async fn upsert_in_lane(
    shared: &Shared,
    encoded: &Encoded,
    change: Change,
    expected: Option<u64>,
    conn: &mut Conn<'_>,
) -> Result<Recorded> {
    let restores = matches!(change, Change::Restore(_));
    let request = Request {
        change,
        expected,
        filter: Document::new(),
        with: encoded.with.clone(),
    };
    let mut upsert = Upsert {
        attempt: Attempt::new(shared, &encoded.id, &request).await?,
        // The attempt has read it.
        insert: Insert {
            shared,
            encoded,
            reads_current: false,
            restores,
        },
        may_insert: expected.is_none(),
    };
    let done = behind::run(shared, &encoded.id, conn, &mut upsert, |conn, upsert, behind| {
        Box::pin(upsert.attempt(behind, conn))
    });
    done.await
}

struct Upsert<'a> {
    attempt: Attempt<'a>,
    insert: Insert<'a>,
    may_insert: bool,
}

impl Upsert<'_> {
    async fn attempt(&mut self, behind: &mut Behind, conn: &mut Conn<'_>) -> Result<Recorded> {
        match self.attempt.send(None, conn).await {
            Err(error) if error.kind() == ErrorKind::NotFound && self.may_insert => {
                let inserted = self.insert.attempt(conn).await;
                // Another program has marked it as deleted.
                let is_marked = |error: &Error| error.kind() == ErrorKind::AlreadyExists;
                inserted.map_err(|error| if is_marked(&error) { no_match() } else { error })
            }
            changed => {
                let changed = changed?;
                finish(self.insert.shared, &changed, behind, conn).await?;
                Ok(changed.head.into())
            }
        }
    }
}
