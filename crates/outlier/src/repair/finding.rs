//! What can be wrong with stored documents.

use std::fmt;

use mongodb::bson::Bson;

/// Something that is wrong with a stored document; from [`verify`](crate::OutlierRepository::verify).
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut findings = books.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     println!("book {}, document {}: {}", finding.main_id, finding.document_id, finding.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The `_id` of the document that it is about. It may hold a user value: take care where you log it.
    pub document_id: Bson,
    /// In which of the two collections that document is.
    pub collection: FoundIn,
    /// The `_id` of the main document that it belongs to; of a main document its own. It may hold a user value.
    pub main_id: Bson,
    /// What is wrong.
    pub problem: Problem,
}

/// One of the two collections of a repository.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::{FoundIn, OutlierRepository};
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut findings = books.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     let collection = match finding.collection {
///         FoundIn::Main => books.collection(),
///         _ => books.extras_collection(),
///     };
///     println!("{}", collection.namespace());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FoundIn {
    /// That of the main documents.
    Main,
    /// That of the extras.
    Extras,
}

/// What is wrong with a document. Its text says what to do, and holds no user value.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::{OutlierRepository, Problem};
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut findings = books.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     if let Problem::OverThreshold { elements } = finding.problem {
///         println!("{elements} customers in one book");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The array has more elements than the threshold.
    OverThreshold {
        /// How many.
        elements: u64,
    },
    /// The array field of the main document is no array. A missing one is an empty array.
    ArrayNotArray,
    /// There is null in the place of the array. Calls take it for an empty array, but a document type with a list cannot
    /// read it. [`repair`](crate::OutlierRepository::repair) sets an empty array.
    ArrayNull,
    /// Elements are unique, and some are equal to another one of the same list, in the array or in the extras.
    /// [`repair`](crate::OutlierRepository::repair) keeps the first of them.
    ElementDoubled {
        /// How many elements are equal to one before them.
        elements: u64,
    },
    /// The flag is no boolean: only `true` is taken for a flag.
    FlagNotBoolean,
    /// The flag is set, and there are no extras. It reads correctly.
    FlagWithoutExtras,
    /// There are extras, and the flag is not set: their elements are not read.
    ExtrasWithoutFlag {
        /// How many extras documents there are.
        extras: u64,
    },
    /// The extras belong to no document.
    Orphaned,
    /// The place of the extras document is missing, or no integer from 0. The manual's form has none.
    PlaceMissing,
    /// Another extras document of the same main document has the same place.
    PlaceDoubled,
    /// There are no extras at the places before this one. A document was deleted past the repository, or a push of
    /// another process met a rebalance, by which no element is lost.
    Gap {
        /// How many places are empty.
        places: u64,
    },
    /// The count is not the number of elements. The manual's form has none.
    Count {
        /// The count; `None` when it is missing, or no integer.
        count: Option<i64>,
        /// How many elements there are.
        elements: u64,
    },
    /// There are more elements than the cap.
    OverFull {
        /// How many.
        elements: u64,
    },
    /// The elements of the extras document are no array. A missing one is an empty array.
    ElementsNotArray,
}

impl Problem {
    /// Whether it must be corrected by hand, before anything of the document can be written anew.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self, Self::ArrayNotArray | Self::ElementsNotArray)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverThreshold { elements } => {
                write!(f, "the array has {elements} elements, more than the threshold: repair it")
            }
            Self::ArrayNotArray => f.write_str("the array field is no array: correct it by hand"),
            Self::ArrayNull => f.write_str("the array field is null, which a list cannot be read from: repair it"),
            Self::ElementDoubled { elements } => {
                write!(f, "{elements} elements are equal to another one of the list, and elements are unique: repair it")
            }
            Self::FlagNotBoolean => f.write_str("the flag is no boolean: repair it"),
            Self::FlagWithoutExtras => f.write_str("the flag is set, and there are no extras: repair it"),
            Self::ExtrasWithoutFlag { extras } => write!(
                f,
                "there are {extras} extras documents and no flag, so their elements are not read: repair it"
            ),
            Self::Orphaned => f.write_str(
                "the extras belong to no document: insert it again without its array, or delete the extras by a repair that is told to",
            ),
            Self::PlaceMissing => f.write_str("the place of the extras document is missing or no integer from 0: repair it"),
            Self::PlaceDoubled => f.write_str("another extras document has the same place: repair it"),
            Self::Gap { places } => write!(f, "there are no extras at the {places} places before this one: repair it"),
            Self::Count {
                count: Some(count),
                elements,
            } => write!(f, "the count is {count}, and there are {elements} elements: repair it"),
            Self::Count { count: None, elements } => {
                write!(f, "the count is missing or no integer, and there are {elements} elements: repair it")
            }
            Self::OverFull { elements } => write!(f, "there are {elements} elements, more than the cap: repair it"),
            Self::ElementsNotArray => f.write_str("the elements are no array: correct them by hand"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_to_do() {
        let count = Problem::Count {
            count: None,
            elements: 4,
        };
        assert_eq!(
            count.to_string(),
            "the count is missing or no integer, and there are 4 elements: repair it"
        );
        let over = Problem::OverThreshold { elements: 51 };
        assert_eq!(
            over.to_string(),
            "the array has 51 elements, more than the threshold: repair it"
        );
    }
}
