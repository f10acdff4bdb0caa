//! Embedded children: patrons of a library with their addresses.

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongodb::bson::{Document, doc};
use mongodb::{Collection, IndexModel};

use super::operation::Promise::{Atomic, PrefixOnce, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, documents, number_of, retry_policy, serialized};
use support::common::all;
use support::embedded::{Patrons, address, patron};

/// A patron with three of at most five addresses, and one without any.
pub(super) struct Library {
    pub(super) stored: Collection<Document>,
    pub(super) patrons: Patrons,
}

fn facts(patrons: &[Document]) -> Vec<String> {
    let of_patron = |patron: &Document| {
        let id = patron.get("_id").unwrap();
        let addresses = patron.get_array("addresses").cloned().unwrap_or_default();
        let addresses = addresses
            .iter()
            .enumerate()
            .map(|(position, address)| format!("{id}: {position} {address}"));
        std::iter::once(format!("patron {id}"))
            .chain(addresses)
            .collect::<Vec<_>>()
    };
    patrons.iter().flat_map(of_patron).collect()
}

async fn read(patrons: &Patrons, ids: &[&str]) -> Vec<String> {
    let mut read = Vec::new();
    for id in ids {
        read.extend(patrons.get(*id).await.unwrap());
    }
    facts(&read)
}

async fn found(patrons: &Patrons) -> Vec<String> {
    let found: Vec<_> = patrons.verify().stream().try_collect().await.unwrap();
    found
        .iter()
        .map(|finding| format!("{} {:?}", finding.document_id, finding.problem))
        .collect()
}

impl Model for Library {
    const PATTERN: &'static str = "embedded";
    const COLLECTIONS: &'static [&'static str] = &["patron"];

    fn new(of: Of<'_>) -> Self {
        let stored = of.collection("patron");
        let patrons = EmbeddedRepository::builder(stored.clone())
            .children_field("addresses")
            .child_id_field("id")
            .max_children(5)
            .retry(retry_policy());
        Self {
            patrons: patrons.build().unwrap(),
            stored,
        }
    }

    async fn fill(&self) {
        let patrons = [patron("joe", (0..3).map(address)), patron("ann", [])];
        self.stored.insert_many(patrons).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        facts(&all(&self.stored).await)
    }

    async fn read(&self) -> Option<Vec<String>> {
        Some(read(&self.patrons, &["joe", "ann", "sue", "tom"]).await)
    }

    async fn found(&self) -> Vec<String> {
        found(&self.patrons).await
    }
}

pub(super) fn operations() -> Vec<Call<Library>> {
    calls! { Library;
        Atomic, "EmbeddedRepository::insert", "", |m|
            m.patrons.insert(&patron("sue", [address(7)])).await => retry_errors(&[ErrorKind::AlreadyExists]);
        PrefixOnce, "EmbeddedRepository::insert_many", "", |m| m.patrons.insert_many(&two()).await;
        Atomic, "EmbeddedRepository::add_child", "", |m|
            m.patrons.add_child("joe", &address(7)).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "EmbeddedRepository::remove_child", "", |m|
            m.patrons.remove_child("joe", 1).await => retry_errors(&[ErrorKind::ChildNotFound]);
        Atomic, "EmbeddedRepository::replace_child", "", |m|
            m.patrons.replace_child("joe", &doc! { "id": 1, "street": "1 Some Other Street" }).await;
        Atomic, "EmbeddedRepository::upsert_child", "", |m| m.patrons.upsert_child("joe", &address(7)).await;
        Atomic, "EmbeddedRepository::upsert_child", "of a stored child", |m|
            m.patrons.upsert_child("joe", &doc! { "id": 1, "street": "1 Some Other Street" }).await;
        Atomic, "EmbeddedRepository::update_grandchild", "", |m| {
            let set = doc! { "$set": { "kind": "mobile" } };
            m.patrons.update_grandchild("joe", 1, "phones", ("number", 2), set).await
        } => prepare(with_phones);
        Atomic, "EmbeddedRepository::update_child", "", |m|
            m.patrons.update_child("joe", 1, doc! { "$set": { "zip": "54321" } }).await;
        Atomic, "EmbeddedRepository::reorder_children", "", |m| m.patrons.reorder_children("joe", [2, 0, 1]).await;
        Reads, "EmbeddedRepository::get", "", |m| m.patrons.get("joe").await;
        Reads, "EmbeddedRepository::find", "", |m| m.patrons.find(doc! { "addresses.id": 1 }).await;
        Reads, "EmbeddedRepository::child", "", |m| m.patrons.child("joe", 1).await;
        Reads, "EmbeddedRepository::ensure_indexes", "that needs none", |m| m.patrons.ensure_indexes().await;
        Reads, "EmbeddedRepository::verify", "", |m| serialized(m.patrons.verify().stream()).await;
    }
}

