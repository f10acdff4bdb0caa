//! The further subsets of all parents.

use crate::prelude::*;
use crate::query::first_children::first_among;

/// Returns the fields with the names under which their new values are held.
pub(super) fn names(settings: &Settings) -> impl Iterator<Item = (&FieldName, String)> {
    let numbered = settings.further.iter().enumerate();
    numbered.map(|(number, subset)| (&subset.field, truth_name(number)))
}

fn stored_name(number: usize) -> String {
    format!("further{number}")
}

fn truth_name(number: usize) -> String {
    format!("truth{number}")
}

/// Projects the stored arrays.
pub(super) fn stored(settings: &Settings) -> Document {
    let numbered = settings.further.iter().enumerate();
    let stored = numbered.map(|(number, subset)| (stored_name(number), format!("${}", subset.field).into()));
    stored.collect()
}

/// Returns the paths of the arrays, after their projection.
pub(super) fn projected_arrays(settings: &Settings) -> Vec<String> {
    let further = (0..settings.further.len()).map(|number| format!("${}", stored_name(number)));
    std::iter::once("$subset".to_owned()).chain(further).collect()
}

/// Returns the stages that read the first children of a parent. `lookup` looks up what some stages return, by a name.
pub(super) fn lookups(
    settings: &Settings,
    is_child: &Document,
    lookup: impl Fn(&[Document], &str) -> Document,
) -> Vec<Document> {
    let numbered = settings.further.iter().enumerate();
    let lookups = numbered.map(|(number, subset)| {
        let stages = first_among(settings, subset, is_child.clone());
        lookup(&stages, &truth_name(number))
    });
    lookups.collect()
}

/// Returns whether each array differs from the first children, as expressions. A missing one is that of a parent without
/// children.
pub(super) fn differs(settings: &Settings) -> impl Iterator<Item = Document> {
    (0..settings.further.len()).map(|number| {
        let stored = format!("${}", stored_name(number));
        doc! { "$ne": [{ "$ifNull": [stored, []] }, format!("${}", truth_name(number))] }
    })
}

/// Returns whether each array is missing, or differs from the first children, as expressions.
pub(super) fn must_be_written(settings: &Settings) -> impl Iterator<Item = Document> {
    (0..settings.further.len())
        .map(|number| doc! { "$ne": [format!("${}", stored_name(number)), format!("${}", truth_name(number))] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_array_is_compared_with_its_first_children() {
        let settings = Settings::example().with_best();
        assert_eq!(stored(&settings), doc! { "further0": "$top_rated" });
        assert_eq!(projected_arrays(&settings), ["$subset", "$further0"]);
        assert_eq!(
            differs(&settings).collect::<Vec<_>>(),
            [doc! { "$ne": [{ "$ifNull": ["$further0", []] }, "$truth0"] }]
        );
        assert_eq!(
            must_be_written(&settings).collect::<Vec<_>>(),
            [doc! { "$ne": ["$further0", "$truth0"] }]
        );
        let is_child = doc! { "$expr": { "$eq": ["$product_id", "$$id"] } };
        let looked_up = lookups(&settings, &is_child, |stages, name| doc! { name: stages.to_vec() });
        let best = [
            doc! { "$match": { "$and": [is_child, { "stars": { "$gte": 4 } }] } },
            doc! { "$sort": { "stars": -1, "review_id": -1 } },
            doc! { "$limit": 3_i64 },
            doc! { "$replaceWith": { "child": "$$ROOT" } },
            doc! { "$project": { "child.stars": 1, "child.review_id": 1 } },
            doc! { "$replaceWith": "$child" },
        ];
        assert_eq!(looked_up, [doc! { "truth0": best.to_vec() }]);
    }
}
