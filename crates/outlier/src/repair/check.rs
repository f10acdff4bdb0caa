//! Checks the summary of a list. Pure.

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::stored::id_of;
use mongodb::Namespace;
use mongodb::bson::{Bson, RawBsonRef, RawDocument};

use crate::form::document::is_true;
use crate::repair::finding::{Finding, Problem};
use crate::settings::Settings;

/// The checked properties of a main document and its overflow documents.
pub(crate) struct Summary {
    /// The `_id` of the main document, which may not exist.
    pub(crate) id: Bson,
    pub(crate) main: Option<Main>,
    /// In the order in which their elements are read.
    pub(crate) overflow: Vec<Overflow>,
    /// Where elements are unique, the number of elements that are equal to an earlier one.
    pub(crate) duplicates: u64,
}

pub(crate) struct Main {
    /// The number of elements in its array; `None` when it is not an array.
    pub(crate) elements: Option<u64>,
    /// Whether the array field is null.
    pub(crate) is_null: bool,
    pub(crate) flag: Flag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    /// Missing, or `false`.
    Clear,
    Set,
    NotBoolean,
}

pub(crate) struct Overflow {
    pub(crate) id: Bson,
    /// The position; `None` when it is missing, or not an integer from 0.
    pub(crate) seq: Option<i64>,
    count: Option<i64>,
    /// The number of its elements; `None` when they are not an array.
    pub(crate) elements: Option<u64>,
}

impl Main {
    /// Reads what [`query::main_summary`](crate::query::main_summary) projects.
    fn of_row(row: &RawDocument) -> Self {
        Self {
            elements: row.get("size").ok().flatten().and_then(number),
            is_null: is_true(row, "isNull"),
            flag: Flag::from_stored(row.get("flag").ok().flatten()),
        }
    }

    /// Reads what [`query::main_parts`](crate::query::main_parts) projects.
    pub(crate) fn of_parts(parts: &RawDocument) -> Self {
        Self {
            elements: length(parts.get("array").ok().flatten()),
            is_null: matches!(parts.get("array"), Ok(Some(RawBsonRef::Null | RawBsonRef::Undefined))),
            flag: Flag::from_stored(parts.get("flag").ok().flatten()),
        }
    }
}

impl Flag {
    fn from_stored(value: Option<RawBsonRef<'_>>) -> Self {
        match value {
            None | Some(RawBsonRef::Boolean(false)) => Self::Clear,
            Some(RawBsonRef::Boolean(true)) => Self::Set,
            Some(_) => Self::NotBoolean,
        }
    }
}

impl Overflow {
    /// Reads what [`query::overflow_summary`](crate::query::overflow_summary) projects.
    fn of_row(row: &RawDocument) -> Self {
        let value = |field: &str| row.get(field).ok().flatten();
        Self {
            id: id_of(row),
            seq: value("seq").and_then(position),
            count: value("count").and_then(stored_integer),
            elements: value("size").and_then(number),
        }
    }

    /// Reads a whole overflow document.
    pub(crate) fn of_document(settings: &Settings, document: &RawDocument) -> Self {
        let value = |field: &str| document.get(field).ok().flatten();
        Self {
            id: id_of(document),
            seq: value(settings.seq.as_str()).and_then(position),
            count: value(settings.count.as_str()).and_then(stored_integer),
            elements: length(value(settings.extras.as_str())),
        }
    }

    /// Returns the sort key in a list. Overflow documents of the manual's form, without a position, come first.
    pub(crate) fn order(&self) -> (Option<i64>, String) {
        (self.seq, self.id.to_string())
    }
}

fn position(value: RawBsonRef<'_>) -> Option<i64> {
    stored_integer(value).filter(|position| *position >= 0)
}

fn number(value: RawBsonRef<'_>) -> Option<u64> {
    stored_integer(value)?.try_into().ok()
}

fn length(value: Option<RawBsonRef<'_>>) -> Option<u64> {
    match value {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Some(0),
        Some(RawBsonRef::Array(array)) => Some(array.into_iter().count() as u64),
        Some(_) => None,
    }
}

impl Summary {
    /// Reads a row of [`query::summaries`](crate::query::summaries).
    pub(crate) fn of_row(row: &RawDocument) -> Self {
        let rows = |field: &str| {
            let rows = row.get_array(field).into_iter().flatten().flatten();
            rows.filter_map(RawBsonRef::as_document).collect::<Vec<_>>()
        };
        let duplicates = row.get("doubled").ok().flatten().and_then(number);
        Self {
            duplicates: duplicates.unwrap_or(0),
            ..Self::of_rows(id_of(row), rows("main").first(), &rows("extras"))
        }
    }

