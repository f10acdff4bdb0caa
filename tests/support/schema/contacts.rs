//! The contacts of MongoDB's manual, in versions.

use mongo_patterns::schema::{SchemaRepository, SchemaRepositoryBuilder};
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

/// The manual's first version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContactV1 {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
}

/// The manual's second version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContactV2 {
    pub name: String,
    #[serde(rename = "contactInfo")]
    pub contact_info: ContactInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContactInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}

impl From<ContactV1> for ContactV2 {
    fn from(old: ContactV1) -> Self {
        Self {
            name: old.name,
            contact_info: ContactInfo {
                home: old.home,
                work: old.work,
                cell: None,
            },
        }
    }
}

/// Does what the conversion of the types does.
pub fn stages() -> Vec<Document> {
    vec![
        doc! { "$set": { "contactInfo.home": "$home", "contactInfo.work": "$work" } },
        doc! { "$unset": ["home", "work"] },
    ]
}

pub fn builder<D>(db: &TestDatabase) -> SchemaRepositoryBuilder<D> {
    SchemaRepository::builder(db.collection::<Document>("contacts"))
}

/// The second release, whose step is a function.
pub fn typed(db: &TestDatabase) -> SchemaRepository<Document> {
    let step = |old: ContactV1| Ok(ContactV2::from(old));
    builder(db).step(1, step).build().unwrap()
}

/// A later release with steps of both kinds, in turns.
pub fn mixed(db: &TestDatabase) -> SchemaRepository<Document> {
    let rename = vec![doc! { "$set": { "fullName": "$name" } }, doc! { "$unset": "name" }];
    let number = |mut old: Document| {
        let length = i32::try_from(old.get_str("fullName").unwrap_or_default().len()).unwrap_or(0);
        old.insert("length", length);
        Ok(old)
    };
    builder(db)
        .step(1, |old: ContactV1| Ok(ContactV2::from(old)))
        .pipeline_step(2, rename)
        .step(3, number)
        .pipeline_step(4, vec![doc! { "$set": { "double": { "$multiply": ["$length", 2] } } }])
        .build()
        .unwrap()
}

pub fn stored(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("contacts")
}

pub async fn one(db: &TestDatabase, id: impl Into<Bson>) -> Option<Document> {
    let id = doc! { "_id": { "$eq": id.into() } };
    stored(db).find_one(id).await.unwrap()
}

/// Returns a document of the first version.
pub fn v1(id: impl Into<Bson>) -> Document {
    doc! { "_id": id.into(), "name": "Taylor", "home": "209-555-7788", "work": "503-555-0110" }
}

/// Returns what becomes of it.
pub fn v2(id: impl Into<Bson>) -> Document {
    doc! {
        "_id": id.into(), "schemaVersion": 2, "name": "Taylor",
        "contactInfo": { "home": "209-555-7788", "work": "503-555-0110" },
    }
}

/// The first release, which only guards its writes.
pub fn release_1(db: &TestDatabase) -> SchemaRepository<Document> {
    builder(db).build().unwrap()
}

/// The second release, whose step is on the server.
pub fn on_server(db: &TestDatabase) -> SchemaRepository<Document> {
    builder(db).pipeline_step(1, stages()).build().unwrap()
}

/// The second release in both forms.
pub fn both(db: &TestDatabase) -> [SchemaRepository<Document>; 2] {
    [typed(db), on_server(db)]
}

/// Stores documents without the repository.
pub async fn plant(db: &TestDatabase, documents: impl IntoIterator<Item = Document>) {
    let stored = stored(db);
    stored.delete_many(doc! {}).await.unwrap();
    stored.insert_many(documents).await.unwrap();
    db.recorder().clear();
}

/// Returns the fields in the order of their names.
pub fn sorted(document: &Document) -> Document {
    let mut fields: Vec<_> = document.clone().into_iter().collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    fields.into_iter().collect()
}

/// Creates the index and the entry.
pub async fn set_up(repository: &dyn Repository, db: &TestDatabase) {
    repository.ensure_indexes().await.unwrap();
    db.recorder().clear();
}

#[track_caller]
pub fn assert_error(error: &Error, kind: ErrorKind, step: Option<&str>, document: Option<&Bson>) {
    assert_eq!((error.kind(), error.step()), (kind, step), "{error:?}");
    assert_eq!(error.document_id(), document, "{error:?}");
    assert_eq!(error.pattern(), Some("schema"), "{error:?}");
}
