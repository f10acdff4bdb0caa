//! The first children of a parent, for each of its subsets.
//!
//! # Design
//!
//! ## Why does one command read the children of all subsets?
//!
//! A write then needs as many round trips for several subsets as for one. Outside a transaction the subsets are not of one
//! moment. Each is read after the version of the parent, as a refresh requires.
//!
//! ## Why does it begin with the first subset?
//!
//! It has no filter, so it is empty only if the parent has no children. Then all other subsets are empty too, and need no
//! row.
//!
//! ## Why is the whole child read before its embedded fields are projected?
//!
//! If an index has all embedded fields, the server may read them from the index, in the order of its keys, and with `null`
//! for a missing one. Another command reads them from the document. Then equal subsets would differ, and
//! [`verify`](crate::SubsetRepository::verify) would report correct ones.

use mongo_patterns_core::migration::and;
use mongodb::bson::{Bson, Document, doc};

use super::{children_of, embedded};
use crate::settings::Settings;
use crate::settings::subset::CheckedSubset;

/// The field of a row with a child.
pub(crate) const CHILD: &str = "child";
/// The field of a row with the number of its subset, counted from 0 after the first one, whose rows have none.
pub(crate) const SUBSET: &str = "subset";

/// Returns the first children of a parent for each subset: a row each.
pub(crate) fn of_all_subsets(settings: &Settings, children: &str, parent: &Bson) -> Vec<Document> {
    match settings.subsets.len() {
        1 => of_subset(settings, 0, parent),
        _ => with_others(settings, children, parent, Vec::new()),
    }
}

/// Returns the first children of a parent for each subset, and the rows of other pipelines over the children.
pub(super) fn with_others(
    settings: &Settings,
    children: &str,
    parent: &Bson,
    others: Vec<Vec<Document>>,
) -> Vec<Document> {
    let subsets = (0..settings.subsets.len()).map(|number| of_subset(settings, number, parent));
    let mut pipelines = subsets.chain(others);
    let mut stages = pipelines.next().unwrap_or_default();
    stages.push(doc! { "$group": { "_id": null, "rows": { "$push": "$$ROOT" } } });
    let mut rows = vec![Bson::from("$rows")];
    for (number, pipeline) in pipelines.enumerate() {
        let name = format!("rows{number}");
        rows.push(format!("${name}").into());
        stages.push(doc! { "$lookup": { "from": children, "pipeline": pipeline, "as": name } });
    }
    stages.extend([
        doc! { "$project": { "rows": { "$concatArrays": rows } } },
        // The rows of one document could exceed 16 MiB.
        doc! { "$unwind": "$rows" },
        doc! { "$replaceWith": "$rows" },
    ]);
    stages
}

fn of_subset(settings: &Settings, number: usize, parent: &Bson) -> Vec<Document> {
    let subset = &settings.subsets[number];
    let from_documents = number > 0 || subset.is_covered();
    let mut stages = first_among(settings, subset, children_of(settings, parent), from_documents);
    let mut row = doc! { CHILD: "$$ROOT" };
    if let Some(number) = number.checked_sub(1) {
        row.insert(SUBSET, doc! { "$literal": i32::try_from(number).unwrap_or(i32::MAX) });
    }
    stages.push(doc! { "$replaceWith": row });
    stages
}

/// Returns the stages that read the first children of a filter for a subset, as they are embedded.
pub(super) fn first_among(
    settings: &Settings,
    subset: &CheckedSubset,
    filter: Document,
    from_documents: bool,
) -> Vec<Document> {
    let mut stages = vec![
        doc! { "$match": and(filter, subset.filter.query().clone()) },
        doc! { "$sort": subset.sort() },
        doc! { "$limit": i64::from(subset.size) },
    ];
    let projection = embedded(settings, subset);
    if !from_documents || subset.embedded_fields.is_none() {
        stages.push(doc! { "$project": projection });
        return stages;
    }
    let is_included = |(_, is_included): &(String, Bson)| *is_included == Bson::Int32(1);
    let included = projection.into_iter().filter(is_included);
    let included = included.map(|(field, included)| (format!("{CHILD}.{field}"), included));
    stages.extend([
        doc! { "$replaceWith": { CHILD: "$$ROOT" } },
        doc! { "$project": included.collect::<Document>() },
        doc! { "$replaceWith": format!("${CHILD}") },
    ]);
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_operators_are_values() {
        let settings = Settings::example();
        let id = Bson::Document(doc! { "$gt": 1 });
        assert_eq!(
            of_all_subsets(&settings, "review", &id),
            [
                doc! { "$match": { "product_id": { "$eq": &id } } },
                doc! { "$sort": { "published_date": -1, "review_id": -1 } },
                doc! { "$limit": i64::from(settings.first().size) },
                doc! { "$project": { "product_id": 0, "_id": 0 } },
                doc! { "$replaceWith": { "child": "$$ROOT" } },
            ]
        );
    }

    #[test]
    fn one_command_reads_the_children_of_all_subsets() {
        let settings = Settings::example().with_best();
        let id = Bson::Int32(1);
        let of_parent = doc! { "product_id": { "$eq": 1 } };
        let best = [
            doc! { "$match": { "$and": [&of_parent, { "stars": { "$gte": 4 } }] } },
            doc! { "$sort": { "stars": -1, "review_id": -1 } },
            doc! { "$limit": 3_i64 },
            doc! { "$replaceWith": { "child": "$$ROOT" } },
            doc! { "$project": { "child.stars": 1, "child.review_id": 1 } },
            doc! { "$replaceWith": "$child" },
            doc! { "$replaceWith": { "child": "$$ROOT", "subset": { "$literal": 0 } } },
        ];
        let mut expected = of_subset(&settings, 0, &id);
        expected.extend([
            doc! { "$group": { "_id": null, "rows": { "$push": "$$ROOT" } } },
            doc! { "$lookup": { "from": "review", "pipeline": best.to_vec(), "as": "rows0" } },
            doc! { "$project": { "rows": { "$concatArrays": ["$rows", "$rows0"] } } },
            doc! { "$unwind": "$rows" },
            doc! { "$replaceWith": "$rows" },
        ]);
        assert_eq!(of_all_subsets(&settings, "review", &id), expected);
    }
}
