//! What can be wrong with stored parents.

use std::fmt;

use mongodb::bson::{Bson, RawBsonRef, RawDocument};

/// Something that is wrong with a stored parent; from [`verify`](crate::EmbeddedRepository::verify).
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::bson::Document;
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings = patrons.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     println!("{}: {}", finding.document_id, finding.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The `_id` of the document. It is a user value: take care where you log it.
    pub document_id: Bson,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a parent. Its text says what to do, and holds no user value.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::{EmbeddedRepository, Problem};
/// # use mongodb::bson::Document;
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings = patrons.verify().stream();
/// while let Some(finding) = findings.try_next().await? {
///     if let Problem::OverFull { children } = finding.problem {
///         println!("{children} addresses are too many");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There is no array. Calls take it for an empty one.
    ChildrenMissing,
    /// The children are no array.
    ChildrenNotArray,
    /// There are more children than a parent may have.
    OverFull {
        /// How many.
        children: u64,
    },
    /// Children are no documents.
    ChildNotDocument {
        /// How many.
        children: u64,
    },
    /// Children have no id, or one of a type that an id cannot have.
    ChildIdMissing {
        /// How many.
        children: u64,
    },
    /// Children have an id that another child of the parent, before them, has too.
    ChildIdDoubled {
        /// How many.
        children: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChildrenMissing => f.write_str("there is no array of children: set an empty one"),
            Self::ChildrenNotArray => f.write_str("the children are no array: correct it by hand"),
            Self::OverFull { children } => write!(
                f,
                "there are {children} children, more than a parent may have: remove some, or raise the bound"
            ),
            Self::ChildNotDocument { children } => {
                write!(f, "{children} children are no documents: correct them by hand")
            }
            Self::ChildIdMissing { children } => {
                write!(f, "{children} children have no usable id: give them one by hand")
            }
            Self::ChildIdDoubled { children } => {
                write!(
                    f,
                    "{children} children have the id of another: give them another by hand"
                )
            }
        }
    }
}

impl Finding {
    /// From what the aggregation of [`query::faults`](crate::query::faults) returns.
    pub(crate) fn of_row(row: &RawDocument, max_children: u32) -> Vec<Self> {
        let number = |field: &str| {
            let number = row.get_i32(field).unwrap_or(0);
            u64::try_from(number).unwrap_or(0)
        };
        let id = row.get("_id").ok().flatten();
        let id = id
            .and_then(|id: RawBsonRef<'_>| Bson::try_from(id).ok())
            .unwrap_or(Bson::Null);
        let problems = match row.get_str("type").unwrap_or_default() {
            "missing" => vec![Problem::ChildrenMissing],
            "array" => {
                let (children, documents) = (number("size"), number("documents"));
                let (with_id, different) = (number("withId"), number("different"));
                let some = |of: u64, well: u64, problem: fn(u64) -> Problem| {
                    let wrong = of.saturating_sub(well);
                    (wrong > 0).then(|| problem(wrong))
                };
                let over = (children > u64::from(max_children)).then_some(Problem::OverFull { children });
                [
                    over,
                    some(children, documents, |children| Problem::ChildNotDocument { children }),
                    some(documents, with_id, |children| Problem::ChildIdMissing { children }),
                    some(with_id, different, |children| Problem::ChildIdDoubled { children }),
                ]
                .into_iter()
                .flatten()
                .collect()
            }
            _ => vec![Problem::ChildrenNotArray],
        };
        let finding = |problem| Self {
            document_id: id.clone(),
            problem,
        };
        problems.into_iter().map(finding).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_to_do() {
        let doubled = Problem::ChildIdDoubled { children: 2 };
        assert_eq!(
            doubled.to_string(),
            "2 children have the id of another: give them another by hand"
        );
    }
}
