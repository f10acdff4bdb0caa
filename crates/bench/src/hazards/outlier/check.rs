//! The check of books and their overflow documents.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use mongodb::bson::{Bson, Document};

use super::super::load::Ledger;
use super::super::recipe::Hazards;
use super::super::stored::{Times, elements, integer};

pub(super) const THRESHOLD: u32 = 50;
/// The bound of an overflow document, where a recipe has one.
pub(super) const CAP: u32 = 200;

/// The fields of a recipe.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) array: &'static str,
    pub(super) flag: &'static str,
    /// The number of all elements, in the main document.
    pub(super) total: Option<&'static str>,
    pub(super) parent: &'static str,
    pub(super) extras: &'static str,
    /// The position of an overflow document, and the first one. Overflow documents then have a bound and a count, and
    /// otherwise a book has one without a bound.
    pub(super) position: Option<(&'static str, i64)>,
}

/// The stored data of one book.
#[derive(Default)]
struct Book {
    elements: u64,
    /// The length of the array, and whether the flag is set; `None` for a book that does not exist.
    main: Option<(usize, bool)>,
    total: i64,
    /// By position, the lengths of the overflow documents at it.
    overflow: BTreeMap<i64, Vec<usize>>,
}

/// Each book and each overflow document counts once in a column: as stale if a total or count is not the number of
/// elements; as a gap if it has room although there is a later overflow document, or if its position is missing; as wrong
/// if it exceeds its bound, has a position that another one has, or an overflow without the flag.
pub(super) fn hazards(layout: Layout, main: &[Document], overflow: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut times = Times::default();
    let mut books: BTreeMap<i64, Book> = BTreeMap::new();
    let (mut stale, mut wrong) = (0, 0);
    for document in main {
        let book = books.entry(integer(document, "_id")?).or_default();
        let array = elements(document, layout.array)?;
        add(&mut times, array)?;
        book.elements += array.len() as u64;
        book.main = Some((array.len(), document.get_bool(layout.flag).unwrap_or(false)));
        book.total = layout
            .total
            .map_or(0, |field| integer(document, field).unwrap_or_default());
    }
    for document in overflow {
        let book = books.entry(integer(document, layout.parent)?).or_default();
        let array = elements(document, layout.extras)?;
        add(&mut times, array)?;
        book.elements += array.len() as u64;
        let mut position = 0;
        if let Some((field, _)) = layout.position {
            position = integer(document, field)?;
            stale += u64::from(integer(document, "count")? != array.len() as i64);
            wrong += u64::from(array.len() > CAP as usize);
        }
        book.overflow.entry(position).or_default().push(array.len());
    }
    let mut gaps = 0;
    for book in books.values() {
        let is_outlier = !book.overflow.is_empty();
        stale += u64::from(layout.total.is_some() && book.total != book.elements as i64);
        wrong += book.overflow.values().map(|same| same.len() as u64 - 1).sum::<u64>();
        match book.main {
            None => wrong += 1,
            Some((length, flag)) => {
                wrong += u64::from(length > THRESHOLD as usize || is_outlier && !flag);
                gaps += u64::from(length < THRESHOLD as usize && is_outlier);
            }
        }
        if let (Some((_, first)), Some((last, _))) = (layout.position, book.overflow.last_key_value()) {
            let is_partial = |position: i64| match book.overflow.get(&position) {
                None => true,
                Some(same) => position < *last && same.iter().any(|length| *length < CAP as usize),
            };
            gaps += (first..=*last).filter(|position| is_partial(*position)).count() as u64;
        }
    }
    Ok(Hazards {
        lost: times.lost(ledger, |_| true),
        doubled: times.doubled(),
        stale: (layout.total.is_some() || layout.position.is_some()).then_some(stale),
        gaps: Some(gaps),
        wrong,
    })
}

fn add(times: &mut Times, array: &[Bson]) -> Result<()> {
    for customer in array {
        let number = customer.as_str().and_then(|customer| customer.strip_prefix("user"));
        times.add(number.context("an element is not a customer")?.parse()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::super::super::load::Fate;
    use super::super::super::recipe::Source;
    use super::super::{BOOKS, customer, layout};
    use super::*;

    fn customers(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        numbers.into_iter().map(|number| customer(number * BOOKS)).collect()
    }

    fn book(numbers: impl IntoIterator<Item = u64>, flag: bool, total: i32) -> Document {
        doc! { "_id": 0, "customers": customers(numbers), "hasExtras": flag, "customerCount": total }
    }

    fn batch(position: i32, numbers: impl IntoIterator<Item = u64>) -> Document {
        let customers = customers(numbers);
        doc! { "bookId": 0, "batch": position, "count": customers.len() as i32, "customers": customers }
    }

    fn found(main: &Document, overflow: &[Document]) -> Hazards {
        let ledger = Ledger::of(&[Fate::Acknowledged]);
        hazards(
            layout(Source::AgentSkills),
            std::slice::from_ref(main),
            overflow,
            &ledger,
        )
        .unwrap()
    }

    fn none() -> Hazards {
        Hazards {
            stale: Some(0),
            gaps: Some(0),
            ..Hazards::default()
        }
    }

    #[test]
    fn typical_books_and_outliers_are_correct() {
        assert_eq!(found(&book(0..3, false, 3), &[]), none());
        let overflow = [batch(1, 50..250), batch(2, 250..260)];
        assert_eq!(found(&book(0..50, true, 260), &overflow), none());
    }

    #[test]
    fn lost_and_doubled_elements_are_found() {
        assert_eq!(found(&book(1..3, false, 2), &[]), Hazards { lost: 1, ..none() });
        let doubled = found(&book(0..50, true, 52), &[batch(1, [7, 50])]);
        assert_eq!(doubled, Hazards { doubled: 1, ..none() });
    }

    #[test]
    fn wrong_counts_are_stale() {
        let stale = Hazards {
            stale: Some(1),
            ..none()
        };
        assert_eq!(found(&book(0..3, false, 4), &[]), stale);
        let mut overflow = batch(1, 50..60);
        overflow.insert("count", 9);
        assert_eq!(found(&book(0..50, true, 60), &[overflow]), stale);
    }

    #[test]
    fn partial_and_missing_documents_are_gaps() {
        let gap = Hazards {
            gaps: Some(1),
            ..none()
        };
        assert_eq!(found(&book(0..49, true, 50), &[batch(1, [49])]), gap);
        let partial = [batch(1, 50..60), batch(2, 60..70)];
        assert_eq!(found(&book(0..50, true, 70), &partial), gap);
        assert_eq!(found(&book(0..50, true, 60), &[batch(2, 50..60)]), gap);
    }

    #[test]
    fn wrong_documents_are_found() {
        let wrong = Hazards { wrong: 1, ..none() };
        assert_eq!(found(&book(0..51, true, 51), &[]), wrong);
        assert_eq!(found(&book(0..50, false, 60), &[batch(1, 50..60)]), wrong);
        assert_eq!(found(&book(0..50, true, 251), &[batch(1, 50..251)]), wrong);
        let same = [batch(1, 50..60), batch(1, 60..70)];
        assert_eq!(found(&book(0..50, true, 70), &same), wrong);
        let ledger = Ledger::of(&[]);
        let orphan = hazards(layout(Source::Manual), &[], &[doc! { "book_id": 5 }], &ledger).unwrap();
        assert_eq!(orphan, Hazards { stale: None, ..wrong });
    }
}
