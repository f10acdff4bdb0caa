//! The fields that have the ids of sources alone, before a migration.

use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::{Document, doc};

use super::{ReferenceField, Settings, invalid_argument};

/// The names of the fields with ids, as a caller sets them: each after the name of its reference field.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldNames(Vec<(String, String)>);

/// A reference field, and the field with the ids.
#[derive(Clone, Debug)]
pub(crate) struct BareField<'a> {
    pub(crate) field: &'a ReferenceField,
    /// The field with the ids. It can be the reference field itself.
    pub(crate) bare: FieldName,
}

impl BareField<'_> {
    /// Returns whether the ids are in the reference field itself.
    pub(crate) fn is_in_place(&self) -> bool {
        self.bare == self.field.name
    }
}

impl FieldNames {
    pub(crate) fn add(&mut self, reference: String, field: String) {
        self.0.push((reference, field));
    }

    /// Returns the reference fields of the repository's own documents with the fields of their ids.
    pub(crate) fn checked<'a>(&self, settings: &'a Settings) -> Result<Vec<BareField<'a>>> {
        let in_place = |field: &'a ReferenceField| BareField {
            field,
            bare: field.name.clone(),
        };
        let mut fields: Vec<BareField<'a>> = settings.own().map(in_place).collect();
        for (number, (reference, bare)) in self.0.iter().enumerate() {
            if self.0[..number].iter().any(|(earlier, _)| earlier == reference) {
                return Err(invalid_argument(
                    "a reference field has two fields with ids, nothing was sent: set one for each reference field",
                ));
            }
            named(&mut fields, reference)?.bare = FieldName::new(bare)?;
        }
        for one in &fields {
            let clashes = |other: &BareField<'_>| {
                other.field.name != one.field.name && [&other.field.name, &other.bare].contains(&&one.bare)
            };
            if fields.iter().any(clashes) {
                return Err(invalid_argument(
                    "the field with the ids is that of another reference, nothing was sent: set a field of its own for each reference field",
                ));
            }
        }
        Ok(fields)
    }
}

fn named<'f, 'a>(fields: &'f mut [BareField<'a>], reference: &str) -> Result<&'f mut BareField<'a>> {
    let named = fields.iter_mut().find(|field| field.field.name.as_str() == reference);
    named.ok_or_else(|| {
        invalid_argument(
            "the documents have no reference field of this name, nothing was sent: pass one of the builder",
        )
    })
}

/// Returns the settings of a migration as its record has them, for the collections of the documents and of the sources.
pub(crate) fn recorded(settings: &Settings, fields: &[BareField<'_>], collections: [&str; 2]) -> Document {
    let [documents, sources] = collections;
    let fields = fields.iter().map(|one| {
        doc! { "field": one.field.name.as_str(), "ids": one.bare.as_str() }
    });
    let mut recorded = doc! {
        "pattern": "reference",
        "into": "copies",
        "source": documents,
        "sources": sources,
        "version": settings.version.as_str(),
        "fields": fields.collect::<Vec<_>>(),
    };
    if let Some(key) = &settings.key {
        recorded.insert("sourceKey", key.as_str());
    }
    recorded
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;

    use super::*;
    use crate::settings::tests::example;

    #[test]
    fn each_reference_has_a_field_of_its_own() {
        let settings = example();
        let checked = |names: &[(&str, &str)]| {
            let mut of_caller = FieldNames::default();
            for (reference, bare) in names {
                of_caller.add((*reference).to_owned(), (*bare).to_owned());
            }
            let fields = of_caller.checked(&settings);
            fields.map(|fields| {
                fields
                    .iter()
                    .map(|one| one.bare.as_str().to_owned())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(checked(&[]).unwrap(), ["customer", "products"]);
        assert_eq!(
            checked(&[("customer", "customerId")]).unwrap(),
            ["customerId", "products"]
        );
        assert_eq!(checked(&[("customer", "customer")]).unwrap(), ["customer", "products"]);
        let kind = |names: &[(&str, &str)]| checked(names).unwrap_err().kind();
        for field in ["", "_id", "a.b", "$a", "a\0"] {
            assert_eq!(kind(&[("customer", field)]), ErrorKind::Configuration, "{field:?}");
        }
        for names in [
            &[("payer", "payerId")][..],
            &[("customer", "products")],
            &[("customer", "ids"), ("products", "ids")],
            &[("customer", "a"), ("customer", "b")],
        ] {
            assert_eq!(kind(names), ErrorKind::InvalidArgument, "{names:?}");
        }
    }
}
