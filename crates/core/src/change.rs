//! Updates of single fields of a document or of an array element.

use mongodb::bson::Document;

use crate::error::{Error, ErrorKind, Result};
use crate::field::FieldName;

/// The fields to set and to remove. Each is a plain field, and named once.
pub struct FieldChange {
    set: Document,
    unset: Vec<String>,
}

crate::redacted_debug!(FieldChange);

impl FieldChange {
    /// Checks the names. A fixed field cannot be changed, for the reason that is given with it.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when no field is named, or a name is not that of a plain field, is
    /// fixed, or is repeated.
    pub fn new(set: Document, unset: Vec<String>, fixed: &[(&str, &'static str)]) -> Result<Self> {
        let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
        let mut fields: Vec<&str> = set.keys().chain(&unset).map(String::as_str).collect();
        if fields.is_empty() {
            return refuse("no field is named, and nothing was sent: name a field to set or to remove");
        }
        for field in &fields {
            if FieldName::of_element(*field).is_err() {
                return refuse(
                    "a field to change must have a plain name: not empty, without a dot and NUL, and not starting with $; nothing was sent",
                );
            }
            if let Some((_, reason)) = fixed.iter().find(|(fixed, _)| fixed == field) {
                return refuse(reason);
            }
        }
        let all = fields.len();
        fields.sort_unstable();
        fields.dedup();
        if fields.len() < all {
            return refuse("a field is named twice, and nothing was sent: name each field once");
        }
        Ok(Self { set, unset })
    }

    /// Returns the update, of fields under a path such as `addresses.$.`, or of a document for an empty path.
    pub fn update(self, path: &str) -> Document {
        let under = |field: String| format!("{path}{field}");
        let mut update = Document::new();
        if !self.set.is_empty() {
            let set = self.set.into_iter().map(|(field, value)| (under(field), value));
            update.insert("$set", Document::from_iter(set));
        }
        if !self.unset.is_empty() {
            let unset: Document = self.unset.into_iter().map(|field| (under(field), "".into())).collect();
            update.insert("$unset", unset);
        }
        update
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn only_plain_fields_are_changed_each_once_and_no_fixed_one() {
        let fixed = [("id", "the id stays")];
        let change = |set: Document, unset: &[&str]| {
            let unset = unset.iter().map(|field| (*field).to_owned()).collect();
            FieldChange::new(set, unset, &fixed)
        };
        for (set, unset) in [
            (doc! {}, &[][..]),
            (doc! { "a.b": 1 }, &[]),
            (doc! { "$inc": { "a": 1 } }, &[]),
            (doc! { "id": 1 }, &[]),
            (doc! {}, &["id"]),
            (doc! {}, &[""]),
            (doc! {}, &["a\0"]),
            (doc! { "a": 1 }, &["a"]),
            (doc! {}, &["a", "a"]),
        ] {
            let error = change(set.clone(), unset).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{set} {unset:?}");
        }
        let update = change(doc! { "a": "$b", "_id": 1 }, &["c"]).unwrap().update("items.$.");
        assert_eq!(
            update,
            doc! { "$set": { "items.$.a": "$b", "items.$._id": 1 }, "$unset": { "items.$.c": "" } }
        );
        assert_eq!(
            change(doc! {}, &["c"]).unwrap().update(""),
            doc! { "$unset": { "c": "" } }
        );
    }
}
