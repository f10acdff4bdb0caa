//! Suggests settings for children: documents that refer to a parent, or documents in an array of their parent. Only the
//! search for the parents reads the server.

use std::collections::BTreeSet;

use mongo_patterns_core::catalog;
use mongodb::bson::{Bson, Document, doc};

use super::fields::is_called_id;
use super::inspect::Inspection;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{EmbeddedSettings, SubsetSettings};

/// The number of values of a reference that are looked up.
const LOOKED_UP: usize = 20;

/// The parents of a collection's documents.
pub(super) struct Parents {
    collection: String,
    /// The field that holds the `_id` of a parent.
    reference: String,
}

/// Searches for the collection that the documents refer to: its name starts like the field's, and it has most of the
/// sampled `_id`s.
pub(super) async fn parents_of(
    context: &Context,
    collection: &str,
    documents: &[Document],
) -> Result<Option<Parents>, Failure> {
    let names = context.database.list_collection_names().await?;
    for reference in references(documents) {
        let values = values(documents, &reference);
        let stem = stem(&reference);
        let is_candidate = |name: &&String| {
            **name != collection && **name != catalog::COLLECTION && name.to_lowercase().starts_with(&stem)
        };
        for name in names.iter().filter(is_candidate) {
            let of_values = doc! { "_id": { "$in": &values } };
            let parents = context.database.collection::<Document>(name);
            let found = parents.count_documents(of_values).await;
            let found = found.map_err(Failure::on(parents.namespace()))?;
            if found * 2 > values.len() as u64 {
                let collection = name.clone();
                return Ok(Some(Parents { collection, reference }));
            }
        }
    }
    Ok(None)
}

/// Returns the fields that all documents have and that are named like an id.
fn references(documents: &[Document]) -> Vec<String> {
    let Some((first, rest)) = documents.split_first() else {
        return Vec::new();
    };
    let names = first.keys().filter(|name| *name != "_id" && is_called_id(name));
    names
        .filter(|name| rest.iter().all(|document| document.contains_key(name)))
        .filter(|name| !stem(name).is_empty())
        .cloned()
        .collect()
}

/// Returns the name without the suffix of an id: `customer` for `customerId` and `customer_id`.
fn stem(reference: &str) -> String {
    let name = reference.to_lowercase();
    name.trim_end_matches("id").trim_end_matches('_').to_owned()
}

fn values(documents: &[Document], field: &str) -> Vec<Bson> {
    let mut seen = BTreeSet::new();
    let values = documents.iter().filter_map(|document| document.get(field));
    let different = values.filter(|value| !matches!(value, Bson::Null) && seen.insert(value.to_string()));
    different.take(LOOKED_UP).cloned().collect()
}

/// Suggests settings for documents that refer to parents.
pub(super) fn of_references(seen: &mut Inspection, collection: &str, documents: &[Document], parents: Parents) {
    let Parents {
        collection: of_parents,
        reference,
    } = parents;
    let array = plural(collection);
    let id = id_field(documents, &reference);
    seen.notes.push(format!(
        "`{reference}` refers to `_id`s of {of_parents}: these documents are its children"
    ));
    seen.notes
        .push("`embedded migrate` and `subset migrate --from collection` use it".to_owned());
    seen.notes.push(format!(
        "`reference migrate --from-field` copies fields of {of_parents} into them instead"
    ));
    seen.profile.embedded = Some(EmbeddedSettings {
        collection: Some(of_parents.clone()),
        children: Some(array.clone()),
        max_children: Some(100),
        source: Some(collection.to_owned()),
        reference: Some(reference.clone()),
        ..EmbeddedSettings::default()
    });
    seen.profile.subset = Some(SubsetSettings {
        collection: Some(of_parents),
        children_collection: Some(collection.to_owned()),
        subset: Some(array),
        parent: Some(reference),
        order: Some(vec![order(documents, &id)]),
        child_id: Some(id),
        size: Some(10),
        ..SubsetSettings::default()
    });
    seen.patterns.extend(["embedded", "subset"]);
}

/// Suggests settings for an array of documents with an id.
pub(super) fn of_array(seen: &mut Inspection, collection: &str, array: &str, documents: &[Document]) {
    let arrays = documents.iter().filter_map(|document| document.get_array(array).ok());
    let longest = arrays.clone().map(Vec::len).max().unwrap_or(0);
    let children: Option<Vec<Document>> = arrays.flatten().map(|child| child.as_document().cloned()).collect();
    let Some(children) = children.filter(|children| !children.is_empty()) else {
        return;
    };
    let id = id_field(&children, "");
    if !children.iter().all(|child| child.contains_key(&id)) {
        return;
    }
    let version = format!("{array}_version");
    let is_subset = documents.iter().any(|document| document.contains_key(&version));
    seen.notes
        .push(format!("`{array}` contains documents with the id field `{id}`"));
    if is_subset {
        seen.notes.push(format!(
            "`{version}` is the version of a subset: set the collection and fields of its children"
        ));
        // A subset is neither a complete list nor the start of one with overflow documents.
        seen.profile.outlier = None;
        seen.patterns.clear();
    } else {
        seen.profile.embedded = Some(EmbeddedSettings {
            collection: Some(collection.to_owned()),
            children: Some(array.to_owned()),
            child_id: Some(id.clone()).filter(|id| id != "_id"),
            max_children: Some(u32::try_from(longest.max(50) * 2).unwrap_or(u32::MAX)),
            ..EmbeddedSettings::default()
        });
        seen.patterns.push("embedded");
        seen.notes
            .push("`subset migrate --from embedded` migrates them to their own collection".to_owned());
    }
    seen.profile.subset = Some(SubsetSettings {
        collection: Some(collection.to_owned()),
        children_collection: Some(format!("{collection}_{array}")),
        subset: Some(array.to_owned()),
        parent: Some(format!("{collection}_id")),
        order: Some(vec![order(&children, &id)]),
        child_id: Some(id),
        size: Some(if is_subset {
            u32::try_from(longest).unwrap_or(u32::MAX)
        } else {
            10
        }),
        ..SubsetSettings::default()
    });
    seen.patterns.push("subset");
}

