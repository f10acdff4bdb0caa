//! The commands of the migration of existing collections.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::document_id::by_ids;
use mongo_patterns_core::migration::{and, count_if};
use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// The number of current documents without a number.
pub(crate) const UNNUMBERED: &str = "unnumbered";

/// The field with the copy of a document.
const COPY: &str = "mongo_patterns_copy";

/// Counts the stored documents that cannot be migrated, and the current documents without a number.
pub(crate) fn inspection(settings: &Settings, are_revisions: bool, have_versions: bool) -> Vec<Document> {
    let id = if are_revisions {
        &settings.document_id
    } else {
        &settings.id
    };
    let [id, revision, time, deleted] =
        [id, &settings.revision, &settings.time, &settings.deleted].map(|field| format!("${field}"));
    let type_of = |field: &str, types: Vec<&str>| doc! { "$in": [{ "$type": field }, types] };
    let is_number = doc! { "$and": [
        { "$isNumber": &revision },
        { "$gte": [&revision, 1] },
        { "$eq": [{ "$mod": [&revision, 1] }, 0] },
    ] };
    // Without a number, `$mod` would fail.
    let is_number = doc! { "$cond": [{ "$isNumber": &revision }, is_number, false] };
    let is_missing = |field: &str| doc! { "$eq": [{ "$type": field }, "missing"] };
    let missing = |field: &str| match are_revisions {
        true => doc! { "$literal": false },
        false => is_missing(field),
    };
    let mut group = doc! { "_id": null };
    let no_id = type_of(
        &id,
        vec!["missing", "null", "undefined", "array", "regex", "minKey", "maxKey"],
    );
    count_if(&mut group, "no_id", no_id, 1, "$_id");
    let no_number = doc! { "$not": [{ "$or": [missing(&revision), is_number] }] };
    count_if(&mut group, "no_number", no_number, 1, "$_id");
    let no_time = doc! { "$not": [{ "$or": [missing(&time), type_of(&time, vec!["date"])] }] };
    count_if(&mut group, "no_time", no_time, 1, "$_id");
    if !are_revisions {
        let unnumbered = doc! { "$sum": { "$cond": [is_missing(&revision), 1_i64, 0_i64] } };
        group.insert(UNNUMBERED, unnumbered);
        let only = |one: &str, other: &str| doc! { "$and": [{ "$not": [is_missing(one)] }, is_missing(other)] };
        count_if(&mut group, "only_number", only(&revision, &time), 1, "$_id");
        if !have_versions {
            count_if(&mut group, "only_time", only(&time, &revision), 1, "$_id");
        }
    }
    // The deletions of an earlier migration, or of a repository, are revisions.
    let is_reserved = match are_revisions {
        true => doc! { "$not": [type_of(&deleted, vec!["missing", "bool"])] },
        false => doc! { "$ne": [{ "$type": &deleted }, "missing"] },
    };
    count_if(&mut group, "reserved", is_reserved, 1, "$_id");
    if settings.is_by_id() && !are_revisions {
        count_if(
            &mut group,
            "of_revisions",
            has_field(settings.document_id.as_str()),
            1,
            "$_id",
        );
    }
    vec![doc! { "$group": group }]
}

fn has_field(field: &str) -> Document {
    doc! { "$ne": [{ "$type": format!("${field}") }, "missing"] }
}

/// The numbers that several revisions of a document have.
pub(crate) fn duplicates(settings: &Settings) -> Vec<Document> {
    let of = doc! { "id": format!("${}", settings.document_id), "revision": format!("${}", settings.revision) };
    vec![
        doc! { "$group": { "_id": of, "ids": { "$push": "$_id" } } },
        doc! { "$match": { "ids.1": { "$exists": true } } },
    ]
}

/// Matches current documents without a number.
fn unnumbered(settings: &Settings) -> Document {
    doc! { settings.revision.as_str(): { "$exists": false } }
}

/// The number of current documents without a number whose only revision is the first.
pub(crate) const RECORDED: &str = "recorded";

/// Matches current documents without a number, except documents with embedded versions.
fn plain(settings: &Settings, embedded: Option<&FieldName>) -> Document {
    let mut plain = unnumbered(settings);
    if let Some(array) = embedded {
        plain.insert(array.as_str(), doc! { "$exists": false });
    }
    plain
}

