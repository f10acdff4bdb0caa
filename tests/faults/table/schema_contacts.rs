//! Documents of several versions: contacts with a typed step and one on the server.

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::operation::Promise::{Atomic, PrefixOnce, Reads, Steps};
use super::operation::{Model, Of, Operation, Operations, UNREAD, indexes, retry_policy, serialized, text};
use support::common::all;

/// The contact 1 has the newest version, and the others have older ones.
pub(super) struct Contacts {
    stored: Collection<Document>,
    contacts: SchemaRepository<Document>,
}

/// One fact for each document, whatever its version is.
fn fact(document: &Document) -> String {
    let place = document.get_document("place");
    let city = place.ok().and_then(|place| place.get("city")).or(document.get("city"));
    let name = document.get("fullName").or(document.get("name"));
    format!(
        "{} {name:?} {city:?} {:?}",
        document.get("_id").unwrap(),
        document.get("n")
    )
}

impl Model for Contacts {
    const PATTERN: &'static str = "schema";
    const COLLECTIONS: &'static [&'static str] = &["contacts"];

    fn new(of: Of<'_>) -> Self {
        let stored = of.collection("contacts");
        let place = |mut old: Document| {
            if let Some(city) = old.remove("city") {
                old.insert("place", doc! { "city": city });
            }
            Ok(old)
        };
        let rename = vec![doc! { "$set": { "fullName": "$name" } }, doc! { "$unset": "name" }];
        let contacts = SchemaRepository::builder(stored.clone())
            .step(1, place)
            .pipeline_step(2, rename)
            .retry(retry_policy());
        Self {
            contacts: contacts.build().unwrap(),
            stored,
        }
    }

    async fn fill(&self) {
        self.contacts.ensure_indexes().await.unwrap();
        let documents = [
            doc! { "_id": 1, "schemaVersion": 3, "fullName": "Ann", "place": { "city": "Cork" }, "n": 0 },
            doc! { "_id": 2, "schemaVersion": 2, "name": "Bea", "place": { "city": "Cork" }, "n": 0 },
            doc! { "_id": 3, "name": "Cleo", "city": "Cork", "n": 0 },
            doc! { "_id": 4, "name": "Dee", "city": "Dublin", "n": 0 },
        ];
        self.stored.insert_many(documents).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let stored = all(&self.stored).await;
        let mut facts: Vec<String> = stored.iter().map(fact).collect();
        let versions = stored
            .iter()
            .map(|document| document.get_i32("schemaVersion").unwrap_or(1));
        facts.extend(
            versions
                .enumerate()
                .map(|(n, version)| format!("{UNREAD}{n} has version {version}")),
        );
        facts.extend(indexes(&self.stored).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let all = self.contacts.find(doc! {}).older(1, doc! {}).older(2, doc! {});
        Some(all.sort(doc! { "_id": 1 }).await.unwrap().iter().map(fact).collect())
    }

    /// One command writes a document, so there is never any damage.
    async fn damage(&self) -> Vec<String> {
        Vec::new()
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<_> = self.contacts.verify().stream().try_collect().await.unwrap();
        found.iter().map(|finding| format!("{:?}", finding.problem)).collect()
    }

    async fn repair(&self) {}
}

impl Operations for Contacts {
    fn operations() -> Vec<Operation<Self>> {
        let mut operations = writes();
        operations.extend(reads());
        operations
    }
}

fn set() -> Document {
    doc! { "$set": { "n": 1 } }
}

fn writes() -> Vec<Operation<Contacts>> {
    fn migrate(m: &Contacts) -> LocalBoxFuture<'_, Result<String, mongo_patterns::Error>> {
        Box::pin(async move { text(m.contacts.migrate().chunk(2).await.map(drop)) })
    }
    vec![
        Operation::<Contacts>::new(Atomic, "SchemaRepository::insert", "", |m| {
            Box::pin(async move { text(m.contacts.insert(&doc! { "_id": 5, "fullName": "Eve" }).await) })
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        Operation::<Contacts>::new(PrefixOnce, "SchemaRepository::insert_many", "", |m| {
            Box::pin(async move {
                let two = [
                    doc! { "_id": 5, "fullName": "Eve" },
                    doc! { "_id": 6, "fullName": "Fay" },
                ];
                text(m.contacts.insert_many(&two).await)
            })
        }),
        Operation::<Contacts>::new(Atomic, "SchemaRepository::update", "", |m| {
            Box::pin(async move { text(m.contacts.update(1, set()).await.map(drop)) })
        }),
        Operation::<Contacts>::new(Steps, "SchemaRepository::update", "of an older version", |m| {
            Box::pin(async move { text(m.contacts.update(3, set()).await.map(drop)) })
        }),
        Operation::<Contacts>::new(Atomic, "SchemaRepository::replace", "of an older version", |m| {
            Box::pin(async move { text(m.contacts.replace(3, &doc! { "fullName": "Eve" }).await.map(drop)) })
        }),
        Operation::<Contacts>::new(Atomic, "SchemaRepository::delete", "", |m| {
            Box::pin(async move { text(m.contacts.delete(2).await.map(drop)) })
        }),
        Operation::<Contacts>::new(Steps, "SchemaRepository::migrate", "", migrate),
        Operation::<Contacts>::new(Steps, "SchemaRepository::ensure_indexes", "", |m| {
            Box::pin(async move { text(m.contacts.ensure_indexes().await.map(drop)) })
        })
        .prepare(|m| Box::pin(async move { m.stored.drop_indexes().await.unwrap() })),
    ]
}

fn reads() -> Vec<Operation<Contacts>> {
    vec![
        Operation::<Contacts>::new(Reads, "SchemaRepository::get", "of an older version", |m| {
            Box::pin(async move { text(m.contacts.get(3).await) })
        }),
        Operation::<Contacts>::new(Reads, "SchemaRepository::find", "", |m| {
            Box::pin(async move {
                let found = m
                    .contacts
                    .find(doc! { "n": 0 })
                    .older(1, doc! { "_id": 3 })
                    .older(2, doc! {});
                text(found.sort(doc! { "_id": 1 }).await)
            })
        }),
        Operation::<Contacts>::new(Reads, "Find::stream", "", |m| {
            Box::pin(async move {
                let found = m.contacts.find(doc! { "n": 0 }).older(1, doc! {}).older(2, doc! {});
                let found: Result<Vec<_>, _> = found.sort(doc! { "_id": 1 }).stream().try_collect().await;
                text(found)
            })
        }),
        Operation::<Contacts>::new(Reads, "SchemaRepository::ensure_sharded", "plan", |m| {
            Box::pin(async move { text(m.contacts.ensure_sharded().plan().await.map(|plan| plan.len())) })
        }),
        Operation::<Contacts>::new(Reads, "SchemaRepository::verify_shard_keys", "", |m| {
            Box::pin(async move { text(m.contacts.verify_shard_keys().await) })
        }),
        Operation::<Contacts>::new(Reads, "SchemaRepository::versions", "", |m| {
            Box::pin(async move { text(m.contacts.versions().await) })
        }),
        Operation::<Contacts>::new(Reads, "SchemaRepository::migrate + Migrate::plan", "", |m| {
            Box::pin(async move { text(m.contacts.migrate().plan().await.map(drop)) })
        }),
        Operation::<Contacts>::new(Reads, "SchemaRepository::verify", "", |m| {
            Box::pin(async move {
                let found: Result<Vec<_>, _> = m.contacts.verify().stream().try_collect().await;
                serialized(found)
            })
        }),
    ]
}