/// Gives an address a list of phones.
pub(super) fn with_phones(m: &Library) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let phones = doc! { "$set": { "addresses.1.phones": [{ "number": 1 }, { "number": 2 }] } };
        m.stored.update_one(doc! { "_id": "joe" }, phones).await.unwrap();
    })
}

/// Returns two new patrons.
pub(super) fn two() -> [Document; 2] {
    [patron("sue", []), patron("tom", [])]
}

/// Patrons and addresses in two collections.
pub(super) struct Migrations {
    stored: Collection<Document>,
    addresses: Collection<Document>,
    skipped: Collection<Document>,
    patrons: Patrons,
}

impl Model for Migrations {
    const PATTERN: &'static str = "embedded";
    const COLLECTIONS: &'static [&'static str] = &["patron", "address", "skipped"];

    fn new(of: Of<'_>) -> Self {
        let stored = of.collection("patron");
        let patrons = EmbeddedRepository::builder(stored.clone())
            .children_field("addresses")
            .retry(retry_policy());
        Self {
            patrons: patrons.build().unwrap(),
            addresses: of.collection("address"),
            skipped: of.collection("skipped"),
            stored,
        }
    }

    async fn fill(&self) {
        let reference = IndexModel::builder().keys(doc! { "patron_id": 1 }).build();
        self.addresses.create_index(reference).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [patrons, addresses] = documents([&self.stored, &self.addresses]).await;
        let mut facts = facts(&patrons);
        facts.extend(addresses.iter().map(|address| format!("{UNREAD}{address}")));
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        Some(read(&self.patrons, &["joe", "ann"]).await)
    }

    /// A patron that is not migrated.
    async fn damage(&self) -> Vec<String> {
        let missing = doc! { "addresses": { "$exists": false } };
        let bare: Vec<Document> = self.stored.find(missing).await.unwrap().try_collect().await.unwrap();
        bare.iter()
            .map(|patron| format!("{} ChildrenMissing", patron.get("_id").unwrap()))
            .collect()
    }

    async fn found(&self) -> Vec<String> {
        found(&self.patrons).await
    }
}

impl Operations for Migrations {
    fn operations() -> Vec<Call<Self>> {
        fn referring(m: &Migrations) -> LocalBoxFuture<'_, ()> {
            Box::pin(async move {
                let patrons = ["joe", "ann"].map(|id| doc! { "_id": id, "name": "Joe Bookreader" });
                m.stored.insert_many(patrons).await.unwrap();
                let address =
                    |n: i32, patron: &str| doc! { "_id": n, "patron_id": patron, "street": format!("{n} Street") };
                let addresses = [
                    address(1, "joe"),
                    address(2, "joe"),
                    address(3, "ann"),
                    address(4, "nobody"),
                ];
                m.addresses.insert_many(addresses).await.unwrap();
            })
        }
        calls! { Migrations;
            Steps, "EmbeddedRepository::migrate_from_references", "", |m|
                m.patrons.migrate_from_references(&m.addresses, "patron_id").await => prepare(referring);
            Steps, "EmbeddedRepository::migrate_from_references", "with a list of invalid children and a filter", |m| {
                let migration = m.patrons.migrate_from_references(&m.addresses, "patron_id");
                let migration = migration.skip_invalid(&m.skipped).filter(doc! { "_id": { "$gt": 0 } });
                migration.await
            } => prepare(referring);
            Reads, "EmbeddedRepository::migrate_from_references + MigrateFromReferences::plan", "", |m|
                m.patrons.migrate_from_references(&m.addresses, "patron_id").plan().await.map(drop)
                => prepare(referring);
            Reads, "EmbeddedRepository::orphans", "", |m|
                number_of(m.patrons.orphans(&m.addresses, "patron_id").stream()).await => prepare(referring);
        }
    }
}