/// Counts the current documents without a number: with revisions after the first, and with the first alone.
pub(crate) fn unnumbered_with_revisions(
    settings: &Settings,
    embedded: Option<&FieldName>,
    revisions: &str,
) -> Vec<Document> {
    // Without an index on the revisions, a lookup would read all of them for each document.
    let revision = doc! { "_id": format!("${}", settings.document_id), "newest": format!("${}", settings.revision) };
    let mut group = doc! { "_id": null };
    count_if(&mut group, "n", doc! { "$gt": ["$newest", 1] }, 1, "$current");
    count_if(&mut group, RECORDED, doc! { "$eq": ["$newest", 1] }, 1, "$current");
    vec![
        doc! { "$match": plain(settings, embedded) },
        doc! { "$project": { "_id": format!("${}", settings.id), "current": "$_id" } },
        doc! { "$unionWith": { "coll": revisions, "pipeline": [{ "$project": revision }] } },
        doc! { "$group": { "_id": "$_id", "current": { "$max": "$current" }, "newest": { "$max": "$newest" } } },
        doc! { "$match": { "current": { "$ne": null } } },
        doc! { "$group": group },
    ]
}

/// Counts the current documents without a number whose first revision is not their copy.
pub(crate) fn other_than_copies(settings: &Settings, embedded: Option<&FieldName>, revisions: &str) -> Vec<Document> {
    let without_id = doc! { "$unsetField": { "field": "_id", "input": "$$ROOT" } };
    let copy = match settings.is_by_id() {
        true => doc! { "$mergeObjects": [{ settings.document_id.as_str(): "$_id" }, without_id] },
        false => without_id,
    };
    let lookup = doc! {
        "from": revisions,
        "let": { "id": "$id" },
        "pipeline": [
            { "$match": { "$expr": { "$eq": [format!("${}", settings.document_id), "$$id"] } } },
            { "$unset": ["_id", settings.revision.as_str(), settings.time.as_str()] },
        ],
        "as": "copies",
    };
    let is_other = doc! { "$and": [{ "$ne": ["$copies", []] }, { "$not": [{ "$in": ["$copy", "$copies"] }] }] };
    vec![
        doc! { "$match": plain(settings, embedded) },
        doc! { "$replaceWith": { "_id": "$_id", "id": format!("${}", settings.id), "copy": copy } },
        doc! { "$lookup": lookup },
        // A `$match` would copy both into one document.
        doc! { "$project": { "is_other": is_other } },
        doc! { "$match": { "is_other": true } },
        doc! { "$group": { "_id": null, "n": { "$sum": 1 }, "nOne": { "$max": "$_id" } } },
    ]
}

/// The commands of a chunk of current documents, in their order.
pub(crate) struct Chunk<'a> {
    pub(crate) settings: &'a Settings,
    /// The field of the embedded versions.
    pub(crate) embedded: Option<&'a FieldName>,
    /// The names of the collections.
    pub(crate) current: &'a str,
    pub(crate) revisions: &'a str,
    pub(crate) ids: &'a [Bson],
}

