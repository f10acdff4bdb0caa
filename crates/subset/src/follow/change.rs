//! The change stream of the children.
//!
//! # Design
//!
//! ## What happens if the image of a changed child is missing?
//!
//! The parent of the child is then unknown, so the follower rebuilds all subsets.

use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::options::{FullDocumentBeforeChangeType, FullDocumentType};

use crate::query::follow;
use crate::repository::prelude::*;

/// The maximum number of changes in a batch of the server: enough to group them by parent, and few enough for memory.
const BATCH: u32 = 10_000;

/// The server's codes for a position from which it cannot resume: its oplog does not reach back far enough, or belongs
/// to another server.
const HISTORY_LOST: [i32; 4] = [136, 260, 280, 286];

/// The effect of a change on subsets.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// The subsets of these parents may be stale: the parents of the child before and after the change.
    Stale(Vec<Bson>),
    /// An image of the child is missing, so its parent is unknown.
    Unknown,
    Dropped,
}

impl Effect {
    pub(crate) fn of(settings: &Settings, event: &RawDocument) -> Self {
        let (before, after) = ("fullDocumentBeforeChange", "fullDocument");
        let needed: &[&str] = match event.get_str("operationType") {
            Ok("insert") => &[after],
            Ok("update" | "replace") => &[before, after],
            Ok("delete") => &[before],
            Ok("drop" | "rename" | "dropDatabase" | "invalidate") => return Self::Dropped,
            _ => &[],
        };
        let mut parents = Vec::with_capacity(2);
        for image in needed {
            let Ok(child) = event.get_document(image) else {
                return Self::Unknown;
            };
            // A value that cannot be an id belongs to no parent.
            let parent = value(child, &settings.parent).and_then(|parent| DocumentId::new(parent).ok());
            let parent = parent.map(DocumentId::into_bson);
            parents.extend(parent.filter(|parent| !parents.contains(parent)));
        }
        Self::Stale(parents)
    }
}

pub(super) async fn watch(
    shared: &Shared,
    after: ResumeToken,
    max_await_time: Duration,
) -> Result<ChangeStream<RawDocumentBuf>> {
    open(shared, Some(after), BATCH, max_await_time).await
}

/// Returns the position after all changes so far.
pub(super) async fn now(shared: &Shared) -> Result<ResumeToken> {
    let stream = open(shared, None, 0, Duration::ZERO).await?;
    stream.resume_token().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the server does not report where its change stream begins: update it to MongoDB 6.0",
        )
    })
}

async fn open(
    shared: &Shared,
    after: Option<ResumeToken>,
    batch_size: u32,
    max_await_time: Duration,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let watch = shared
        .children
        .watch()
        .pipeline(follow::changes(&shared.settings))
        .full_document(FullDocumentType::WhenAvailable)
        .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
        .resume_after(after)
        .batch_size(batch_size)
        .max_await_time(max_await_time)
        // A change stream accepts no other read concern.
        .read_concern(ReadConcern::majority())
        .selection_criteria(primary());
    Ok(watch.await.map_err(CommandError::of_read).map_err(failed)?.with_type())
}

pub(super) fn failed(error: CommandError) -> Error {
    if error::code(&error).is_some_and(|code| HISTORY_LOST.contains(&code)) {
        return lost().caused_by(error);
    }
    error.into()
}

pub(super) fn lost() -> Error {
    Error::new(
        ErrorKind::HistoryLost,
        "the server no longer has all changes since the follower's last one, so subsets may be stale: run the follower once without disable_rebuild(), which rebuilds them all; if this happens again, keep a longer oplog and older pre-images",
    )
}

/// Creates the error for a collection that no longer exists.
pub(super) fn dropped() -> Error {
    Error::new(
        ErrorKind::CollectionDropped,
        "the collection of the children was dropped or renamed: create it with ensure_indexes(), and follow again from the start",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::rawdoc;

    #[test]
    fn a_change_has_the_parents_before_and_after_it() {
        let settings = Settings::example();
        let of = |event: RawDocumentBuf| Effect::of(&settings, &event);
        let parents = |ids: &[i32]| Effect::Stale(ids.iter().copied().map(Bson::Int32).collect());
        let (one, two) = (rawdoc! { "product_id": 1 }, rawdoc! { "product_id": 2 });
        let insert = rawdoc! { "operationType": "insert", "fullDocument": one.clone() };
        assert_eq!(of(insert), parents(&[1]));
        let delete = rawdoc! { "operationType": "delete", "fullDocumentBeforeChange": one.clone() };
        assert_eq!(of(delete), parents(&[1]));
        for operation in ["update", "replace"] {
            let change = |before: RawDocumentBuf, after: RawDocumentBuf| {
                of(rawdoc! { "operationType": operation, "fullDocumentBeforeChange": before, "fullDocument": after })
            };
            assert_eq!(change(one.clone(), one.clone()), parents(&[1]));
            assert_eq!(change(one.clone(), two.clone()), parents(&[1, 2]));
            assert_eq!(change(rawdoc! {}, two.clone()), parents(&[2]));
            assert_eq!(
                change(rawdoc! { "product_id": [1] }, rawdoc! { "product_id": null }),
                parents(&[])
            );
            assert_eq!(
                of(rawdoc! { "operationType": operation, "fullDocument": one.clone() }),
                Effect::Unknown
            );
        }
        assert_eq!(of(rawdoc! { "operationType": "delete" }), Effect::Unknown);
        for operation in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(of(rawdoc! { "operationType": operation }), Effect::Dropped);
        }
        assert_eq!(of(rawdoc! { "operationType": "of a later server" }), parents(&[]));
    }
}
