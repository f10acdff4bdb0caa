//! Finds what is wrong with a document and its extras. Pure.

use std::mem::discriminant;

use mongo_patterns_core::key::stored_integer;
use mongodb::bson::{Bson, RawBsonRef, RawDocument};

use crate::form::document::id_of;
use crate::repair::finding::Finding;
use crate::repair::finding::FoundIn;
use crate::repair::finding::Problem;
use crate::settings::Settings;
use crate::write::push::is_true;

/// A main document and its extras as far as they are checked.
pub(crate) struct Look {
    /// The `_id` of the main document, which may not be there.
    pub(crate) id: Bson,
    pub(crate) main: Option<Main>,
    /// In the order in which their elements are read.
    pub(crate) extras: Vec<Extra>,
    /// How many elements are equal to one before them, where elements are unique.
    pub(crate) doubled: u64,
}

pub(crate) struct Main {
    /// How many elements its array has; `None` when it is no array.
    pub(crate) elements: Option<u64>,
    /// Whether there is null in the place of the array.
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

pub(crate) struct Extra {
    pub(crate) id: Bson,
    /// Its place; `None` when it is missing, or no integer from 0.
    pub(crate) seq: Option<i64>,
    count: Option<i64>,
    /// How many elements it has; `None` when they are no array.
    pub(crate) elements: Option<u64>,
}

impl Main {
    /// From what [`mend_query::main_sizes`](crate::query::repair::main_sizes) projects.
    fn of_row(row: &RawDocument) -> Self {
        Self {
            elements: row.get("size").ok().flatten().and_then(number),
            is_null: is_true(row, "isNull"),
            flag: Flag::of(row.get("flag").ok().flatten()),
        }
    }

    /// From what [`mend_query::main_parts`](crate::query::repair::main_parts) projects.
    pub(crate) fn of_parts(parts: &RawDocument) -> Self {
        Self {
            elements: length(parts.get("array").ok().flatten()),
            is_null: matches!(parts.get("array"), Ok(Some(RawBsonRef::Null | RawBsonRef::Undefined))),
            flag: Flag::of(parts.get("flag").ok().flatten()),
        }
    }
}

impl Flag {
    fn of(value: Option<RawBsonRef<'_>>) -> Self {
        match value {
            None | Some(RawBsonRef::Boolean(false)) => Self::Clear,
            Some(RawBsonRef::Boolean(true)) => Self::Set,
            Some(_) => Self::NotBoolean,
        }
    }
}

impl Extra {
    /// From what [`mend_query::extras_sizes`](crate::query::repair::extras_sizes) projects.
    fn of_row(row: &RawDocument) -> Self {
        let value = |field: &str| row.get(field).ok().flatten();
        Self {
            id: id_of(row),
            seq: value("seq").and_then(place),
            count: value("count").and_then(stored_integer),
            elements: value("size").and_then(number),
        }
    }

    /// From a whole extras document.
    pub(crate) fn of_document(settings: &Settings, document: &RawDocument) -> Self {
        let value = |field: &str| document.get(field).ok().flatten();
        Self {
            id: id_of(document),
            seq: value(settings.seq.as_str()).and_then(place),
            count: value(settings.count.as_str()).and_then(stored_integer),
            elements: length(value(settings.extras.as_str())),
        }
    }

