//! Suggests settings for documents with an array that are no buckets.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};

use super::sample::{LOOKED_UP, Sample, Seen, integer, is_called_id, length};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{EmbeddedSettings, OutlierSettings, SubsetSettings};

/// A longer array may need overflow documents.
const LONG: usize = 10;

/// Adds what the array itself shows.
pub(super) fn of_array(sample: &Sample, array: &str, seen: &mut Seen) {
    let (collection, longest) = (Some(sample.collection.clone()), sample.longest(array));
    let id = id_field(sample, array);
    seen.note(format!("`{array}` is an array of up to {longest} elements"));
    if let Some(id) = &id {
        seen.note(format!("its elements are documents with the id field `{id}`"));
    }
    if sample.names().contains(format!("{array}_version").as_str()) {
        seen.note("they have the version of a subset: set the collection and fields of its children".to_owned());
        seen.profile.subset.push(SubsetSettings {
            collection,
            subset: Some(array.to_owned()),
            child_id: id,
            size: u32::try_from(longest).ok(),
            ..SubsetSettings::default()
        });
        return;
    }
    let of = &sample.collection;
    seen.note(format!(
        "`outlier --collection {of} --array {array} analyze` recommends a pattern and a threshold"
    ));
    let is_long = longest > LONG;
    if is_long {
        seen.profile.outlier.push(OutlierSettings {
            collection: collection.clone(),
            array: Some(array.to_owned()),
            ..OutlierSettings::default()
        });
    }
    if id.is_some() {
        seen.note("`subset migrate --from embedded` would move them to a collection of their own".to_owned());
        if is_long {
            seen.note(format!(
                "`embedded --collection {of} --children {array}` is for short lists: this one is long, and an array has one pattern"
            ));
            return;
        }
        seen.profile.embedded.push(EmbeddedSettings {
            collection,
            children: Some(array.to_owned()),
            child_id: id.filter(|id| id != "_id"),
            max_children: u32::try_from(longest.max(50) * 2).ok(),
            ..EmbeddedSettings::default()
        });
    }
}

/// Returns the field that all elements have, as documents, and that is named like an id.
fn id_field(sample: &Sample, array: &str) -> Option<String> {
    let first = sample.elements(array).next()?.as_document()?;
    let has = |element: &Bson, name: &str| element.as_document().is_some_and(|element| element.contains_key(name));
    let is_id = |name: &&String| is_called_id(name) || *name == "id" || *name == "_id";
    let mut ids = first.keys().filter(is_id);
    ids.find(|name| sample.elements(array).all(|element| has(element, name)))
        .cloned()
}

/// Completes the settings of lists if another collection has their overflow documents: the array has the same name with
/// `_extra`, or elements of the same kind, and a position or a flag in the lists shows it. Without that it adds a note.
pub(super) async fn overflow(
    context: &Context,
    (sample, array): (&Sample, &str),
    other: &Sample,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let Some(extras) = other
        .array()
        .filter(|extras| other.has(extras, |value| value.as_array().is_some()))
    else {
        return Ok(());
    };
    let is_same = extras == format!("{array}_extra") || !kinds(sample, array).is_disjoint(&kinds(other, extras));
    let scalar = |value: &Bson| !matches!(value, Bson::Array(_) | Bson::Null | Bson::Boolean(_));
    let mut parents = other.names().into_iter().filter(|name| other.has(name, scalar));
    let lists = context.database.collection::<Document>(&sample.collection);
    let (parent, outliers) = loop {
        let Some(parent) = parents.next().filter(|_| is_same) else {
            return Ok(());
        };
        let ids: Vec<&Bson> = other.distinct(parent).into_iter().take(LOOKED_UP).collect();
        let found = lists.find(doc! { "_id": { "$in": &ids } }).await;
        let found = found.map_err(Failure::on(lists.namespace()))?;
        let found: Vec<Document> = found.try_collect().await.map_err(Failure::on(lists.namespace()))?;
        if found.len() * 2 > ids.len() {
            break (parent, found);
        }
    };
    let Some(settings) = overflow_settings((sample, array), (other, extras), parent, &outliers) else {
        seen.note(format!(
            "`{parent}` of {} has `_id`s of {}, and `{extras}` has elements as `{array}`: these could be overflow documents, but neither a position nor a flag shows it",
            other.collection, sample.collection
        ));
        return Ok(());
    };
    seen.note(format!(
        "`{parent}` of {} has `_id`s of the lists: these are their overflow documents",
        other.collection
    ));
    seen.note(match settings.cap {
        Some(cap) => format!("several have {cap} elements, and none has more: check that this is the cap"),
        None => "the greatest number of elements in an overflow document is not known: set `cap`".to_owned(),
    });
    seen.profile.outlier.retain(|known| known.array != settings.array);
    seen.profile.outlier.push(settings);
    // An array has one pattern.
    seen.profile.embedded.clear();
    Ok(())
}