/// Returns the field that identifies children: one that is named like an id and has a different value in each, else
/// `_id`.
fn id_field(children: &[Document], reference: &str) -> String {
    let Some(first) = children.first() else {
        return "_id".to_owned();
    };
    let is_candidate =
        |name: &&String| **name != reference && **name != "_id" && (is_called_id(name) || **name == "id");
    let is_different = |name: &&String| {
        let values: BTreeSet<String> = children
            .iter()
            .filter_map(|child| child.get(name.as_str()))
            .map(Bson::to_string)
            .collect();
        values.len() == children.len()
    };
    let candidates: Vec<&String> = first.keys().filter(is_candidate).collect();
    let everywhere = |name: &&&String| children.iter().all(|child| child.contains_key(name.as_str()));
    let different = candidates.iter().find(|name| is_different(name));
    // In arrays an id can be unique within each parent only.
    let in_arrays = || candidates.iter().find(everywhere).filter(|_| reference.is_empty());
    match different.or_else(in_arrays) {
        Some(name) if !first.contains_key("_id") || different.is_some() => (*name).clone(),
        _ => "_id".to_owned(),
    }
}

/// Orders by the newest date, else by the greatest id.
fn order(children: &[Document], id: &str) -> String {
    let dates = children.first().into_iter().flatten();
    let mut dates = dates.filter(|(_, value)| matches!(value, Bson::DateTime(_)));
    let field = dates.next().map_or(id, |(name, _)| name.as_str());
    format!("-{field}")
}

fn plural(collection: &str) -> String {
    if collection.ends_with('s') {
        collection.to_owned()
    } else {
        format!("{collection}s")
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::*;
    use crate::init::inspect::inspect;

    fn review(n: i32) -> Document {
        doc! { "_id": n, "review_id": 100 + n, "product_id": n % 3, "date": DateTime::now() }
    }

    #[test]
    fn references_suggest_the_embedded_and_the_subset_pattern() {
        let reviews: Vec<Document> = (0..20).map(review).collect();
        assert_eq!(references(&reviews), ["review_id", "product_id"]);
        let mut seen = inspect("review", &reviews, &[]);
        let parents = Parents {
            collection: "product".to_owned(),
            reference: "product_id".to_owned(),
        };
        of_references(&mut seen, "review", &reviews, parents);
        assert_eq!(seen.patterns, ["bucket", "embedded", "subset"]);
        let embedded = seen.profile.embedded.unwrap();
        assert_eq!(
            (embedded.source.as_deref(), embedded.children.as_deref()),
            (Some("review"), Some("reviews"))
        );
        let subset = seen.profile.subset.unwrap();
        assert_eq!(
            (subset.parent.as_deref(), subset.child_id.as_deref()),
            (Some("product_id"), Some("review_id"))
        );
        assert_eq!(subset.order.unwrap(), ["-date"]);
    }

    #[test]
    fn children_in_arrays_are_identified_by_their_id_field() {
        let patron = |n: i32| doc! { "_id": n, "addresses": [{ "id": "home", "zip": n }, { "id": "work" }] };
        let patrons: Vec<Document> = (0..9).map(patron).collect();
        let mut seen = inspect("patron", &patrons, &[]);
        of_array(&mut seen, "patron", "addresses", &patrons);
        assert_eq!(seen.patterns, ["outlier", "embedded", "subset"]);
        assert_eq!(seen.profile.embedded.unwrap().child_id.as_deref(), Some("id"));
        let subset = seen.profile.subset.unwrap();
        assert_eq!(
            (subset.children_collection.as_deref(), subset.parent.as_deref()),
            (Some("patron_addresses"), Some("patron_id"))
        );
        assert_eq!(subset.order.unwrap(), ["-id"]);
    }

    #[test]
    fn a_version_field_identifies_a_subset() {
        let product = doc! { "_id": 1, "reviews": [review(1), review(2)], "reviews_version": 7 };
        let mut seen = inspect("product", std::slice::from_ref(&product), &[]);
        of_array(&mut seen, "product", "reviews", &[product]);
        assert_eq!(seen.patterns, ["subset"]);
        assert!(seen.profile.outlier.is_none() && seen.profile.embedded.is_none());
        assert_eq!(seen.profile.subset.unwrap().size, Some(2));
    }
}
