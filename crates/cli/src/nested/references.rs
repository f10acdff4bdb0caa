//! The references of a document: each an option, and a setting in the catalog.

use mongo_patterns_core::FieldName;
use mongo_patterns_reference::{Reference, ReferenceForm};
use mongodb::bson::Document;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::settings::{ReferenceSettings, need};

/// A reference field, as `--add-reference` and `--add-referring` describe it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferenceField {
    /// The collection, if it is another one than that of the pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collection: Option<String>,
    pub(crate) field: String,
    pub(crate) copy: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) array: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) snapshot: bool,
}

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

    /// Checks the names by their options, because the error of a repository does not name the option.
    fn check(self, of_field: &str, of_copy: &str) -> Result<Self, Failure> {
        let failed = |option: &str| {
            let option = option.to_owned();
            move |error| Failure::usage(format!("{option}: {error}"))
        };
        FieldName::in_array(&self.field).map_err(failed(of_field))?;
        for part in self
            .copied()
            .flat_map(|(target, source)| [target, source])
            .flat_map(|path| path.split('.'))
        {
            FieldName::in_array(part).map_err(failed(of_copy))?;
        }
        Ok(self)
    }
}

/// Returns all references of the settings. The first is that of `--reference`.
pub(crate) fn all(settings: &ReferenceSettings) -> Result<Vec<ReferenceField>, Failure> {
    const PATTERN: &str = "reference";
    let copy = settings.copy.clone().unwrap_or_default();
    let first = ReferenceField {
        collection: None,
        field: need(settings.reference.as_ref(), PATTERN, "reference")?.to_owned(),
        copy,
        array: settings.array.unwrap_or(false),
        snapshot: settings.snapshot.unwrap_or(false),
    };
    if first.copy.is_empty() {
        need(None, PATTERN, "copy")?;
    }
    let mut references = vec![first.check("--reference", "--copy")?];
    for text in settings.add_reference.iter().flatten() {
        references.push(parse("--add-reference", text, false)?);
    }
    for text in settings.add_referring.iter().flatten() {
        references.push(parse("--add-referring", text, true)?);
    }
    Ok(references)
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
            "{option}: before the = is not a reference field of the collection: pass that of --reference or --add-reference"
        )));
    }
    Ok((name, of_name))
}

/// Returns a reference by the value of its option.
fn parse(option: &str, text: &str, has_collection: bool) -> Result<ReferenceField, Failure> {
    let parsed = serde_json::from_str::<ReferenceField>(text).ok();
    let parsed = parsed.filter(|parsed| parsed.collection.is_some() == has_collection && !parsed.copy.is_empty());
    let parsed = parsed.ok_or_else(|| {
        let collection = if has_collection { "\"collection\": \"invoices\", " } else { "" };
        Failure::usage(format!(
            "{option}: not a reference in JSON: pass {{{collection}\"field\": \"payer\", \"copy\": [\"name\"]}}, with \"array\": true and \"snapshot\": true if it is one"
        ))
    })?;
    parsed.check(option, option)
}

/// Returns the settings in the catalog, which are those of a collection and its first reference field.
pub(crate) fn of_entry(collection: Option<String>, field: Option<&str>, settings: &Document) -> ReferenceSettings {
    let mut of_entry = ReferenceSettings {
        source_collection: settings.get_str("source_collection").ok().map(str::to_owned),
        version_field: settings.get_str("version").ok().map(str::to_owned),
        source_key: settings.get_str("source_key").ok().map(str::to_owned),
        ..ReferenceSettings::default()
    };
    let references = settings.get_array("references").into_iter().flatten();
    let references = references.filter_map(|reference| stored(reference.as_document()?));
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for mut reference in references {
        if reference.collection != collection {
            other.extend(serde_json::to_string(&reference));
            continue;
        }
        reference.collection = None;
        if field == Some(reference.field.as_str()) {
            of_entry.reference = Some(reference.field);
            of_entry.copy = Some(reference.copy);
            of_entry.array = reference.array.then_some(true);
            of_entry.snapshot = reference.snapshot.then_some(true);
        } else {
            same.extend(serde_json::to_string(&reference));
        }
    }
    of_entry.collection = collection;
    of_entry.add_reference = (!same.is_empty()).then_some(same);
    of_entry.add_referring = (!other.is_empty()).then_some(other);
    of_entry
}

