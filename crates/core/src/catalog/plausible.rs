//! Checks that settings fit stored data that has no entry in the catalog.
//!
//! # Design
//!
//! ## Why is a repair of a tenth of a collection refused?
//!
//! A collection without an entry was written by other programs. If a tenth of its documents have the same problem, a
//! wrong setting is more likely than a fault, and the repair would rewrite correct data by it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Display;
use std::mem::{Discriminant, discriminant};

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use crate::error::{Error, ErrorKind, Result};
use crate::migration::{Step, Steps, number};

/// The number of documents in a sample.
const SAMPLE: i32 = 1000;
/// The most lists with the same problem that are never refused.
const FEW: u64 = 10;

/// Checks that at least one document of a sample has each field, or that the collection is empty. A field can be a path
/// into an array. One round trip, in which the server reads up to 1000 documents, or a collection of less than 20,000.
///
/// # Errors
/// [`SettingsMismatch`](ErrorKind::SettingsMismatch).
#[doc(hidden)]
pub async fn check_fields(
    steps: &mut Steps<'_, '_>,
    collection: &Collection<RawDocumentBuf>,
    fields: &[(&'static str, &str)],
) -> Result<()> {
    let mut group = doc! { "_id": null, "documents": { "$sum": 1 } };
    for (setting, path) in fields {
        let value = format!("${path}");
        let mut has = vec![doc! { "$ne": [{ "$type": &value }, "missing"] }];
        if path.contains('.') {
            // The value of a path into an array is the array of all elements that have the field.
            has.push(doc! { "$ne": [&value, []] });
        }
        group.insert(*setting, doc! { "$sum": { "$cond": [{ "$and": has }, 1, 0] } });
    }
    let stages = [doc! { "$sample": { "size": SAMPLE } }, doc! { "$group": group }];
    let sample = Step::aggregate("look for the fields in a sample", collection, stages);
    let found = steps.read(sample).await?.first()?;
    missing(&found, collection, fields).map_or(Ok(()), Err)
}

fn missing(
    found: &Document,
    collection: &Collection<RawDocumentBuf>,
    fields: &[(&'static str, &str)],
) -> Option<Error> {
    let documents = number(found, "documents");
    let (setting, path) = fields.iter().find(|(setting, _)| number(found, setting) == 0)?;
    let error = || {
        implausible(format!(
            "none of {documents} sampled documents of `{}` has the field `{path}`, which is the setting `{setting}`",
            collection.namespace()
        ))
    };
    (documents > 0).then(error)
}

/// Creates the error of settings that do not fit the stored data.
#[doc(hidden)]
pub fn implausible(reason: impl Display) -> Error {
    Error::new(
        ErrorKind::SettingsMismatch,
        format!(
            "{reason}, and the collection has no entry in the catalog, nothing was written: correct the settings; if they are right, read the dry run and call force(), or call ensure_indexes().replace_settings()"
        ),
    )
}

/// Counts the findings of one kind in a collection.
#[doc(hidden)]
#[derive(Debug)]
pub struct Tally<P> {
    total: u64,
    /// The first problem of each kind, and the number of all.
    counts: HashMap<Discriminant<P>, (String, u64)>,
}

impl<P: Display> Tally<P> {
    /// Starts to count, in a collection of about this many documents.
    pub fn of(total: u64) -> Self {
        Self {
            total,
            counts: HashMap::new(),
        }
    }

    /// Counts the problem of one document.
    ///
    /// # Errors
    /// [`SettingsMismatch`](ErrorKind::SettingsMismatch) when more than a tenth of the documents have one of the kind.
    pub fn add(&mut self, problem: &P) -> Result<()> {
        let (_, count) = self
            .counts
            .entry(discriminant(problem))
            .or_insert_with(|| (problem.to_string(), 0));
        *count += 1;
        match *count > FEW.max(self.total / 10) {
            true => Err(self.refused()),
            false => Ok(()),
        }
    }

    fn refused(&self) -> Error {
        let mut counts: Vec<&(String, u64)> = self.counts.values().collect();
        counts.sort_by_key(|(problem, count)| (Reverse(*count), problem));
        let counts: Vec<String> = counts
            .iter()
            .map(|(problem, count)| format!("{count}: {problem}"))
            .collect();
        implausible(format!(
            "more than a tenth of {} documents have a problem of one kind; the first documents have these: {}",
            self.total,
            counts.join("; ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Problem {
        Count,
        Other,
    }

    impl Display for Problem {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(match self {
                Self::Count => "the count is wrong",
                Self::Other => "other",
            })
        }
    }

    #[test]
    fn a_tenth_with_one_problem_is_too_many_and_a_few_are_not() {
        let mut tally = Tally::of(1000);
        (0..100).for_each(|_| tally.add(&Problem::Count).unwrap());
        tally.add(&Problem::Other).unwrap();
        let error = tally.add(&Problem::Count).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
        let text = error.to_string();
        assert!(text.contains("101: the count is wrong; 1: other"), "{text}");

        let mut tally = Tally::of(12);
        (0..10).for_each(|_| tally.add(&Problem::Count).unwrap());
        assert!(tally.add(&Problem::Count).is_err());
    }
}