    /// Reads the projections of the documents.
    pub(crate) fn of_rows<R: AsRef<RawDocument>>(id: Bson, main: Option<&R>, overflow: &[R]) -> Self {
        let mut overflow: Vec<Overflow> = overflow.iter().map(|row| Overflow::of_row(row.as_ref())).collect();
        overflow.sort_by_cached_key(Overflow::order);
        Self {
            id,
            main: main.map(|main| Main::of_row(main.as_ref())),
            overflow,
            duplicates: 0,
        }
    }

    /// Returns the number of elements in arrays.
    pub(crate) fn elements(&self) -> u64 {
        let inline = self.main.as_ref().and_then(|main| main.elements).unwrap_or(0);
        let overflow = self.overflow.iter().filter_map(|document| document.elements);
        overflow.fold(inline, u64::saturating_add)
    }

    /// Returns whether a rewrite would change nothing: the array and all overflow documents but the last are full. Lists
    /// with large elements can be laid out otherwise and correctly.
    pub(crate) fn is_laid_out(&self, settings: &Settings) -> bool {
        let Some(main) = &self.main else {
            return self.overflow.is_empty();
        };
        let is_short = |elements: Option<u64>, full: u32| elements.is_some_and(|elements| elements < u64::from(full));
        let last = self.overflow.len().saturating_sub(1);
        let mut overflow = self.overflow.iter().enumerate();
        check(settings, self).is_empty()
            && (self.overflow.is_empty() || !is_short(main.elements, settings.threshold))
            && overflow.all(|(index, document)| {
                document.elements != Some(0)
                    && (index == last || !is_short(document.elements, settings.max_overflow_elements))
            })
    }
}

/// Returns the problems of a list. A removal can leave an array below the threshold, and overflow documents that are not
/// full; both are valid.
pub(crate) fn check(settings: &Settings, summary: &Summary) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |namespace: &Namespace, document_id: &Bson, problem| {
        let mut finding = Finding::new(namespace.clone(), document_id.clone(), problem);
        finding.related_id = Some(summary.id.clone());
        findings.push(finding);
    };
    if let Some(main) = &summary.main {
        for problem in check_main(settings, summary, main).into_iter().flatten() {
            found(&settings.main, &summary.id, problem);
        }
    }
    let mut next = 0;
    for document in &summary.overflow {
        if summary.main.is_none() {
            found(&settings.overflow, &document.id, Problem::Orphaned);
        }
        let position = check_position(document.seq, &mut next);
        for problem in position.into_iter().chain(check_elements(settings, document)) {
            found(&settings.overflow, &document.id, problem);
        }
    }
    findings
}

fn check_main(settings: &Settings, summary: &Summary, main: &Main) -> [Option<Problem>; 3] {
    let array = match main.elements {
        None => Some(Problem::ArrayNotArray),
        Some(_) if main.is_null => Some(Problem::ArrayNull),
        Some(elements) if elements > u64::from(settings.threshold) => Some(Problem::OverThreshold { elements }),
        Some(_) => None,
    };
    let documents = summary.overflow.len() as u64;
    let flag = match main.flag {
        Flag::NotBoolean => Some(Problem::FlagNotBoolean),
        Flag::Set if documents == 0 => Some(Problem::FlagWithoutOverflow),
        Flag::Clear if documents > 0 => Some(Problem::OverflowWithoutFlag { documents }),
        Flag::Set | Flag::Clear => None,
    };
    let elements = summary.duplicates;
    let duplicates = (settings.unique && elements > 0).then_some(Problem::DuplicateElements { elements });
    [array, flag, duplicates]
}

/// Checks a position, where `next` is the one after the position before it.
fn check_position(seq: Option<i64>, next: &mut i64) -> Option<Problem> {
    let Some(seq) = seq else {
        return Some(Problem::PositionMissing);
    };
    let expected = *next;
    if seq < expected {
        return Some(Problem::DuplicatePosition);
    }
    *next = seq.saturating_add(1);
    let positions = seq.abs_diff(expected);
    (positions > 0).then_some(Problem::Gap { positions })
}

fn check_elements(settings: &Settings, document: &Overflow) -> Vec<Problem> {
    let Some(elements) = document.elements else {
        return vec![Problem::ElementsNotArray];
    };
    let count = document.count;
    let mismatch = count != i64::try_from(elements).ok();
    let is_over = elements > u64::from(settings.max_overflow_elements);
    let mismatch = mismatch.then_some(Problem::Count { count, elements });
    let is_over = is_over.then_some(Problem::TooManyElements { elements });
    mismatch.into_iter().chain(is_over).collect()
}
