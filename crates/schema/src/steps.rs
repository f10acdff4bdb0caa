//! The steps that convert a document from one version to the next.

use std::ops::Range;

use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::stored::not_decoded;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{self, Document, RawDocument, RawDocumentBuf};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The stages that the server accepts in an update.
const STAGES: [&str; 6] = [
    "$set",
    "$addFields",
    "$unset",
    "$project",
    "$replaceWith",
    "$replaceRoot",
];

/// A stored document, decoded and converted.
pub(crate) struct Converted {
    /// The stored document as the old type writes it: with the fields that this type has.
    pub(crate) known: RawDocumentBuf,
    pub(crate) new: RawDocumentBuf,
}

pub(crate) type Convert = Box<dyn Fn(&RawDocument) -> Result<Converted> + Send + Sync>;

/// What a step does.
pub(crate) enum Work {
    /// A function of the client.
    Typed(Convert),
    /// The stages of an update on the server.
    Stages(Vec<Document>),
}

impl Work {
    pub(crate) fn typed<Old, New>(convert: impl Fn(Old) -> Result<New> + Send + Sync + 'static) -> Self
    where
        Old: Serialize + DeserializeOwned,
        New: Serialize,
    {
        Self::Typed(Box::new(move |stored| {
            let old: Old = bson::deserialize_from_slice(stored.as_bytes()).map_err(|error| {
                let text = "a stored document cannot be read as the type of its version: change the type, or correct the document";
                not_decoded(error, text, stored, "")
            })?;
            let known = encode(&old)?;
            let new = encode(&convert(old)?)?;
            Ok(Converted { known, new })
        }))
    }
}

/// The steps of a program, without a gap.
pub(crate) struct Steps {
    oldest: u32,
    list: Vec<Work>,
}

impl Steps {
    /// Checks the steps. The newest version is the one after the last step, or the given one.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration).
    pub(crate) fn new(mut given: Vec<(u32, Work)>, newest: Option<u32>) -> Result<Self> {
        given.sort_by_key(|(from, _)| *from);
        let oldest = match given.first() {
            Some((from, _)) => *from,
            None => newest.unwrap_or(1),
        };
        let in_order = (u64::from(oldest)..)
            .zip(&given)
            .all(|(version, (from, _))| version == u64::from(*from));
        if !in_order {
            return Err(configuration(
                "the steps have a gap, or two of them convert the same version: give one step for each version, from the oldest stored one to the one before the newest",
            ));
        }
        for (_, work) in &given {
            check_stages(work)?;
        }
        let steps = Self {
            oldest,
            list: given.into_iter().map(|(_, work)| work).collect(),
        };
        if steps.oldest == 0 || i32::try_from(u64::from(oldest) + steps.list.len() as u64).is_err() {
            return Err(configuration("a version is from 1 to 2,147,483,647"));
        }
        if newest.is_some_and(|newest| newest != steps.newest()) {
            return Err(configuration(
                "the version of the repository's type is not the one after the last step: add the missing step, or correct newest(..)",
            ));
        }
        Ok(steps)
    }

    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Returns the version of the repository's type.
    pub(crate) fn newest(&self) -> u32 {
        self.oldest + u32::try_from(self.list.len()).unwrap_or(0)
    }

    /// Returns the versions that have a step.
    pub(crate) fn older(&self) -> Range<u32> {
        self.oldest..self.newest()
    }

    /// Returns the step that converts documents of a version.
    pub(crate) fn from(&self, version: u32) -> Option<&Work> {
        self.list.get(version.checked_sub(self.oldest)? as usize)
    }

    /// Returns the end of the typed steps that begin with a version.
    pub(crate) fn end_of_typed(&self, from: u32) -> u32 {
        let is_typed = |version: &u32| matches!(self.from(*version), Some(Work::Typed(_)));
        (from..).find(|version| !is_typed(version)).unwrap_or(from)
    }

    /// Returns whether the server can do all steps.
    pub(crate) fn are_on_server(&self) -> bool {
        self.list.iter().all(|work| matches!(work, Work::Stages(_)))
    }
}

fn check_stages(work: &Work) -> Result<()> {
    let Work::Stages(stages) = work else { return Ok(()) };
    let is_stage = |stage: &Document| {
        let mut names = stage.keys();
        names.next().is_some_and(|name| STAGES.contains(&name.as_str())) && names.next().is_none()
    };
    match stages.iter().all(is_stage) {
        true => Ok(()),
        false => Err(configuration(format!(
            "a stage of a step on the server is not one of those of an update: use {}",
            STAGES.join(", ")
        ))),
    }
}

/// Encodes a value as a document.
///
/// # Errors
/// [`Encode`](ErrorKind::Encode).
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<RawDocumentBuf> {
    bson::serialize_to_raw_document_buf(value).map_err(|error| {
        let text = "the value cannot be written as a document, nothing was stored: use a type with named fields";
        Error::from_driver(ErrorKind::Encode, text, error)
    })
}
