//! The changes of the children, as a change stream tells them.

use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, error};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error as DriverError;
use mongodb::options::{
    FullDocumentBeforeChangeType, FullDocumentType, ReadConcern, ReadPreference, SelectionCriteria,
};
use std::time::Duration;

use crate::repository::Shared;
use crate::settings::Settings;

/// How many changes the server sends at once: as many as are worth to be brought together by parent, and few enough to
/// be held in memory.
const AT_ONCE: u32 = 10_000;

/// The server's codes for a place in its history that it cannot go on from: the oplog does not reach back so far, or it
/// is that of another server.
const LOST: [i32; 4] = [136, 260, 280, 286];

/// What a change means for the subsets.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// The subsets of these parents may be wrong: where the child was, and where it is.
    Parents(Vec<Bson>),
    /// The server does not have the child any more as it was, so its parent is not known.
    Unknown,
    /// The collection was dropped, or renamed.
    Dropped,
}

/// What of a change must travel: the parent before and after it. Where an image is missing, so is the whole document.
pub(crate) fn pipeline(settings: &Settings) -> [Document; 1] {
    let parent = settings.parent.as_str();
    [doc! { "$project": {
        "operationType": 1,
        format!("fullDocument.{parent}"): 1,
        format!("fullDocumentBeforeChange.{parent}"): 1,
    } }]
}

impl Change {
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
            let parent = child.get(settings.parent.as_str()).ok().flatten();
            // What cannot be the id of a parent has none.
            let parent = parent.and_then(|parent: RawBsonRef<'_>| Bson::try_from(parent).ok());
            let parent = parent
                .and_then(|parent| DocumentId::new(parent).ok())
                .map(DocumentId::into_bson);
            parents.extend(parent.filter(|parent| !parents.contains(parent)));
        }
        Self::Parents(parents)
    }
}

/// The changes after a place.
pub(crate) async fn watch(
    shared: &Shared,
    after: ResumeToken,
    patience: Duration,
) -> Result<ChangeStream<RawDocumentBuf>> {
    open(shared, Some(after), AT_ONCE, patience).await
}

/// The place after all that has happened so far.
pub(crate) async fn now(shared: &Shared) -> Result<ResumeToken> {
    let stream = open(shared, None, 0, Duration::ZERO).await?;
    stream.resume_token().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the server does not tell where its change stream begins: it needs MongoDB 6.0",
        )
    })
}

async fn open(
    shared: &Shared,
    after: Option<ResumeToken>,
    at_once: u32,
    patience: Duration,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let watch = shared
        .children
        .watch()
        .pipeline(pipeline(&shared.settings))
        .full_document(FullDocumentType::WhenAvailable)
        .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
        .resume_after(after)
        .batch_size(at_once)
        .max_await_time(patience)
        // Whatever those of the collection are: a change stream takes no other concern.
        .read_concern(ReadConcern::majority())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    Ok(watch.await.map_err(failed)?.with_type())
}

/// The error of a change stream.
pub(crate) fn failed(error: DriverError) -> Error {
    if error::code(&error).is_some_and(|code| LOST.contains(&code)) {
        return lost().caused_by(error);
    }
    error.into()
}

/// That it cannot be told what has happened.
pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::HistoryLost,
        "the server does not have all changes any more since the follower's last one, so subsets may be wrong: run it once without disable_rebuild(), which makes them all anew; where it was, keep a longer oplog and older pre-images",
    )
}

/// That there is nothing to follow any more.
pub(crate) fn dropped() -> Error {
    Error::new(
        ErrorKind::CollectionDropped,
        "the collection of the children was dropped or renamed: create it with ensure_indexes() and follow again, which begins as for the first time",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::rawdoc;

    #[test]
    fn only_parents_travel() {
        assert_eq!(
            pipeline(&Settings::example()),
            [doc! { "$project": {
                "operationType": 1,
                "fullDocument.product_id": 1,
                "fullDocumentBeforeChange.product_id": 1,
            } }]
        );
    }

    #[test]
    fn a_change_has_the_parents_before_and_after_it() {
        let settings = Settings::example();
        let of = |event: RawDocumentBuf| Change::of(&settings, &event);
        let parents = |ids: &[i32]| Change::Parents(ids.iter().copied().map(Bson::Int32).collect());
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
                Change::Unknown
            );
        }
        assert_eq!(of(rawdoc! { "operationType": "delete" }), Change::Unknown);
        for operation in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(of(rawdoc! { "operationType": operation }), Change::Dropped);
        }
        assert_eq!(of(rawdoc! { "operationType": "of a later server" }), parents(&[]));
    }
}
