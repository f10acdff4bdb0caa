//! The references of a document.

use mongo_patterns_core::FieldName;
use mongo_patterns_reference::Reference;

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
    Ok([first]
        .into_iter()
        .chain(settings.further.iter().flatten().cloned())
        .collect())
}

/// Checks the names by their options, because the error of a repository does not name the option.
pub(crate) fn check(settings: &ReferenceSettings) -> Result<(), Failure> {
    let failed = |option| move |error| Failure::usage(format!("{option}: {error}"));
    if let Some(field) = &settings.reference {
        FieldName::in_array(field).map_err(failed("--reference"))?;
    }
    let paths = settings.copy.iter().flatten().flat_map(|path| path.split('='));
    for part in paths.flat_map(|path| path.split('.')) {
        FieldName::in_array(part).map_err(failed("--copy"))?;
    }
    Ok(())
}

/// Returns the names of references and of the other fields with their ids, from each `reference=field`. They are
/// references of the pattern's own collection.
pub(crate) fn in_other_fields<'s>(
    values: Option<&'s Vec<String>>,
    references: &[ReferenceField],
) -> Result<Vec<(&'s str, &'s str)>, Failure> {
    let usage = |text: &str| Failure::usage(format!("--from-field: {text}"));
    let split = |value: &'s String| {
        let (name, field) = value
            .split_once('=')
            .ok_or_else(|| usage("pass reference=field, such as customer=customerId"))?;
        let is_named = |reference: &ReferenceField| reference.collection.is_none() && reference.field == name;
        if !references.iter().any(is_named) {
            return Err(usage(
                "before the = is not a reference field of the collection: pass that of --reference, or of a table [[reference.further]] in the profile",
            ));
        }
        FieldName::new(field).map_err(|error| usage(&error.to_string()))?;
        Ok((name, field))
    };
    values.into_iter().flatten().map(split).collect()
}