    /// Where it stands among the extras of its main document: those of the manual's form come first.
    pub(crate) fn order(&self) -> (Option<i64>, String) {
        (self.seq, self.id.to_string())
    }
}

fn place(value: RawBsonRef<'_>) -> Option<i64> {
    stored_integer(value).filter(|place| *place >= 0)
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

impl Look {
    /// From what the aggregation of [`mend_query::looks`](crate::query::repair::looks) returns.
    pub(crate) fn of_row(row: &RawDocument) -> Self {
        let rows = |field: &str| {
            let rows = row.get_array(field).into_iter().flatten().flatten();
            rows.filter_map(RawBsonRef::as_document).collect::<Vec<_>>()
        };
        let doubled = row.get("doubled").ok().flatten().and_then(number);
        Self {
            doubled: doubled.unwrap_or(0),
            ..Self::of_rows(id_of(row), rows("main").first(), &rows("extras"))
        }
    }

    /// From sizes and ids.
    pub(crate) fn of_rows<R: AsRef<RawDocument>>(id: Bson, main: Option<&R>, extras: &[R]) -> Self {
        let mut extras: Vec<Extra> = extras.iter().map(|row| Extra::of_row(row.as_ref())).collect();
        extras.sort_by_cached_key(Extra::order);
        Self {
            id,
            main: main.map(|main| Main::of_row(main.as_ref())),
            extras,
            doubled: 0,
        }
    }

    /// How many elements there are, as far as they are in arrays.
    pub(crate) fn elements(&self) -> u64 {
        let inline = self.main.as_ref().and_then(|main| main.elements).unwrap_or(0);
        let of_extras = self.extras.iter().filter_map(|extra| extra.elements);
        of_extras.fold(inline, u64::saturating_add)
    }

    /// Whether nothing is to be gained by writing it anew: the array is full where there are extras, and so are all of
    /// them but the last. What is large may not be so, and be right all the same.
    pub(crate) fn is_in_form(&self, settings: &Settings) -> bool {
        let Some(main) = &self.main else {
            return self.extras.is_empty();
        };
        let is_short = |elements: Option<u64>, full: u32| elements.is_some_and(|elements| elements < u64::from(full));
        let last = self.extras.len().saturating_sub(1);
        let mut of_extras = self.extras.iter().enumerate();
        check(settings, self).is_empty()
            && (self.extras.is_empty() || !is_short(main.elements, settings.threshold))
            && of_extras.all(|(index, extra)| {
                extra.elements != Some(0) && (index == last || !is_short(extra.elements, settings.max_extras_elements))
            })
    }
}

/// What is wrong. An array below the threshold beside extras is right, and so are extras that are not full, as a removal
/// leaves them.
pub(crate) fn check(settings: &Settings, look: &Look) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |document_id: &Bson, collection, problem| {
        findings.push(Finding {
            document_id: document_id.clone(),
            collection,
            main_id: look.id.clone(),
            problem,
        });
    };
    if let Some(main) = &look.main {
        let problem = match main.elements {
            None => Some(Problem::ArrayNotArray),
            Some(_) if main.is_null => Some(Problem::ArrayNull),
            Some(elements) if elements > u64::from(settings.threshold) => Some(Problem::OverThreshold { elements }),
            Some(_) => None,
        };
        let extras = look.extras.len() as u64;
        let of_flag = match main.flag {
            Flag::NotBoolean => Some(Problem::FlagNotBoolean),
            Flag::Set if extras == 0 => Some(Problem::FlagWithoutExtras),
            Flag::Clear if extras > 0 => Some(Problem::ExtrasWithoutFlag { extras }),
            Flag::Set | Flag::Clear => None,
        };
        let of_elements =
            (settings.unique && look.doubled > 0).then_some(Problem::ElementDoubled { elements: look.doubled });
        for problem in problem.into_iter().chain(of_flag).chain(of_elements) {
            found(&look.id, FoundIn::Main, problem);
        }
    }
    let mut next = 0;
    for extra in &look.extras {
        let mut problems = Vec::new();
        if look.main.is_none() {
            problems.push(Problem::Orphaned);
        }
        match extra.seq {
            None => problems.push(Problem::PlaceMissing),
            Some(seq) if seq < next => problems.push(Problem::PlaceDoubled),
            Some(seq) => {
                if seq > next {
                    let places = seq.abs_diff(next);
                    problems.push(Problem::Gap { places });
                }
                next = seq.saturating_add(1);
            }
        }
        match extra.elements {
            None => problems.push(Problem::ElementsNotArray),
            Some(elements) => {
                let count = extra.count;
                if count != i64::try_from(elements).ok() {
                    problems.push(Problem::Count { count, elements });
                }
                if elements > u64::from(settings.max_extras_elements) {
                    problems.push(Problem::OverFull { elements });
                }
            }
        }
        for problem in problems {
            found(&extra.id, FoundIn::Extras, problem);
        }
    }
    findings
}

/// Those findings of a second look that the first one had too: others write meanwhile, and main document and extras are
/// not seen at the same moment.
pub(crate) fn confirmed(first: &[Finding], second: Vec<Finding>) -> Vec<Finding> {
    let same = |a: &Finding, b: &Finding| {
        a.document_id == b.document_id
            && a.collection == b.collection
            && discriminant(&a.problem) == discriminant(&b.problem)
    };
    second
        .into_iter()
        .filter(|finding| first.iter().any(|first| same(first, finding)))
        .collect()
}
