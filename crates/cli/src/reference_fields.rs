//! The references of a document.

use mongo_patterns_core::FieldName;
use mongo_patterns_reference::{Reference, ReferenceForm};

use crate::failure::Failure;
use crate::settings::{ReferenceField, ReferenceSettings, need};

impl ReferenceField {
    /// Returns the paths in the copy, and those in the source.
    pub(crate) fn copied(&self) -> impl Iterator<Item = (&str, &str)> {
        let paths = self.copy.iter();
        paths.map(|path| path.split_once('=').unwrap_or((path, path)))
    }

    /// Returns the reference as the builder takes it.
    pub(crate) fn to_reference(&self) -> Reference {
        let mut reference = Reference::new(&self.field);
        for (target, source) in self.copied() {
            reference = reference.copied_field(target, source);
        }
        if self.array {
            reference = reference.array();
        }
        if self.snapshot {
            reference = reference.snapshot();
        }
        reference
    }
}

/// Returns all references of the settings. The first is that of `--reference`.
pub(crate) fn all(settings: &ReferenceSettings) -> Result<Vec<ReferenceField>, Failure> {
    const PATTERN: &str = "reference";
    let first = ReferenceField {
        collection: None,
        field: need(settings.reference.as_ref(), PATTERN, "reference")?.to_owned(),
        copy: settings.copy.clone().unwrap_or_default(),
        array: settings.array.unwrap_or(false),
        snapshot: settings.snapshot.unwrap_or(false),
    };
    if first.copy.is_empty() {
        need(None, PATTERN, "copy")?;
    }
    check(&first)?;
    Ok([first]
        .into_iter()
        .chain(settings.further.iter().flatten().cloned())
        .collect())
}

/// Checks the names by their options, because the error of a repository does not name the option.
fn check(first: &ReferenceField) -> Result<(), Failure> {
    let failed = |option| move |error| Failure::usage(format!("{option}: {error}"));
    FieldName::in_array(&first.field).map_err(failed("--reference"))?;
    let paths = first.copied().flat_map(|(target, source)| [target, source]);
    for part in paths.flat_map(|path| path.split('.')) {
        FieldName::in_array(part).map_err(failed("--copy"))?;
    }
    Ok(())
}

/// Returns the names of references and of the other fields with their ids, from each `reference=field`. They are
/// references of the pattern's own collection.
pub(crate) fn in_other_fields<'s>(
    option: &str,
    values: Option<&'s Vec<String>>,
    references: &[ReferenceField],
) -> Result<Vec<(&'s str, &'s str)>, Failure> {
    let usage = "reference=field, such as customer=customerId";
    let of_value = |value: &'s String| {
        let (name, field) = of_reference(option, usage, value, references)?;
        FieldName::new(field).map_err(|error| Failure::usage(format!("{option}: {error}")))?;
        Ok((name, field))
    };
    values.into_iter().flatten().map(of_value).collect()
}

/// Returns the names of references and their forms, from each `reference=dbref` or `reference=id:field`.
pub(crate) fn in_other_forms<'s>(
    option: &str,
    values: Option<&'s Vec<String>>,
    references: &[ReferenceField],
) -> Result<Vec<(&'s str, ReferenceForm)>, Failure> {
    let usage = "reference=dbref, or reference=id:field, such as customer=id:userId";
    let of_value = |value: &'s String| {
        let (name, form) = of_reference(option, usage, value, references)?;
        let form = match (form, form.strip_prefix("id:")) {
            ("dbref", _) => ReferenceForm::DbRef,
            (_, Some(field)) => {
                FieldName::new(field).map_err(|error| Failure::usage(format!("{option}: {error}")))?;
                ReferenceForm::IdIn(field.to_owned())
            }
            _ => return Err(Failure::usage(format!("{option}: pass {usage}"))),
        };
        Ok((name, form))
    };
    values.into_iter().flatten().map(of_value).collect()
}

/// Splits a value at its `=`, before which is a reference of the pattern's own collection.
fn of_reference<'s>(
    option: &str,
    usage: &str,
    value: &'s str,
    references: &[ReferenceField],
) -> Result<(&'s str, &'s str), Failure> {
    let (name, of_name) = value
        .split_once('=')
        .ok_or_else(|| Failure::usage(format!("{option}: pass {usage}")))?;
    if !references
        .iter()
        .any(|reference| reference.collection.is_none() && reference.field == name)
    {
        return Err(Failure::usage(format!(
            "{option}: before the = is not a reference field of the collection: pass that of --reference, or of a table [[reference.further]] in the profile"
        )));
    }
    Ok((name, of_name))
}
