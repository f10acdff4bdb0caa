//! The commands of an update of one element.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::update::Operators;
use mongodb::bson::{Bson, Document, doc};

use super::filters::{by_id, overflow_of};
use crate::settings::Settings;

/// Matches an element whose fields have these values. As an `$elemMatch`, it makes `$` in an update refer to the first one.
fn element(fields: &Document) -> Document {
    let equal = |(field, value): (&String, &Bson)| (field.clone(), doc! { "$eq": value }.into());
    doc! { "$elemMatch": fields.iter().map(equal).collect::<Document>() }
}

/// Matches the main document, if its array has such an element.
pub(crate) fn main_with(settings: &Settings, id: &Bson, fields: &Document) -> Document {
    let mut filter = by_id(id);
    filter.insert(settings.array.as_str(), element(fields));
    filter
}

/// Matches the overflow documents that have such an element.
pub(crate) fn overflow_with_fields(settings: &Settings, id: &Bson, fields: &Document) -> Document {
    let mut filter = overflow_of(settings, id);
    filter.insert(settings.extras.as_str(), element(fields));
    filter
}

/// Projects the flag of the main document, and the first such element.
pub(crate) fn flag_and_element(settings: &Settings, fields: &Document) -> Document {
    doc! { settings.flag.as_str(): 1, settings.array.as_str(): element(fields) }
}

/// Updates the element of this array that the filter found.
pub(crate) fn update_in(array: &FieldName, operators: Operators) -> Document {
    operators.under(&format!("{array}.$."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_found_and_updated_in_both_collections() {
        let settings = Settings::example();
        let (id, fields) = (Bson::Int32(2), doc! { "user": doc! { "$gt": "" }, "shop.city": "$x" });
        let has = doc! { "$elemMatch": { "user": { "$eq": { "$gt": "" } }, "shop.city": { "$eq": "$x" } } };
        assert_eq!(
            main_with(&settings, &id, &fields),
            doc! { "_id": { "$eq": 2 }, "customers_purchased": &has }
        );
        assert_eq!(
            overflow_with_fields(&settings, &id, &fields),
            doc! { "book_id": { "$eq": 2 }, "customers_purchased_extra": &has }
        );
        assert_eq!(
            flag_and_element(&settings, &fields),
            doc! { "has_extras": 1, "customers_purchased": has }
        );
        let update = doc! { "$inc": { "copies": 1 }, "$set": { "shop.city": "$y" } };
        assert_eq!(
            update_in(&settings.extras, Operators::new(update, &[]).unwrap()),
            doc! {
                "$inc": { "customers_purchased_extra.$.copies": 1 },
                "$set": { "customers_purchased_extra.$.shop.city": "$y" },
            }
        );
    }
}
