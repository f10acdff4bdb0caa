//! Documents of several versions: contacts with a typed step and one on the server.

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::operation::Promise::{Atomic, PrefixOnce, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, indexes, retry_policy, serialized, text};
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

    async fn found(&self) -> Vec<String> {
        let found: Vec<_> = self.contacts.verify().stream().try_collect().await.unwrap();
        found.iter().map(|finding| format!("{:?}", finding.problem)).collect()
    }
}

fn migrate(m: &Contacts) -> LocalBoxFuture<'_, Result<String, mongo_patterns::Error>> {
    Box::pin(async move { text(m.contacts.migrate().chunk(2).await.map(drop)) })
}

impl Operations for Contacts {
    fn operations() -> Vec<Call<Self>> {
        calls! { Contacts;
            Atomic, "SchemaRepository::insert", "", |m|
                m.contacts.insert(&doc! { "_id": 5, "fullName": "Eve" }).await => retry_errors(&[ErrorKind::AlreadyExists]);
            PrefixOnce, "SchemaRepository::insert_many", "", |m|
                m.contacts.insert_many(&[doc! { "_id": 5, "fullName": "Eve" }, doc! { "_id": 6, "fullName": "Fay" }]).await;
            Atomic, "SchemaRepository::update", "", |m| m.contacts.update(1, set()).await.map(drop);
            Steps, "SchemaRepository::update", "of an older version", |m| m.contacts.update(3, set()).await.map(drop);
            Atomic, "SchemaRepository::replace", "of an older version", |m|
                m.contacts.replace(3, &doc! { "fullName": "Eve" }).await.map(drop);
            Atomic, "SchemaRepository::delete", "", |m| m.contacts.delete(2).await.map(drop);
            Steps, "SchemaRepository::migrate", "", |m| migrate(m).await;
            Steps, "SchemaRepository::ensure_indexes", "", |m|
                m.contacts.ensure_indexes().await.map(drop)
                => prepare(|m| m.stored.drop_indexes().await.unwrap());
            Reads, "SchemaRepository::get", "of an older version", |m| m.contacts.get(3).await;
            Reads, "SchemaRepository::find", "", |m| {
                let found = m.contacts.find(doc! { "n": 0 }).older(1, doc! { "_id": 3 }).older(2, doc! {});
                found.sort(doc! { "_id": 1 }).await
            };
            Reads, "Find::stream", "", |m| {
                let found = m.contacts.find(doc! { "n": 0 }).older(1, doc! {}).older(2, doc! {});
                found.sort(doc! { "_id": 1 }).stream().try_collect::<Vec<_>>().await
            };
            Reads, "SchemaRepository::ensure_sharded", "plan", |m|
                m.contacts.ensure_sharded().plan().await.map(|plan| plan.len());
            Reads, "SchemaRepository::verify_shard_keys", "", |m| m.contacts.verify_shard_keys().await;
            Reads, "SchemaRepository::versions", "", |m| m.contacts.versions().await;
            Reads, "SchemaRepository::migrate + Migrate::plan", "", |m| m.contacts.migrate().plan().await.map(drop);
            Reads, "SchemaRepository::verify", "", |m| serialized(m.contacts.verify().stream()).await;
        }
    }
}

fn set() -> Document {
    doc! { "$set": { "n": 1 } }
}
