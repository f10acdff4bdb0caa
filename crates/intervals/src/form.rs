//! Stored documents and their intervals.

use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::stored::{decode, id_of};
use mongo_patterns_core::{Error, FieldName, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::CString;
use mongodb::bson::{DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc};
use serde::de::DeserializeOwned;

use crate::results::Interval;
use crate::settings::Settings;

/// The start of the first interval before any change, as in the manual: 1900-01-01.
pub(crate) const BEGIN: DateTime = DateTime::from_millis(-2_208_988_800_000);
/// The end of what is valid now, as in the manual: 9999-01-01.
pub(crate) const END: DateTime = DateTime::from_millis(253_370_764_800_000);

/// The most milliseconds by which the clock that set a start can have been ahead of the server's. A valid document that
/// begins later is a scheduled one, which another program has marked.
pub(crate) const AHEAD: i64 = 60_000;

/// The interval of a stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) from: DateTime,
    pub(crate) to: DateTime,
    pub(crate) is_valid: bool,
}

impl Times {
    /// Returns the interval of a stored document.
    pub(crate) fn stored_in(settings: &Settings, document: &RawDocument) -> Result<Self> {
        let value = |field: &FieldName| document.get(field.as_str()).ok().flatten();
        match [&settings.from, &settings.to, &settings.valid].map(value) {
            [
                Some(RawBsonRef::DateTime(from)),
                Some(RawBsonRef::DateTime(to)),
                Some(RawBsonRef::Boolean(is_valid)),
            ] => Ok(Self { from, to, is_valid }),
            _ => Err(Error::corrupt(
                id_of(document),
                settings.from.as_str(),
                "a stored document has not both times of its interval and whether it is valid, nothing was changed: call verify()",
            )),
        }
    }

    pub(crate) fn contains(self, time: DateTime) -> bool {
        self.from <= time && (self.to >= END || time < self.to)
    }

    /// Returns whether it is the current interval at a time of the server: it contains the time, or a client or a server
    /// whose clock was ahead has marked it.
    pub(crate) fn is_current(self, now: DateTime) -> bool {
        self.contains(now) || self.is_valid && now < self.from && self.from <= latest(now)
    }

    /// Returns the fields of a document with this interval.
    pub(crate) fn fields(self, settings: &Settings) -> Document {
        doc! {
            settings.from.as_str(): self.from,
            settings.to.as_str(): self.to,
            settings.valid.as_str(): self.is_valid,
        }
    }
}

/// Returns the latest start that a clock that was ahead can have set, at a time of the server.
pub(crate) fn latest(now: DateTime) -> DateTime {
    DateTime::from_millis(now.timestamp_millis().saturating_add(AHEAD))
}

/// Returns the millisecond after a time.
pub(crate) fn after(time: DateTime) -> DateTime {
    DateTime::from_millis(time.timestamp_millis().saturating_add(1))
}

/// Returns the copy of a document with another interval.
pub(crate) fn copy(
    settings: &Settings,
    document: &RawDocument,
    times: Times,
) -> std::result::Result<RawDocumentBuf, CommandError> {
    let [from, to, valid] = [&settings.from, &settings.to, &settings.valid].map(FieldName::as_str);
    let mut copy = RawDocumentBuf::new();
    copy.append(cstr!("_id"), ObjectId::new());
    for field in document {
        let (name, value) = field?;
        match name.as_str() {
            name if ["_id", to, valid].contains(&name) => {}
            own if own == from => copy.append(name, times.from),
            _ => copy.append(name, value),
        }
    }
    copy.append(CString::try_from(to)?, times.to);
    copy.append(CString::try_from(valid)?, times.is_valid);
    Ok(copy)
}

/// Decodes a stored document.
///
/// # Errors
/// [`Decode`](mongo_patterns_core::ErrorKind::Decode), and [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) without an interval.
pub(crate) fn interval<D: DeserializeOwned>(settings: &Settings, document: &RawDocument) -> Result<Interval<D>> {
    let times = Times::stored_in(settings, document)?;
    let text =
        "a stored document cannot be decoded as the type of the repository: change the type, or repair the document";
    Ok(Interval {
        valid_from: times.from,
        valid_to: (times.to < END).then_some(times.to),
        document: decode(document, text)?,
    })
}
