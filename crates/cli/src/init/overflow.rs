//! Searches for the overflow documents of a collection, and reads their field names.

use futures::TryStreamExt;
use mongo_patterns_core::catalog;
use mongodb::bson::{Bson, Document, doc};

use super::fields::is_count;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::OutlierSettings;

/// The number of documents of a collection that are read.
const READ: i64 = 20;

/// Sets the collection and the fields of the overflow documents, if there are any: documents with an array, whose other
/// field has `_id`s of the collection.
pub(super) async fn find(
    context: &Context,
    settings: &mut OutlierSettings,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let Some(collection) = settings.collection.clone() else {
        return Ok(());
    };
    let main = context.database.collection::<Document>(&collection);
    let mut names = context.database.list_collection_names().await?;
    names.retain(|name| *name != collection && name != catalog::COLLECTION && !name.starts_with("system."));
    names.sort_by_key(|name| (!name.contains(&collection), name.clone()));
    for name in names {
        let other = context.database.collection::<Document>(&name);
        let documents = other.find(doc! {}).limit(READ).await;
        let documents = documents.map_err(Failure::on(other.namespace()))?;
        let documents: Vec<Document> = documents.try_collect().await.map_err(Failure::on(other.namespace()))?;
        let Some(found) = Fields::of(&documents) else { continue };
        for parent in &found.parents {
            let values: Vec<&Bson> = documents.iter().filter_map(|document| document.get(parent)).collect();
            let ids = doc! { "_id": { "$in": &values } };
            let distinct = main.distinct("_id", ids).await.map_err(Failure::on(main.namespace()))?;
            let of_main = values.iter().filter(|value| distinct.contains(value)).count();
            if of_main * 2 <= values.len() {
                continue;
            }
            notes.push(format!(
                "`{parent}` of {name} refers to `_id`s of {collection}: these are its overflow documents"
            ));
            settings.extras_collection = Some(name.clone());
            settings.parent = Some(parent.clone());
            settings.extras = Some(found.extras.clone());
            settings.count = found.count.filter(|count| count != "count");
            let outliers = main.find(doc! { "_id": { "$in": &distinct } }).limit(READ);
            let outliers = outliers.await.map_err(Failure::on(main.namespace()))?;
            let outliers: Vec<Document> = outliers.try_collect().await.map_err(Failure::on(main.namespace()))?;
            of_outliers(settings, &outliers);
            return Ok(());
        }
    }
    Ok(())
}

/// Sets the flag and the threshold, by documents with overflow documents.
fn of_outliers(settings: &mut OutlierSettings, outliers: &[Document]) {
    let Some(array) = settings.array.as_deref() else { return };
    let lengths = outliers.iter().filter_map(|outlier| outlier.get_array(array).ok());
    let longest = lengths
        .map(Vec::len)
        .max()
        .and_then(|longest| u32::try_from(longest).ok());
    settings.threshold = longest.filter(|longest| *longest > 0).or(settings.threshold);
    let is_set = |name: &&String| {
        outliers
            .iter()
            .all(|outlier| matches!(outlier.get(name), Some(Bson::Boolean(true))))
    };
    let flag = outliers.first().into_iter().flat_map(Document::keys).find(is_set);
    settings.flag = flag.filter(|flag| *flag != "has_extras").cloned();
}

/// The fields of documents that may be overflow documents.
#[derive(Debug, PartialEq)]
struct Fields {
    extras: String,
    /// The field that is the length of the array in all documents.
    count: Option<String>,
    /// The fields that may refer to a main document.
    parents: Vec<String>,
}

impl Fields {
    fn of(documents: &[Document]) -> Option<Self> {
        let first = documents.first()?;
        let everywhere = |is: &dyn Fn(&Document, &str) -> bool, name: &str| documents.iter().all(|one| is(one, name));
        let is_array = |one: &Document, name: &str| one.get_array(name).is_ok();
        let extras = first.keys().find(|name| everywhere(&is_array, name))?.clone();
        let count = first.keys().find(|name| is_count(documents, &extras, name)).cloned();
        let may_refer = |one: &Document, name: &str| {
            let value = one.get(name);
            value.is_some_and(|value| !matches!(value, Bson::Array(_) | Bson::Null | Bson::Boolean(_)))
        };
        let is_other = |name: &&String| *name != "_id" && *name != "seq" && Some(*name) != count.as_ref();
        let parents = first
            .keys()
            .filter(is_other)
            .filter(|name| everywhere(&may_refer, name));
        let parents = parents.cloned().collect();
        Some(Self { extras, count, parents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_overflow_documents_are_read_from_them() {
        let overflow = |n: i32| doc! { "_id": n, "drug": "aspirin", "seq": n, "n": 2, "reviews": [1, 2] };
        let fields = Fields::of(&[overflow(0), overflow(1)]).unwrap();
        let parents = vec!["drug".to_owned()];
        let (extras, count) = ("reviews".to_owned(), Some("n".to_owned()));
        assert_eq!(fields, Fields { extras, count, parents });
        assert_eq!(Fields::of(&[doc! { "_id": 1, "drug": "aspirin" }]), None);
        let mut settings = OutlierSettings {
            array: Some("reviews".to_owned()),
            threshold: Some(50),
            ..OutlierSettings::default()
        };
        let outlier = doc! { "_id": "aspirin", "reviews": [1, 2, 3], "in_stock": false, "more": true };
        of_outliers(&mut settings, &[outlier]);
        assert_eq!((settings.flag.as_deref(), settings.threshold), (Some("more"), Some(3)));
    }
}
