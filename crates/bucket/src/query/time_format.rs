//! The forms of the times of flat documents.

use mongodb::bson::{Bson, Document, doc};

const ISO: &str =
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?\z";

/// The form of the times of flat documents. Items have dates, whatever the form is.
///
/// A time that is a date already is taken as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeFormat {
    /// A BSON date.
    #[default]
    Date,
    /// A number of seconds since 1970-01-01T00:00:00Z, also with a fraction.
    EpochSeconds,
    /// A number of milliseconds since 1970-01-01T00:00:00Z.
    EpochMillis,
    /// An ISO 8601 text, such as `2024-05-01T12:00:00.5+02:00`, `2024-05-01 12:00` or `2024-05-01`. UTC if it has no offset.
    Iso8601,
}

impl TimeFormat {
    /// Returns an expression of the date of a time, which is no date if the time has another form.
    pub(crate) fn date(self, time: String) -> Bson {
        let milliseconds = |factor: i64| {
            let number = doc! { "$multiply": [&time, factor] };
            convert(&time, doc! { "$isNumber": &time }, number.into())
        };
        match self {
            Self::Date => time.into(),
            Self::EpochSeconds => milliseconds(1000),
            // Also a conversion to a type of 64 bits: the server converts no 32-bit integer to a date.
            Self::EpochMillis => milliseconds(1),
            Self::Iso8601 => {
                // The server also takes other texts for dates, such as 05/11/2024 for that of May.
                let is_iso = doc! { "$regexMatch": { "input": &time, "regex": ISO } };
                let is_text = doc! { "$eq": [{ "$type": &time }, "string"] };
                let has_form = doc! { "$cond": [is_text, is_iso, false] };
                convert(&time, has_form, Bson::String(time.clone()))
            }
        }
    }

    /// Returns the name in the settings of a migration. `None` for the default.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Date => None,
            Self::EpochSeconds => Some("epoch-seconds"),
            Self::EpochMillis => Some("epoch-millis"),
            Self::Iso8601 => Some("iso-8601"),
        }
    }
}

fn convert(time: &str, has_form: Document, input: Bson) -> Bson {
    let converted = doc! { "$convert": { "input": input, "to": "date", "onError": null } };
    doc! { "$cond": [has_form, converted, time] }.into()
}