/// Returns a reference in the catalog.
fn stored(reference: &Document) -> Option<ReferenceField> {
    let copied = reference.get_array("copied").ok()?.iter();
    let copied = copied.map(|copied| {
        let copied = copied.as_document()?;
        let (target, source) = (copied.get_str("field").ok()?, copied.get_str("from").ok()?);
        Some(match target == source && !target.contains('=') {
            true => target.to_owned(),
            false => format!("{target}={source}"),
        })
    });
    Some(ReferenceField {
        collection: reference.get_str("collection").ok().map(str::to_owned),
        field: reference.get_str("field").ok()?.to_owned(),
        copy: copied.collect::<Option<_>>()?,
        array: reference.get_bool("array").unwrap_or(false),
        snapshot: reference.get_bool("snapshot").unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn settings_survive_the_catalog() {
        let reference = |collection: &str, field: &str, array: bool, copied: &[(&str, &str)]| {
            let copied = copied.iter();
            let copied: Vec<Document> = copied
                .map(|(field, from)| doc! { "field": field, "from": from })
                .collect();
            doc! { "collection": collection, "field": field, "array": array, "snapshot": !array, "copied": copied }
        };
        let entry = doc! {
            "source_collection": "customers",
            "version": "version",
            "references": [
                reference("invoices", "customer", false, &[("name", "name")]),
                reference("orders", "buyers", true, &[("mail", "contact.email"), ("name", "name")]),
                reference("orders", "payer", false, &[("name", "name")]),
            ],
        };
        let settings = of_entry(Some("orders".into()), Some("buyers"), &entry);
        assert_eq!(settings.copy.clone().unwrap(), ["mail=contact.email", "name"]);
        assert_eq!(
            (settings.array, settings.snapshot, settings.version_field.as_deref()),
            (Some(true), None, Some("version"))
        );
        assert_eq!(
            settings.add_reference.clone().unwrap(),
            [r#"{"field":"payer","copy":["name"],"snapshot":true}"#]
        );
        assert_eq!(
            settings.add_referring.clone().unwrap(),
            [r#"{"collection":"invoices","field":"customer","copy":["name"],"snapshot":true}"#]
        );
        let references = all(&settings).unwrap();
        assert_eq!(references.len(), 3);
        assert_eq!(
            references[0].copied().collect::<Vec<_>>(),
            [("mail", "contact.email"), ("name", "name")]
        );
        assert_eq!(references[2].collection.as_deref(), Some("invoices"));
    }

    #[test]
    fn other_values_are_refused() {
        for bad in [
            "",
            "payer",
            "{}",
            r#"{"field": "payer"}"#,
            r#"{"field": "payer", "copy": []}"#,
            r#"{"field": "payer", "copy": "name"}"#,
            r#"{"field": "a.b", "copy": ["name"]}"#,
            r#"{"field": "payer", "copy": ["a..b"]}"#,
            r#"{"field": "payer", "copy": ["a=$b"]}"#,
            r#"{"field": "payer", "copy": ["name"], "collection": "invoices"}"#,
            r#"{"field": "payer", "copy": ["name"], "version": "v"}"#,
        ] {
            let error = parse("--add-reference", bad, false).unwrap_err();
            assert!(error.text.starts_with("--add-reference: "), "{bad}");
        }
        assert!(parse("--add-referring", r#"{"field": "payer", "copy": ["name"]}"#, true).is_err());
    }
}
