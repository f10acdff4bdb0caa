//! The ids of the children that a parent embeds, as expressions. They decide about parents that no repository has written.

use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// Whether a value is the version of a parent.
pub(super) fn is_version(path: &str) -> Document {
    doc! { "$in": [{ "$type": path }, ["int", "long"]] }
}

/// Whether a parent is unmanaged and embeds children.
pub(crate) fn is_unmanaged(settings: &Settings) -> Document {
    is_unmanaged_at(settings, &arrays(settings), &format!("${}", settings.version))
}

/// Whether a parent is unmanaged and embeds children in its first subset, which a migration copies.
pub(crate) fn is_unmigrated(settings: &Settings) -> Document {
    let first = format!("${}", settings.first().field);
    is_unmanaged_at(settings, &[first], &format!("${}", settings.version))
}

pub(super) fn is_unmanaged_at(settings: &Settings, arrays: &[String], version: &str) -> Document {
    let none: Vec<Bson> = arrays.iter().map(|_| Bson::Array(Vec::new())).collect();
    doc! { "$and": [
        { "$not": [is_version(version)] },
        { "$ne": [ids_of(settings, arrays), one_or_all(none)] },
    ] }
}

/// Returns the paths of the arrays of a parent.
pub(super) fn arrays(settings: &Settings) -> Vec<String> {
    let subsets = settings.subsets.iter();
    subsets.map(|subset| format!("${}", subset.field)).collect()
}

/// The ids of the children in one array, or an array of them for several.
pub(super) fn ids_of(settings: &Settings, arrays: &[String]) -> Bson {
    let ids = arrays.iter().map(|array| embedded_ids(settings, array).into());
    one_or_all(ids.collect())
}

/// The value of one subset, or an array of values for several.
pub(super) fn one_or_all(mut values: Vec<Bson>) -> Bson {
    match values.len() {
        1 => values.remove(0),
        _ => Bson::Array(values),
    }
}

/// The ids of the children in an array, in their order, with `null` for a missing one. Another value than an array stays as
/// it is.
pub(crate) fn embedded_ids(settings: &Settings, array: &str) -> Document {
    let id = format!("$$child.{}", settings.child_id);
    let ids = doc! { "$map": { "input": array, "as": "child", "in": id } };
    doc! { "$cond": [{ "$isArray": array }, ids, { "$ifNull": [array, []] }] }
}
