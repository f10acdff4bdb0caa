//! A recommendation from the references, with its reasons.

use serde_json::json;

use super::measured::Measured;
use crate::analyze::advice::{Recommendation, percent, size};
use crate::analyze::analysis::ratio;
use crate::output::grouped;

/// The average number of updates of a source from which copies are not recommended.
const OFTEN: f64 = 10.0;

/// Properties that the data does not show.
pub(super) const CAVEAT: &str = "The data does not show how often documents are read. If the copied fields change about as often as documents are read, store the id alone, and read the source by a second find or a $lookup.";

/// What an update of the source with the most references writes.
pub(super) struct Update {
    /// At most this number of copies. Each reference field has its own largest source.
    pub(super) copies: u64,
    /// The bytes of the documents with these copies.
    pub(super) bytes: f64,
}

pub(super) fn largest_update(measured: &[Measured]) -> Update {
    let followed = || measured.iter().filter(|measured| !measured.is_snapshot);
    Update {
        copies: followed().map(Measured::most).sum(),
        bytes: followed()
            .map(|measured| measured.document_bytes * ratio(measured.most(), 1))
            .sum(),
    }
}

/// Returns the average number of updates of a source, weighted by its references.
pub(super) fn updates(measured: &[Measured]) -> f64 {
    let sum = |of: fn(&Measured) -> u64| measured.iter().map(of).sum::<u64>();
    ratio(sum(|measured| measured.updates), sum(Measured::references))
}

/// Returns `None` if there are no references.
pub(super) fn recommend(measured: &[Measured]) -> Option<Recommendation> {
    // Of equal ones the first.
    let first = measured.iter().rev().max_by_key(|measured| measured.references())?;
    let (typical, most) = (first.analysis.percentile(50.0)?, first.analysis.percentile(99.0)?);
    let longest = first.most();
    if first.references() == 0 {
        return None;
    }
    let updates = updates(measured);
    let distribution = format!(
        "half of the sources have up to {} references, 99 percent up to {}, and the largest has {}",
        grouped(typical),
        grouped(most),
        grouped(longest)
    );
    if updates > OFTEN {
        return Some(Recommendation {
            pattern: "ids alone",
            settings: Vec::new(),
            why: vec![
                format!("a source was updated {updates:.0} times on average, and each update writes all of its copies"),
                distribution,
                "a snapshot, or a copy of fields that change rarely, avoids these writes".to_owned(),
            ],
        });
    }
    if measured.len() == 1 && longest == 1 {
        return Some(Recommendation {
            pattern: "one document",
            settings: Vec::new(),
            why: vec![
                "no source has more than one reference: store its fields in the document that refers to it".to_owned(),
                "copies suit it too, if sources are also read or updated on their own".to_owned(),
            ],
        });
    }
    let update = largest_update(measured);
    Some(Recommendation {
        pattern: "reference",
        settings: vec![("reference", json!(first.field)), ("copy", json!(first.copy))],
        why: vec![
            distribution,
            format!(
                "a copy is about {}, which is {} of a document, and saves the second read of each",
                size(first.copy_bytes),
                percent((first.copy_bytes / first.document_bytes.max(first.copy_bytes).max(1.0)).min(1.0))
            ),
            match update.copies {
                0 => "snapshots do not follow their source, so an update of it writes no copy".to_owned(),
                copies => format!(
                    "an update of the largest source writes up to {} copies, one document at a time; other writers wait for one document, and not for all",
                    grouped(copies)
                ),
            },
        ],
    })
}

#[cfg(test)]
mod tests {
    use crate::analyze::analysis::Analysis;

    use super::*;

    fn measured(lengths: &[(u64, u64)], updates: u64) -> Measured {
        let mut analysis = Analysis::default();
        for &(length, sources) in lengths {
            super::super::add(&mut analysis, length, sources);
        }
        Measured {
            collection: "orders".to_owned(),
            field: "customer".to_owned(),
            copy: vec!["name".to_owned()],
            is_snapshot: false,
            sources_found: analysis.documents,
            copies: analysis.elements,
            ids: 0,
            others: 0,
            dangling: 0,
            stale: 0,
            copy_bytes: 50.0,
            document_bytes: 400.0,
            updates,
            largest: None,
            analysis,
        }
    }

    #[test]
    fn the_references_and_the_updates_of_their_sources_determine_the_advice() {
        let pattern = |measured: &[Measured]| recommend(measured).map(|recommended| recommended.pattern);
        assert_eq!(pattern(&[measured(&[(1, 50), (100, 2)], 0)]), Some("reference"));
        assert_eq!(pattern(&[measured(&[(1, 50), (100, 2)], 250 * 11)]), Some("ids alone"));
        assert_eq!(pattern(&[measured(&[(1, 50)], 0)]), Some("one document"));
        assert_eq!(
            pattern(&[measured(&[(1, 50)], 0), measured(&[(1, 50)], 0)]),
            Some("reference")
        );
        assert_eq!(pattern(&[measured(&[], 0)]), None);
    }

    #[test]
    fn an_update_writes_the_copies_in_all_fields_but_snapshots() {
        let snapshot = Measured {
            is_snapshot: true,
            ..measured(&[(1000, 1)], 0)
        };
        let update = largest_update(&[measured(&[(1, 5), (30, 1)], 0), measured(&[(7, 1)], 0), snapshot]);
        assert_eq!((update.copies, size(update.bytes)), (37, "15 KB".to_owned()));
    }
}
