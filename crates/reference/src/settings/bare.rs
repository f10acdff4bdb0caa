//! The fields that have the ids of sources alone, before a migration or after it, and the forms of references.

use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::{Document, doc};

use super::{ReferenceField, Settings, invalid_argument};

/// The form of references that another library has stored, or a program by hand.
///
/// ```
/// # use mongo_patterns::reference::ReferenceForm;
/// let of_doctrine = ReferenceForm::DbRef;
/// let by_hand = ReferenceForm::IdIn("id".into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReferenceForm {
    /// A DBRef: `{ $ref: "customers", $id: 456 }`, also with `$db` and with other fields.
    DbRef,
    /// A document with the id of the source in this field, which is not `_id`: `{ id: 456, name: "Ann" }`.
    IdIn(String),
}

impl ReferenceForm {
    /// Returns the fields that say which source it is, first that of the id.
    pub(crate) fn fields(&self) -> Vec<&str> {
        match self {
            Self::DbRef => vec!["$id", "$ref", "$db"],
            Self::IdIn(field) => vec![field],
        }
    }
}

/// The names of the fields with ids, and the forms, as a caller sets them: each after the name of its reference field.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldNames {
    fields: Vec<(String, String)>,
    forms: Vec<(String, ReferenceForm)>,
}

/// A reference field, and the field with the ids.
#[derive(Clone, Debug)]
pub(crate) struct BareField<'a> {
    pub(crate) field: &'a ReferenceField,
    /// The field with the ids. It can be the reference field itself.
    pub(crate) bare: FieldName,
    /// The form of its references, if it is another one.
    pub(crate) form: Option<ReferenceForm>,
}

impl BareField<'_> {
    /// Returns whether the ids are in the reference field itself.
    pub(crate) fn is_in_place(&self) -> bool {
        self.bare == self.field.name
    }
}

impl FieldNames {
    pub(crate) fn add(&mut self, reference: String, field: String) {
        self.fields.push((reference, field));
    }

    pub(crate) fn add_form(&mut self, reference: String, form: ReferenceForm) {
        self.forms.push((reference, form));
    }

    /// Returns the reference fields of the repository's own documents with the fields of their ids.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) and [`InvalidArgument`](ErrorKind::InvalidArgument).
    pub(crate) fn checked<'a>(&self, settings: &'a Settings) -> Result<Vec<BareField<'a>>> {
        let in_place = |field: &'a ReferenceField| BareField {
            field,
            bare: field.name.clone(),
            form: None,
        };
        let mut fields: Vec<BareField<'a>> = settings.own().map(in_place).collect();
        for (at, (reference, bare)) in self.fields.iter().enumerate() {
            if self.fields[..at].iter().any(|(earlier, _)| earlier == reference) {
                return Err(invalid_argument(
                    "a reference field has two fields with ids, nothing was sent: set one for each reference field",
                ));
            }
            named(&mut fields, reference)?.bare = FieldName::new(bare)?;
        }
        if settings.key.is_some() && !self.forms.is_empty() {
            return Err(invalid_argument(
                "references by the source key have no other form, nothing was sent: omit from_form(..), or migrate them with a repository without source_key(..)",
            ));
        }
        for (reference, form) in &self.forms {
            if let ReferenceForm::IdIn(field) = form {
                FieldName::new(field)?;
            }
            let earlier = named(&mut fields, reference)?.form.replace(form.clone());
            if earlier.is_some() {
                return Err(invalid_argument(
                    "a reference field has two forms, nothing was sent: migrate one after the other, with skip_invalid(..)",
                ));
            }
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

/// Returns the reference field of this name.
fn named<'f, 'a>(fields: &'f mut [BareField<'a>], reference: &str) -> Result<&'f mut BareField<'a>> {
    let named = fields.iter_mut().find(|field| field.field.name.as_str() == reference);
    named.ok_or_else(|| {
        invalid_argument(
            "the documents have no reference field of this name, nothing was sent: pass one of the builder",
        )
    })
}

/// Returns the settings of a migration as its record has them, for the collections of the documents and of the sources.
pub(crate) fn recorded(settings: &Settings, fields: &[BareField<'_>], collections: [&str; 2], into: &str) -> Document {
    let [documents, sources] = collections;
    let fields = fields.iter().map(|one| {
        let mut recorded = doc! { "field": one.field.name.as_str(), "ids": one.bare.as_str() };
        if let Some(form) = &one.form {
            recorded.insert("idIn", form.fields()[0]);
        }
        recorded
    });
    let mut recorded = doc! {
        "pattern": "reference",
        "into": into,
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
    use mongodb::bson::Bson;

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
    #[test]
    fn each_reference_has_one_form() {
        let settings = example();
        let checked = |forms: &[(&str, ReferenceForm)]| {
            let mut of_caller = FieldNames::default();
            for (reference, form) in forms {
                of_caller.add_form((*reference).to_owned(), form.clone());
            }
            of_caller.checked(&settings).map_err(|error| error.kind())
        };
        let id_in = |field: &str| ReferenceForm::IdIn(field.to_owned());
        let fields = checked(&[("products", id_in("id")), ("customer", ReferenceForm::DbRef)]).unwrap();
        let recorded = recorded(&settings, &fields, ["orders", "customers"], "copies");
        let fields: Vec<Bson> = vec![
            doc! { "field": "customer", "ids": "customer", "idIn": "$id" }.into(),
            doc! { "field": "products", "ids": "products", "idIn": "id" }.into(),
        ];
        assert_eq!(recorded.get_array("fields").unwrap(), &fields);
        for field in ["", "_id", "a.b", "$id", "a\0"] {
            let refused = checked(&[("customer", id_in(field))]).unwrap_err();
            assert_eq!(refused, ErrorKind::Configuration, "{field:?}");
        }
        for forms in [
            &[("payer", ReferenceForm::DbRef)][..],
            &[("customer", ReferenceForm::DbRef), ("customer", id_in("id"))],
        ] {
            assert_eq!(checked(forms).unwrap_err(), ErrorKind::InvalidArgument, "{forms:?}");
        }
    }
}
