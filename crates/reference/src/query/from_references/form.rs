//! The conversion of references of another form: a DBRef, or a document with the id in another field than `_id`.
//!
//! # Design
//!
//! ## Why are they converted first?
//!
//! The migration checks and copies a value as if the reference had the form of the pattern all along. A value that is not
//! converted keeps its form, which is the problem of its document.

use super::*;
use crate::query::expression::{field_of, is_without_id, type_in, without_field};
use crate::settings::DELETED;
use crate::settings::bare::ReferenceForm;

impl FromReferences<'_> {
    /// Returns a value of a field in which each reference of the form is a document with an `_id`, and its other fields.
    pub(super) fn converted(&self, field: &ReferenceField, form: &ReferenceForm, value: &str) -> Document {
        let of_element = |value: &str| {
            let own = Bson::from(value);
            let own = form
                .fields()
                .iter()
                .fold(own, |own, name| without_field(own, name).into());
            let converted = doc! { "$mergeObjects": [{ "_id": id_of(form, value) }, own] };
            doc! { "$cond": [self.is_convertible(form, value), converted, value] }
        };
        match field.is_array {
            true => doc! { "$cond": [{ "$isArray": value }, mapped(value, of_element(ELEMENT)), value] },
            false => of_element(value),
        }
    }

    /// Returns the ids of the references in a field that are converted.
    pub(super) fn converted_ids(&self, at: usize, one: &BareField<'_>, form: &ReferenceForm) -> Document {
        let names: &[char] = if one.is_in_place() { &['f'] } else { &['f', 'b'] };
        concatenated(names.iter().map(|name| {
            let values = values(one.field, &path(*name, at));
            mapped(
                filtered(values, self.is_convertible(form, ELEMENT)),
                id_of(form, ELEMENT),
            )
        }))
    }

    fn is_convertible(&self, form: &ReferenceForm, value: &str) -> Document {
        let conditions = [
            not(is_missing(id_of(form, value))),
            self.is_of_sources(form, value),
            not(self.has_written(value)),
        ];
        doc! { "$cond": [is_without_id(value), { "$and": conditions.to_vec() }, false] }
    }

    /// Returns whether a DBRef names the collection of the sources.
    pub(super) fn is_of_sources(&self, form: &ReferenceForm, value: &str) -> Document {
        if *form != ReferenceForm::DbRef {
            return doc! { "$literal": true };
        }
        let database = field_of(value, "$db");
        let is_same = doc! { "$eq": [&database, { "$literal": &self.database }] };
        doc! { "$and": [
            { "$eq": [field_of(value, "$ref"), { "$literal": self.sources }] },
            any_of([is_missing(database), is_same]),
        ] }
    }

    /// Returns whether a value of the form has a field of its own that the pattern writes, which would be lost.
    pub(super) fn has_reserved_field(&self, form: &ReferenceForm, value: &str) -> Document {
        let id = format!("{value}._id");
        let other_id = doc! { "$and": [not(is_missing(&id)), { "$ne": [id, id_of(form, value)] }] };
        let conditions = [
            not(is_missing(id_of(form, value))),
            any_of([other_id, self.has_written(value)]),
        ];
        doc! { "$cond": [type_in(value, &["object"]), { "$and": conditions.to_vec() }, false] }
    }

    /// Returns whether a document has a version, or the field of a deleted source.
    pub(super) fn has_written(&self, value: &str) -> Document {
        any_of([self.settings.version.as_str(), DELETED].map(|name| is_present(format!("{value}.{name}"))))
    }
}

fn id_of(form: &ReferenceForm, value: &str) -> Document {
    field_of(value, form.fields()[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::from_references::tests::with_form;

    /// Of the reference with its ids in a field of their own.
    fn converted(form: &ReferenceForm, value: &str) -> Document {
        let mut converted = Document::new();
        with_form(|migration| converted = migration.converted(migration.fields[0].field, form, value));
        converted
    }

    #[test]
    fn a_db_ref_to_the_sources_gets_an_id() {
        let field = |name: &str| doc! { "$getField": { "field": { "$literal": name }, "input": "$f0" } };
        let is_convertible = doc! { "$cond": [
            is_without_id("$f0"),
            { "$and": [
                { "$not": [is_missing(field("$id"))] },
                { "$and": [
                    { "$eq": [field("$ref"), { "$literal": "customers" }] },
                    { "$or": [is_missing(field("$db")), { "$eq": [field("$db"), { "$literal": "shop" }] }] },
                ] },
                { "$not": [{ "$or": [is_present("$f0.v"), is_present("$f0.deleted")] }] },
            ] },
            false,
        ] };
        let own = ["$id", "$ref", "$db"].iter().fold(Bson::from("$f0"), |own, name| {
            doc! { "$unsetField": { "field": { "$literal": name }, "input": own } }.into()
        });
        let with_id = doc! { "$mergeObjects": [{ "_id": field("$id") }, own] };
        let expected = doc! { "$cond": [is_convertible, with_id, "$f0"] };
        assert_eq!(converted(&ReferenceForm::DbRef, "$f0"), expected);
    }

    #[test]
    fn the_name_of_the_field_with_the_id_is_a_literal() {
        let form = ReferenceForm::IdIn("user$id".into());
        let converted = converted(&form, "$f0");
        let with_id = converted.get_array("$cond").unwrap()[1].as_document().unwrap();
        let name = |operator: &str| doc! { operator: { "field": { "$literal": "user$id" }, "input": "$f0" } };
        assert_eq!(
            with_id,
            &doc! { "$mergeObjects": [{ "_id": name("$getField") }, name("$unsetField")] }
        );
    }
}
