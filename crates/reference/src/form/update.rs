//! Updates of a source.
//!
//! # Design
//!
//! ## Why no pipelines?
//!
//! A pipeline has no `$inc` for the version, and the paths of operators show whether the update can change a copied field.

use mongo_patterns_core::Result;
use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::update::{Change, Operators};
use mongodb::bson::{Bson, Document};
use mongodb::options::UpdateModifications;

use crate::settings::{MARK, Settings, invalid_argument};

const OWN: &str = "the update changes the version of the source or the mark of a deletion, which the repository writes itself, nothing was sent: omit it";
const OWN_ID: &str = "the update changes the `_id` of the source, which is immutable, nothing was sent: omit it";
const NESTED_KEY: &str = "the update makes the source key a document or an array, by which no document can refer to the source, nothing was sent: set it to another value";

/// An update of a source, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceUpdate {
    operators: Document,
    /// Whether it can change a copied field.
    pub(crate) changes_copies: bool,
}

impl SourceUpdate {
    pub(crate) fn new(settings: &Settings, others: &Others, update: UpdateModifications) -> Result<Self> {
        let UpdateModifications::Document(update) = update else {
            return Err(invalid_argument(
                "a source cannot be updated by a pipeline, nothing was sent: use update operators, such as `doc! { \"$set\": { \"field\": value } }`",
            ));
        };
        let mut fixed = vec![(settings.version.as_str(), OWN), (MARK, OWN), ("_id", OWN_ID)];
        fixed.extend(others.fixed());
        let operators = Operators::new(update, &fixed)?;
        let is_nested = |change: Change<'_>| {
            let is_value = matches!(change.value, Bson::Document(_) | Bson::Array(_));
            is_value || !change.is_whole || change.operator.is_of_arrays()
        };
        if let Some(key) = &settings.key
            && operators.changes_of(key.as_str()).any(is_nested)
        {
            return Err(invalid_argument(NESTED_KEY));
        }
        let mut copied = settings.followed().flat_map(|field| &field.copied);
        Ok(Self {
            changes_copies: copied.any(|copied| copied.source.is_changed_by(&operators)),
            operators: operators.under(""),
        })
    }

    /// The increment of the version alone, of a source that another program has changed.
    pub(crate) fn of_version() -> Self {
        Self {
            operators: Document::new(),
            changes_copies: true,
        }
    }

    pub(crate) fn is_of_version(&self) -> bool {
        self.operators.is_empty()
    }

    /// Returns the update to send. Increments the version if a copied field can change.
    pub(crate) fn to_document(&self, settings: &Settings) -> Document {
        let mut update = self.operators.clone();
        if self.changes_copies {
            let increments = update.entry("$inc").or_insert_with(|| Document::new().into());
            if let Bson::Document(increments) = increments {
                increments.insert(settings.version.as_str(), 1_i64);
            }
        }
        update
    }
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;
    use mongodb::bson::doc;

    use super::*;
    use crate::settings::tests::example;

    fn sent(update: Document) -> Document {
        let settings = example();
        let update = SourceUpdate::new(&settings, &Others::default(), update.into()).unwrap();
        update.to_document(&settings)
    }

    #[test]
    fn the_version_is_incremented_for_copied_fields_alone() {
        assert_eq!(
            sent(doc! { "$set": { "name": "Ann" }, "$inc": { "visits": 1 } }),
            doc! { "$set": { "name": "Ann" }, "$inc": { "visits": 1, "v": 1_i64 } }
        );
        assert_eq!(
            sent(doc! { "$unset": { "address": "" } }),
            doc! { "$unset": { "address": "" }, "$inc": { "v": 1_i64 } }
        );
        let other = doc! { "$set": { "address.zip": "D1" } };
        assert_eq!(sent(other.clone()), other);
    }

    #[test]
    fn snapshots_do_not_count_as_copied() {
        let mut settings = example();
        settings
            .references
            .iter_mut()
            .for_each(|field| field.is_snapshot = true);
        let update =
            SourceUpdate::new(&settings, &Others::default(), doc! { "$set": { "name": "Ann" } }.into()).unwrap();
        assert!(!update.changes_copies);
    }

    #[test]
    fn the_fields_of_the_pattern_cannot_be_changed() {
        let refused = |update: UpdateModifications| {
            let error = SourceUpdate::new(&example(), &Others::default(), update).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            error.to_string()
        };
        for field in ["v", "v.x", "_id", MARK] {
            for operator in ["$set", "$unset", "$inc", "$push"] {
                refused(doc! { operator: { field: 1 } }.into());
            }
        }
        assert!(refused(doc! { "name": "Ann" }.into()).contains("$set"));
        assert!(refused(doc! {}.into()).contains("names no field"));
        assert!(refused(vec![doc! { "$set": { "name": "Ann" } }].into()).contains("pipeline"));
    }
}
