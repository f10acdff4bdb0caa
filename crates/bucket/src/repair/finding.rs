//! What can be wrong with stored buckets.

use std::fmt;

use mongodb::bson::Bson;

/// Something that is wrong with a stored bucket; from [`verify`](crate::BucketRepository::verify).
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings = trades.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     println!("{}: {}", finding.document_id, finding.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The `_id` of the document. It may hold a key: take care where you log it.
    pub document_id: Bson,
    /// The key that the document belongs to, as it is encoded in `_id`; `None` when neither its `_id` nor its key field
    /// tells. It is a user value: take care where you log it.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a bucket. Its text says what to do, and holds no user value.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_bucket::{BucketRepository, Problem};
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings = trades.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     if let Problem::Count { count, items } = finding.problem {
///         println!("{count:?} in place of {items}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The `_id` is not the encoded key, `_`, and a second: calls for the key do not see the bucket, or report it.
    IdFormat,
    /// The second in the `_id` has not ten digits, so the bucket does not stand where its time is.
    IdOrder,
    /// The key field is missing.
    KeyMissing,
    /// The key field does not hold a key of the repository's type.
    KeyType,
    /// The `_id` is that of one key, and the key field holds another.
    KeyDisagrees,
    /// The items are missing, or no array.
    ItemsNotArray,
    /// The count is not the number of items.
    Count {
        /// The count; `None` when it is missing, or no integer.
        count: Option<i64>,
        /// How many items there are.
        items: u64,
    },
    /// There are more items than a page has.
    OverFull {
        /// How many.
        items: u64,
    },
    /// There are no items.
    Empty,
    /// The key has several buckets that are not full, and this is the newest of them.
    SeveralOpen {
        /// How many.
        open: u64,
    },
    /// The bucket is not full, and a newer one is not either.
    ///
    /// A single bucket that is not full is right wherever it stands: appends fill it. An item that comes late opens one
    /// among the older ones, and two writers that open buckets at the same moment may do so in either order.
    NotFull {
        /// How many items there are.
        items: u64,
    },
    /// Items are `null`, which no reader takes for an item.
    ///
    /// [`repair`](crate::BucketRepository::repair) does not remove them, and reports the key as
    /// [`UnreadableItems`](crate::Unrepaired::UnreadableItems): correct or remove them by hand. Where the item type accepts
    /// `null`, such as an `Option`, the items are readable, and this can be ignored.
    ItemNull {
        /// How many.
        items: u64,
    },
    /// Items have no BSON date in the repository's [time field](crate::BucketRepositoryBuilder::time_field): types with
    /// such a field cannot read them, and no range of time contains them. Items that were appended
    /// [at](crate::action::Append::at) a given time, without a date of their own, are among them.
    ///
    /// [`repair`](crate::BucketRepository::repair) does not guess a time, and reports the key as
    /// [`UnreadableItems`](crate::Unrepaired::UnreadableItems): set the dates by hand.
    ItemTimeMissing {
        /// How many.
        items: u64,
    },
    /// Items have no id, or one of a type that an id cannot have.
    ItemIdMissing {
        /// How many.
        items: u64,
    },
    /// Items have an id that another item of the key, before them, has too.
    ItemIdDoubled {
        /// How many.
        items: u64,
    },
}

impl Problem {
    /// Whether it is an item that only its owner can correct. The rest of the key is repaired all the same.
    pub(crate) fn is_of_an_item(&self) -> bool {
        matches!(
            self,
            Self::ItemNull { .. } | Self::ItemTimeMissing { .. } | Self::ItemIdMissing { .. }
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdFormat => f.write_str("the `_id` is not the encoded key, `_`, and a second: repair it"),
            Self::IdOrder => f.write_str(
                "the second in the `_id` has not ten digits, so the bucket does not stand where its time is: repair it",
            ),
            Self::KeyMissing => f.write_str("the key field is missing: repair it, which sets it from the `_id`"),
            Self::KeyType => f.write_str("the key field holds no key of the repository's type: correct it by hand"),
            Self::KeyDisagrees => f.write_str(
                "the `_id` and the key field name different keys: find out whose items they are, and correct one by hand",
            ),
            Self::ItemsNotArray => f.write_str("the items are missing, or no array: correct them by hand"),
            Self::Count {
                count: Some(count),
                items,
            } => write!(f, "the count is {count}, and there are {items} items: repair it"),
            Self::Count { count: None, items } => {
                write!(f, "the count is missing or no integer, and there are {items} items: repair it")
            }
            Self::OverFull { items } => write!(f, "there are {items} items, more than a page has: repair it"),
            Self::Empty => f.write_str("there are no items: repair it"),
            Self::SeveralOpen { open } => write!(f, "{open} buckets of the key are not full: repair it"),
            Self::NotFull { items } => {
                write!(f, "there are {items} items, less than a page has, and a newer bucket is not full either: repair it")
            }
            Self::ItemNull { items } => write!(f, "{items} items are null: correct or remove them by hand"),
            Self::ItemTimeMissing { items } => {
                write!(f, "{items} items have no BSON date in the time field: set one by hand")
            }
            Self::ItemIdMissing { items } => write!(f, "{items} items have no usable id: give them one by hand"),
            Self::ItemIdDoubled { items } => write!(f, "{items} items have the id of another item of the key: repair it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_to_do() {
        let count = Problem::Count {
            count: Some(3),
            items: 4,
        };
        assert_eq!(count.to_string(), "the count is 3, and there are 4 items: repair it");
        let several = Problem::SeveralOpen { open: 2 };
        assert_eq!(several.to_string(), "2 buckets of the key are not full: repair it");
    }
}
