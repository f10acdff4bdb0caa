//! Suggests settings for documents with an array that are no buckets.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};

use super::sample::{LOOKED_UP, Sample, Seen, integer, is_called_id, length};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{EmbeddedSettings, OutlierSettings, SubsetSettings};

/// Adds what the array itself shows.
pub(super) fn of_array(sample: &Sample, array: &str, seen: &mut Seen) {
    let (collection, longest) = (Some(sample.collection.clone()), sample.longest(array));
    let id = id_field(sample, array);
    seen.note(format!("`{array}` is an array of up to {longest} elements"));
    if let Some(id) = &id {
        seen.note(format!("its elements are documents with the id field `{id}`"));
    }
    let version = format!("{array}_version");
    if sample.names().contains(version.as_str()) {
        seen.note(format!(
            "`{version}` is the version of a subset: set the collection and fields of its children"
        ));
        seen.profile.subset.push(SubsetSettings {
            collection,
            subset: Some(array.to_owned()),
            child_id: id,
            size: u32::try_from(longest).ok(),
            ..SubsetSettings::default()
        });
        return;
    }
    seen.note("`outlier analyze` recommends a pattern and a threshold".to_owned());
    seen.profile.outlier.push(OutlierSettings {
        collection: collection.clone(),
        array: Some(array.to_owned()),
        ..OutlierSettings::default()
    });
    if id.is_some() {
        seen.note("`subset migrate --from embedded` would move them to a collection of their own".to_owned());
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
    match Overflow::of((sample, array), (other, extras), parent, &outliers) {
        Some(overflow) => overflow.set(array, seen),
        None => seen.note(format!(
            "`{parent}` of {} has `_id`s of {}, and `{extras}` has elements as `{array}`: these could be overflow documents, but neither a position nor a flag shows it",
            other.collection, sample.collection
        )),
    }
    Ok(())
}

/// What overflow documents and their lists show.
#[derive(Debug, PartialEq)]
struct Overflow {
    collection: String,
    parent: String,
    extras: String,
    flag: Option<String>,
    seq: Option<String>,
    count: Option<String>,
    threshold: Option<u32>,
    cap: Option<u32>,
    unique: bool,
}

impl Overflow {
    fn of(
        (sample, array): (&Sample, &str),
        (other, extras): (&Sample, &str),
        parent: &str,
        outliers: &[Document],
    ) -> Option<Self> {
        let after_parent = |keys: &[&str]| match keys {
            [of, field] if *of == parent => Some((*field).to_owned()),
            _ => None,
        };
        let unique = |field: &str| {
            let is = |(keys, is_unique): (Vec<&str>, bool)| is_unique && after_parent(&keys).as_deref() == Some(field);
            other.indexes().any(is)
        };
        let is_seq = |name: &str| other.has(name, |value| integer(value).is_some());
        let seq = other
            .names()
            .into_iter()
            .find(|name| is_seq(name) && (*name == "seq" || unique(name)));
        let is_set = |document: &Document, name: &str| matches!(document.get(name), Some(Bson::Boolean(true)));
        let is_flag = |name: &&String| {
            let of_others = sample
                .documents
                .iter()
                .filter(|document| length(document, array) < length(&outliers[0], array));
            let mut of_others = of_others.map(|document| is_set(document, name));
            outliers.iter().all(|document| is_set(document, name)) && !of_others.all(|is_set| is_set)
        };
        let flag = outliers.first()?.keys().find(is_flag);
        if seq.is_none() && flag.is_none() {
            return None;
        }
        let is_count = |name: &&str| Some(*name) != seq && *name != parent && other.is_count(extras, name);
        let count = other.names().into_iter().find(is_count);
        // Full ones have one length, and the last one of a list any.
        let longest = other.longest(extras);
        let full = other
            .documents
            .iter()
            .filter(|document| length(document, extras) == longest)
            .count();
        let of_lists = outliers.iter().map(|outlier| length(outlier, array)).max();
        Some(Self {
            collection: other.collection.clone(),
            parent: parent.to_owned(),
            extras: extras.to_owned(),
            flag: flag.filter(|flag| *flag != "has_extras").cloned(),
            seq: seq.filter(|seq| *seq != "seq").map(str::to_owned),
            count: count.filter(|count| *count != "count").map(str::to_owned),
            threshold: of_lists
                .filter(|longest| *longest > 0)
                .and_then(|longest| u32::try_from(longest).ok()),
            cap: u32::try_from(longest).ok().filter(|_| full > 1),
            unique: unique(extras),
        })
    }

    fn set(self, array: &str, seen: &mut Seen) {
        seen.note(format!(
            "`{}` of {} has `_id`s of the lists: these are its overflow documents",
            self.parent, self.collection
        ));
        match self.cap {
            Some(cap) => seen.note(format!(
                "several have {cap} elements, and none has more: check that this is the cap"
            )),
            None => seen.note("the greatest number of elements in one is not known: set `cap`".to_owned()),
        }
        let ours = seen
            .profile
            .outlier
            .iter_mut()
            .filter(|settings| settings.array.as_deref() == Some(array));
        for settings in ours {
            *settings = OutlierSettings {
                collection: settings.collection.take(),
                array: settings.array.take(),
                extras_collection: Some(self.collection.clone()),
                parent: Some(self.parent.clone()),
                extras: Some(self.extras.clone()),
                flag: self.flag.clone(),
                seq: self.seq.clone(),
                count: self.count.clone(),
                threshold: self.threshold,
                cap: self.cap,
                unique: self.unique.then_some(true),
            };
        }
    }
}

/// Returns the kinds of the elements: their types, and for documents their fields.
fn kinds(sample: &Sample, array: &str) -> BTreeSet<String> {
    let kind = |element: &Bson| match element {
        Bson::Document(element) => element
            .keys()
            .map(String::as_str)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join(" "),
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
        assert_eq!((found.outlier.len(), found.subset.len()), (1, 0));
        let book = doc! { "_id": 1, "buyers": ["Ann"] };
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
        let found = Overflow::of(
            (&drugs, "reviews"),
            (&overflow, "further"),
            "drug",
            &drugs.documents[..5],
        );
        let text = |text: &str| Some(text.to_owned());
        let expected = Overflow {
            collection: "drug_more".to_owned(),
            parent: "drug".to_owned(),
            extras: "further".to_owned(),
            flag: text("more"),
            seq: text("place"),
            count: text("n"),
            threshold: Some(3),
            cap: Some(2),
            unique: true,
        };
        assert_eq!(found, Some(expected));
    }

    /// As the policies of an insurance beside sales: small integers are `_id`s of everything.
    #[test]
    fn without_a_position_or_a_flag_nothing_is_an_overflow_document() {
        let sale = |n: i32| doc! { "_id": n, "customers": ["Ann"], "in_stock": true };
        let sales = sample::sample("sales", (0..20).map(sale), &[]);
        let policy = |n: i32| doc! { "_id": n, "policyId": n, "items": ["house"] };
        let policies = sample::sample("policies", (0..20).map(policy), &[]);
        let found = Overflow::of(
            (&sales, "customers"),
            (&policies, "items"),
            "policyId",
            &sales.documents,
        );
        assert_eq!(found, None);
        let others = sample::sample("others", [doc! { "items": [{ "a": 1 }] }], &[]);
        assert!(kinds(&sales, "customers").is_disjoint(&kinds(&others, "items")));
        assert!(!kinds(&sales, "customers").is_disjoint(&kinds(&policies, "items")));
    }
}
