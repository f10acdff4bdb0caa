//! The filter of the documents to migrate.

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::Step;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};

/// The setting of a migration's record for the filter, as text, because its operators are not valid names of fields
/// everywhere.
pub const FILTER: &str = "filter";

/// Checks a filter on the server, which reads no document for it. One round trip, unless the filter is empty.
pub async fn check_filter(
    conn: &mut Conn<'_>,
    collection: &Collection<RawDocumentBuf>,
    filter: &Document,
) -> Result<()> {
    if filter.is_empty() {
        return Ok(());
    }
    let nothing = doc! { "$match": { "_id": { "$in": [] } } };
    let stages = [nothing, doc! { "$limit": 1 }, doc! { "$match": filter }];
    let checked = conn.read(Step::aggregate("check the filter", collection, stages)).await;
    let Err(error) = checked.map_err(Error::from) else {
        return Ok(());
    };
    // The server's text quotes the filter.
    match error.kind() {
        ErrorKind::Driver => Err(error.with_kind(ErrorKind::InvalidArgument).with_text(
            "the server refuses the filter, nothing was changed: try it with find() in the shell, without $where, $text and $near",
        )),
        _ => Err(error),
    }
}

/// Returns a filter of the documents that match both.
#[must_use]
pub fn and(one: Document, other: Document) -> Document {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other,
        (_, true) => one,
        _ => doc! { "$and": [one, other] },
    }
}

/// Adds the filter to the settings of a migration's record.
pub(super) fn record_filter(settings: &mut Document, filter: &Document) {
    if !filter.is_empty() {
        // Unlike the form for users, it escapes quotes: two filters have two texts.
        settings.insert(FILTER, format!("{filter:?}"));
    }
}

/// Returns the stage that selects the documents of a filter, if it selects.
pub fn selecting(filter: Document) -> Option<Document> {
    (!filter.is_empty()).then(|| doc! { "$match": filter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_filter_adds_nothing() {
        let a = doc! { "a": 1 };
        assert_eq!(and(doc! {}, a.clone()), a);
        assert_eq!(and(a.clone(), doc! {}), a);
        assert_eq!(and(a.clone(), doc! { "b": 2 }), doc! { "$and": [a, { "b": 2 }] });
        let mut settings = doc! {};
        record_filter(&mut settings, &doc! {});
        assert!(settings.is_empty() && selecting(doc! {}).is_none());
    }
}