impl Chunk<'_> {
    /// Stores the embedded versions as the first revisions of their documents.
    pub(crate) fn unwind(&self, array: &FieldName) -> Vec<Document> {
        let settings = self.settings;
        let own = doc! {
            settings.document_id.as_str(): format!("${}", settings.id),
            settings.revision.as_str(): { "$toInt": { "$add": ["$mongo_patterns_position", 1] } },
        };
        let version = format!("${array}");
        vec![
            doc! { "$match": and(by_ids(self.ids), embedding(array)) },
            doc! { "$unwind": { "path": &version, "includeArrayIndex": "mongo_patterns_position" } },
            doc! { "$replaceWith": { "$mergeObjects": [&version, own] } },
            doc! { "$unset": "_id" },
            merge(settings, self.revisions),
        ]
    }

    /// Stores the missing copies of the documents, with the number that they will have.
    pub(crate) fn record(&self) -> Vec<Document> {
        let settings = self.settings;
        let id = doc! { settings.document_id.as_str(): "$_id" };
        let with_id = doc! { "$replaceWith": { "$mergeObjects": [id, "$$ROOT"] } };
        let head = doc! {
            settings.revision.as_str(): { "$ifNull": [format!("${}", settings.revision), self.number()] },
            settings.time.as_str(): { "$ifNull": [format!("${}", settings.time), "$$NOW"] },
        };
        let mut stages = vec![doc! { "$match": by_ids(self.ids) }];
        stages.extend(settings.is_by_id().then_some(with_id));
        // The server gives each copy an `_id` of its own.
        let unset = ["_id"].into_iter().chain(self.embedded.map(FieldName::as_str));
        stages.extend([
            doc! { "$set": head },
            doc! { "$unset": unset.collect::<Vec<_>>() },
            merge(settings, self.revisions),
        ]);
        stages
    }

    /// Gives the documents without a number the number and the time of their copy, and removes the embedded versions.
    pub(crate) fn number_documents(&self) -> Vec<Document> {
        let settings = self.settings;
        let [id, revision, time] =
            [&settings.document_id, &settings.revision, &settings.time].map(|of| format!("${of}"));
        let is_copy = doc! { "$and": [{ "$eq": [id, "$$id"] }, { "$eq": [&revision, "$$number"] }] };
        let lookup = doc! {
            "from": self.revisions,
            "let": { "id": format!("${}", settings.id), "number": self.number() },
            "pipeline": [{ "$match": { "$expr": is_copy } }, { "$project": { "_id": 0, "n": &revision, "t": &time } }],
            "as": COPY,
        };
        let is_unnumbered = doc! { "$eq": [{ "$type": &revision }, "missing"] };
        let copied = |name: &str, old: Bson| doc! { "$cond": [&is_unnumbered, format!("$$new.{COPY}.{name}"), old] };
        let mut set = doc! {
            settings.revision.as_str(): copied("n", revision.clone().into()),
            settings.time.as_str(): copied("t", time.into()),
        };
        if let Some(array) = self.embedded {
            let kept = doc! { "$cond": [&is_unnumbered, "$$REMOVE", format!("${array}")] };
            set.insert(array.as_str(), kept);
        }
        vec![
            doc! { "$match": and(by_ids(self.ids), unnumbered(settings)) },
            doc! { "$lookup": lookup },
            // By the fields of a shard key too.
            doc! { "$project": { settings.id.as_str(): 1, COPY: { "$first": format!("${COPY}") } } },
            doc! { "$match": { COPY: { "$exists": true } } },
            doc! { "$merge": { "into": self.current, "whenMatched": [{ "$set": set }], "whenNotMatched": "discard" } },
        ]
    }

    /// Returns the number of a document without one: that after its embedded versions.
    fn number(&self) -> Bson {
        match self.embedded {
            None => doc! { "$literal": 1 }.into(),
            Some(array) => doc! { "$add": [{ "$size": { "$ifNull": [format!("${array}"), []] } }, 1] }.into(),
        }
    }
}

/// Inserts the revisions that are not stored yet.
fn merge(settings: &Settings, revisions: &str) -> Document {
    doc! { "$merge": {
        "into": revisions,
        "on": [settings.document_id.as_str(), settings.revision.as_str()],
        // Changes nothing. With `keepExisting`, the server would sort the fields of a new document by name.
        "whenMatched": [{ "$replaceWith": "$$ROOT" }],
        "whenNotMatched": "insert",
    } }
}

/// Counts the elements of embedded histories that cannot be migrated.
pub(crate) fn embedded_inspection(settings: &Settings, array: &FieldName) -> Vec<Document> {
    let versions = format!("${array}");
    let time = format!("$$this.{}", settings.time);
    let is_document = doc! { "$and": [
        { "$eq": [{ "$type": "$$this" }, "object"] },
        { "$eq": [{ "$type": time }, "date"] },
    ] };
    let are_documents = doc! { "$allElementsTrue": [{ "$map": { "input": &versions, "in": is_document } }] };
    let is_array = doc! { "$cond": [{ "$isArray": &versions }, are_documents, false] };
    let mut group = doc! { "_id": null };
    count_if(&mut group, "no_array", doc! { "$not": [is_array] }, 1, "$_id");
    let numbered = has_field(settings.revision.as_str());
    count_if(&mut group, "numbered", numbered, 1, "$_id");
    if settings.is_by_id() {
        let has_any = doc! { "$ne": [format!("{versions}.{}", settings.document_id), []] };
        count_if(&mut group, "of_revisions", has_any, 1, "$_id");
    }
    vec![doc! { "$match": embedding(array) }, doc! { "$group": group }]
}

/// Matches documents with an embedded history.
fn embedding(array: &FieldName) -> Document {
    doc! { array.as_str(): { "$exists": true } }
}
