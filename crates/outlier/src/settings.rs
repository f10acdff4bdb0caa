//! The settings of a repository, checked.

use std::time::Duration;

use mongo_patterns_core::catalog::{OwnField, OwnFields, Owned};
use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Namespace};

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) main: Namespace,
    pub(crate) overflow: Namespace,
    /// The array of a main document.
    pub(crate) array: FieldName,
    /// Whether a main document has overflow documents.
    pub(crate) flag: FieldName,
    /// The `_id` of the main document, in an overflow document.
    pub(crate) parent: FieldName,
    /// The array of an overflow document.
    pub(crate) extras: FieldName,
    /// The position of an overflow document in its list, from 0.
    pub(crate) seq: FieldName,
    /// The number of elements in an overflow document.
    pub(crate) count: FieldName,
    pub(crate) threshold: u32,
    pub(crate) max_overflow_elements: u32,
    /// Whether a list has each element once.
    pub(crate) unique: bool,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// The name of the index of the positions. Writes name it in their hint.
    pub(crate) seq_index: String,
}

pub(crate) fn seq_index(parent: &FieldName, seq: &FieldName) -> String {
    format!("{parent}_1_{seq}_1")
}

impl Settings {
    /// Returns the fields of an overflow document: parent, elements, position and count.
    pub(crate) fn overflow_fields(&self) -> [&str; 4] {
        [&self.parent, &self.extras, &self.seq, &self.count].map(FieldName::as_str)
    }

    pub(crate) fn threshold_bson(&self) -> i32 {
        i32::try_from(self.threshold).unwrap_or(i32::MAX)
    }

    /// Returns the bound of an overflow document as a number of an expression.
    pub(crate) fn max_extras_bson(&self) -> i32 {
        i32::try_from(self.max_overflow_elements).unwrap_or(i32::MAX)
    }

    /// Returns the name of the index of the elements, where they are unique.
    pub(crate) fn element_index(&self) -> Option<String> {
        self.unique.then(|| format!("{}_1_{}_1", self.parent, self.extras))
    }

    /// Returns the fields that an overflow document of any form has, by their settings.
    pub(crate) fn fields_of_overflow(&self) -> Vec<(&'static str, &str)> {
        vec![("parent", self.parent.as_str()), ("extras", self.extras.as_str())]
    }

    /// Returns the fields of the main documents that only repositories write.
    pub(crate) fn own_fields<'a>(&'a self, main: &'a Collection<RawDocumentBuf>) -> OwnFields<'a> {
        // The manual's flag is the text "true".
        let flags: Vec<Bson> = vec![true.into(), false.into(), "true".into(), "false".into()];
        let flag = OwnField {
            setting: "flag",
            name: self.flag.as_str(),
            is_own: doc! { "$in": [{ "$ifNull": [format!("${}", self.flag), false] }, flags] },
        };
        OwnFields {
            collection: main,
            fields: vec![flag],
        }
    }

    /// Returns what no other repository may own.
    pub(crate) fn owned(&self, main: &Collection<RawDocumentBuf>, overflow: &Collection<RawDocumentBuf>) -> Vec<Owned> {
        vec![
            Owned::parents(main).with_dependents("delete", Some(overflow)),
            Owned::field(main, self.array.as_str(), "array_field"),
            Owned::field(main, self.flag.as_str(), "flag_field"),
            Owned::collection(overflow),
            Owned::overflow(overflow),
        ]
    }

    /// Returns the settings of the stored form.
    pub(crate) fn stored_form(&self, overflow: &str) -> Document {
        doc! {
            "array": self.array.as_str(),
            "flag": self.flag.as_str(),
            "extras_collection": overflow,
            "parent": self.parent.as_str(),
            "extras": self.extras.as_str(),
            "seq": self.seq.as_str(),
            "count": self.count.as_str(),
            "threshold": self.threshold_bson(),
            "max_extras_elements": self.max_extras_bson(),
            "unique": self.unique,
        }
    }

    /// Returns the indexes of the overflow documents.
    pub(crate) fn indexes(&self) -> Vec<PlannedIndex> {
        let [parent, extras, seq, count] = self.overflow_fields();
        let mut indexes = vec![PlannedIndex::new(&self.seq_index, doc! { parent: 1, seq: 1 }).unique()];
        if let Some(name) = self.element_index() {
            let index = PlannedIndex::new(name, doc! { parent: 1, extras: 1 }).unique();
            // An empty array has an entry too, so that a list could have only one empty overflow document.
            indexes.push(index.partial(doc! { count: { "$gt": 0 } }));
        }
        indexes
    }
}

#[cfg(any(test, fuzzing))]
impl Settings {
    /// The settings of the manual's example.
    pub(crate) fn example() -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        Self {
            main: Namespace::new("shop", "sales"),
            overflow: Namespace::new("shop", "extra_sales"),
            array: field("customers_purchased"),
            flag: field("has_extras"),
            parent: field("book_id"),
            extras: field("customers_purchased_extra"),
            seq: field("seq"),
            count: field("count"),
            threshold: 50,
            max_overflow_elements: 500,
            unique: false,
            retry: RetryPolicy::default(),
            max_time: None,
            seq_index: seq_index(&field("book_id"), &field("seq")),
        }
    }
}