/// Returns the settings of lists and their overflow documents, if a position or a flag shows that these are some.
fn overflow_settings(
    (sample, array): (&Sample, &str),
    (other, extras): (&Sample, &str),
    parent: &str,
    outliers: &[Document],
) -> Option<OutlierSettings> {
    let unique = |field: &str| {
        other
            .indexes()
            .any(|(keys, is_unique)| is_unique && keys == [parent, field])
    };
    let is_seq = |name: &&&str| other.has(name, |value| integer(value).is_some()) && (**name == "seq" || unique(name));
    let names = other.names();
    let seq = names.iter().find(is_seq).copied();
    let is_set = |document: &Document, name: &str| matches!(document.get(name), Some(Bson::Boolean(true)));
    let shortest = outliers.iter().map(|outlier| length(outlier, array)).min()?;
    let is_flag = |name: &&String| {
        let mut shorter = sample
            .documents
            .iter()
            .filter(|document| length(document, array) < shortest);
        outliers.iter().all(|document| is_set(document, name)) && shorter.any(|document| !is_set(document, name))
    };
    let flag = outliers.first()?.keys().find(is_flag);
    if seq.is_none() && flag.is_none() {
        return None;
    }
    let is_count = |name: &&&str| Some(**name) != seq && **name != parent && other.is_count(extras, name);
    let count = names.iter().find(is_count).copied();
    // Full overflow documents have one length, and the last one of a list has any.
    let longest = other.longest(extras);
    let full = other
        .documents
        .iter()
        .filter(|document| length(document, extras) == longest);
    let threshold = outliers.iter().map(|outlier| length(outlier, array)).max();
    let unless = |name: Option<&str>, default: &str| name.filter(|name| *name != default).map(str::to_owned);
    Some(OutlierSettings {
        collection: Some(sample.collection.clone()),
        extras_collection: Some(other.collection.clone()),
        array: Some(array.to_owned()),
        parent: Some(parent.to_owned()),
        extras: Some(extras.to_owned()),
        flag: unless(flag.map(String::as_str), "has_extras"),
        seq: unless(seq, "seq"),
        count: unless(count, "count"),
        threshold: threshold
            .and_then(|length| u32::try_from(length).ok())
            .filter(|length| *length > 0),
        cap: u32::try_from(longest).ok().filter(|_| full.count() > 1),
        unique: unique(extras).then_some(true),
    })
}

/// Returns the kinds of the elements: their types, and for documents their fields.
fn kinds(sample: &Sample, array: &str) -> BTreeSet<String> {
    let kind = |element: &Bson| match element {
        Bson::Document(element) => {
            let mut names: Vec<&str> = element.keys().map(String::as_str).collect();
            names.sort_unstable();
            names.join(" ")
        }
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) => "a number".to_owned(),
        element => format!("{:?}", element.element_type()),
    };
    sample.elements(array).map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::sample;

    fn of(sample: &Sample, array: &str) -> Seen {
        let mut seen = Seen::default();
        of_array(sample, array, &mut seen);
        seen
    }

    #[test]
    fn an_array_suggests_what_its_elements_show() {
        let patron = doc! { "_id": 1, "addresses": [{ "id": "home" }, { "id": "work", "zip": 1 }] };
        let found = of(&sample::sample("patron", [patron], &[]), "addresses").profile;
        assert_eq!(found.embedded[0].child_id.as_deref(), Some("id"));
        assert_eq!((found.outlier.len(), found.subset.len()), (0, 0));
        let book = doc! { "_id": 1, "buyers": vec!["Ann"; 11] };
        let found = of(&sample::sample("books", [book], &[]), "buyers").profile;
        assert_eq!(
            (found.outlier[0].array.as_deref(), found.embedded.len()),
            (Some("buyers"), 0)
        );
        let product = doc! { "_id": 1, "reviews": [{ "review_id": 1 }, { "review_id": 2 }], "reviews_version": 7 };
        let found = of(&sample::sample("product", [product], &[]), "reviews").profile;
        assert_eq!((found.outlier.len(), found.embedded.len()), (0, 0));
        assert_eq!(
            (found.subset[0].size, found.subset[0].child_id.as_deref()),
            (Some(2), Some("review_id"))
        );
    }

    #[test]
    fn the_fields_of_overflow_documents_are_read_from_them_their_indexes_and_their_lists() {
        let drug = |n: i32| {
            let reviews: Vec<i32> = (0..if n < 5 { 3 } else { 1 }).collect();
            doc! { "_id": n, "reviews": reviews, "in_stock": true, "more": n < 5 }
        };
        let drugs = sample::sample("drug", (0..20).map(drug), &[]);
        let overflow = |n: i32| doc! { "_id": n, "drug": n, "place": 0, "n": 2, "further": [1, 2] };
        let indexes = ["place", "further"].map(|field| doc! { "key": { "drug": 1, field: 1 }, "unique": true });
        let overflow = sample::sample("drug_more", (0..5).map(overflow), &indexes);
        let found = overflow_settings(
            (&drugs, "reviews"),
            (&overflow, "further"),
            "drug",
            &drugs.documents[..5],
        );
        let found = found.unwrap();
        let names = [&found.parent, &found.extras, &found.flag, &found.seq, &found.count];
        assert_eq!(
            names.map(Option::as_deref),
            ["drug", "further", "more", "place", "n"].map(Some)
        );
        assert_eq!(
            (found.threshold, found.cap, found.unique),
            (Some(3), Some(2), Some(true))
        );
    }

    /// As the policies of an insurance beside sales: small integers are `_id`s of everything.
    #[test]
    fn without_a_position_or_a_flag_nothing_is_an_overflow_document() {
        let sale = |n: i32| doc! { "_id": n, "customers": ["Ann"], "in_stock": true };
        let sales = sample::sample("sales", (0..20).map(sale), &[]);
        let policy = |n: i32| doc! { "_id": n, "policyId": n, "items": ["house"] };
        let policies = sample::sample("policies", (0..20).map(policy), &[]);
        let found = overflow_settings(
            (&sales, "customers"),
            (&policies, "items"),
            "policyId",
            &sales.documents,
        );
        assert!(found.is_none());
        let others = sample::sample("others", [doc! { "items": [{ "a": 1 }] }], &[]);
        assert!(kinds(&sales, "customers").is_disjoint(&kinds(&others, "items")));
        assert!(!kinds(&sales, "customers").is_disjoint(&kinds(&policies, "items")));
    }
}
