//! The command that updates an element of a list in a child.
//!
//! # Design
//!
//! ## Why does the filter require the element too?
//!
//! To the server, an array filter that matches no element is a success: it reports the parent as matched and not modified.

use mongo_patterns_core::DocumentId;
use mongo_patterns_core::update::Operators;
use mongodb::bson::{Document, doc};

use crate::form::child_id::ChildId;
use crate::form::grandchild::Grandchild;
use crate::settings::Settings;

/// Matches the parent if it has this child, with this element in the list. `$` in an update refers to this child.
pub(crate) fn parent_with(settings: &Settings, id: &DocumentId, child: &ChildId, grandchild: &Grandchild) -> Document {
    let element = doc! { "$elemMatch": { grandchild.id_field.as_str(): { "$eq": grandchild.id.to_bson() } } };
    let this = doc! { settings.child_id.as_str(): { "$eq": child.to_bson() }, grandchild.list.as_str(): element };
    doc! { "_id": { "$eq": id.to_bson() }, settings.children.as_str(): { "$elemMatch": this } }
}

/// Makes `$[element]` in the update refer to the element.
pub(crate) fn array_filter(grandchild: &Grandchild) -> Document {
    doc! { format!("element.{}", grandchild.id_field): { "$eq": grandchild.id.to_bson() } }
}

/// Updates the element.
pub(crate) fn change(settings: &Settings, grandchild: &Grandchild, operators: Operators) -> Document {
    operators.under(&format!("{}.$.{}.$[element].", settings.children, grandchild.list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_found_in_its_child_and_updated_by_an_array_filter() {
        let settings = Settings::example();
        let id = doc! { "$gt": "" };
        let (joe, home) = (DocumentId::new("joe").unwrap(), ChildId::new("home".into()).unwrap());
        let phone = ChildId::new(id.clone().into()).unwrap();
        let phone = Grandchild::new(&settings, "contact.phones".into(), "number".into(), phone).unwrap();
        assert_eq!(
            parent_with(&settings, &joe, &home, &phone),
            doc! { "_id": { "$eq": "joe" }, "addresses": { "$elemMatch": {
                "id": { "$eq": "home" },
                "contact.phones": { "$elemMatch": { "number": { "$eq": &id } } },
            } } }
        );
        assert_eq!(array_filter(&phone), doc! { "element.number": { "$eq": id } });
        let update = doc! { "$set": { "kind": "$kind" }, "$inc": { "calls.0": 1 } };
        assert_eq!(
            change(&settings, &phone, Operators::new(update, &[]).unwrap()),
            doc! {
                "$set": { "addresses.$.contact.phones.$[element].kind": "$kind" },
                "$inc": { "addresses.$.contact.phones.$[element].calls.0": 1 },
            }
        );
    }
}
