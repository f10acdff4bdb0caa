//! Repositories that own fields of the documents of one collection, each with a write of it, and what must be stored then.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::TryStreamExt;
use futures::future::BoxFuture;
use mongo_patterns::Repository;
use mongo_patterns::counters::Counters;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::repositories::of;
use support::common::{all, patient};

/// A repository that owns fields of a document.
pub(super) trait Owner: Send + Sync {
    fn repository(&self) -> &dyn Repository;

    /// The fields that it owns.
    fn fields(&self) -> &'static [&'static str];

    /// Prepares a stored document.
    fn begin(&self, _id: i32) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Writes, with a number that no other write has.
    fn write(&self, id: i32, n: i32) -> BoxFuture<'_, ()>;

    /// Checks that what these writes have stored is there, and that the repository finds no problem.
    fn check<'a>(&'a self, id: i32, written: &'a [i32]) -> BoxFuture<'a, ()>;
}

pub(super) type One = Box<dyn Owner>;

/// The documents of one collection.
#[derive(Clone)]
pub(super) struct Place<'d> {
    pub(super) db: &'d TestDatabase,
    pub(super) collection: &'static str,
}

impl Place<'_> {
    /// Returns a document as it is stored.
    pub(super) async fn stored(&self, id: i32) -> Document {
        let documents = self.db.plain_collection::<Document>(self.collection);
        documents.find_one(doc! { "_id": id }).await.unwrap().unwrap()
    }

    pub(super) fn list(&self) -> One {
        let lists = OutlierRepository::builder(of(self.db, self.collection), of(self.db, "more_views"));
        let lists = lists
            .array_field("views")
            .parent_field("of")
            .flag_field("has_more_views");
        let lists = lists.threshold(5).max_overflow_elements(10).retry(patient());
        Box::new(List(plain(self), lists.build().unwrap()))
    }

    pub(super) fn subset(&self) -> One {
        let first = Subset::new("replies").sort(doc! { "at": -1 }).size(3);
        let replies = SubsetRepository::builder(of(self.db, self.collection), of(self.db, "replies"));
        let replies = replies
            .parent_field("of")
            .child_id_field("id")
            .subset(first)
            .retry(patient());
        let replies = replies.total_field("reply_count").sum("n", "reply_sum");
        Box::new(Replies(plain(self), replies.build().unwrap()))
    }

    pub(super) fn embedded(&self) -> One {
        let lines = EmbeddedRepository::builder(of(self.db, self.collection)).children_field("lines");
        Box::new(Lines(plain(self), lines.max_children(1000).build().unwrap()))
    }

    pub(super) fn counters(&self) -> One {
        let reads = Counters::builder(of(self.db, self.collection)).field("reads");
        Box::new(Reads(plain(self), reads.retry(patient()).build().unwrap()))
    }

    pub(super) fn source(&self) -> One {
        let shipments = ReferenceRepository::builder(of(self.db, "shipments"), of(self.db, self.collection));
        let shipments = shipments.reference_field("of").copied_fields(["name"]).retry(patient());
        Box::new(Source {
            plain: plain(self),
            shipments: shipments.build().unwrap(),
            refreshed: Mutex::default(),
        })
    }

    pub(super) fn references(&self) -> One {
        let orders = ReferenceRepository::builder(of(self.db, self.collection), of(self.db, "customers"));
        let orders = orders
            .reference_field("customer")
            .copied_fields(["name"])
            .retry(patient());
        Box::new(Customer(plain(self), orders.version_field("cv").build().unwrap()))
    }

    pub(super) fn versions(&self) -> One {
        let orders = SchemaRepository::builder(of(self.db, self.collection));
        Box::new(Version(plain(self), orders.newest(1).retry(patient()).build().unwrap()))
    }

    /// Returns all that can be beside one another, but for the version of the schema.
    pub(super) fn owners(&self) -> Vec<One> {
        vec![
            self.list(),
            self.subset(),
            self.embedded(),
            self.counters(),
            self.source(),
            self.references(),
        ]
    }
}

/// What an oracle reads: the driver, without the recorder.
struct Plain {
    database: mongodb::Database,
    collection: &'static str,
}

fn plain(place: &Place<'_>) -> Plain {
    Plain {
        database: place.db.plain_client().database(place.db.database().name()),
        collection: place.collection,
    }
}

impl Plain {
    async fn document(&self, id: i32) -> Document {
        let documents = self.database.collection::<Document>(self.collection);
        documents.find_one(doc! { "_id": id }).await.unwrap().unwrap()
    }

    async fn of(&self, collection: &str, id: impl Into<Bson>) -> Vec<Document> {
        let all = all(&self.database.collection(collection)).await;
        let id = id.into();
        all.into_iter().filter(|one| one.get("of") == Some(&id)).collect()
    }
}

/// Checks that all writes are stored, each once.
#[track_caller]
fn assert_stored(pattern: &str, mut stored: Vec<i32>, written: &[i32]) {
    let mut written = written.to_vec();
    stored.sort_unstable();
    written.sort_unstable();
    assert_eq!(stored, written, "{pattern}");
}

struct List(Plain, OutlierRepository<Document, i32>);

impl Owner for List {
    fn repository(&self) -> &dyn Repository {
        &self.1
    }

    fn fields(&self) -> &'static [&'static str] {
        &["views", "has_more_views"]
    }

    fn write(&self, id: i32, n: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.1.push(id, &n).await.unwrap();
        })
    }

    fn check<'a>(&'a self, id: i32, written: &'a [i32]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut stored = self.0.document(id).await.get_array("views").unwrap().clone();
            for more in self.0.of("more_views", id).await {
                stored.extend(more.get_array("views_extra").unwrap().clone());
            }
            let stored = stored.iter().map(|view| view.as_i32().unwrap()).collect();
            assert_stored("outlier", stored, written);
            let read: Vec<i32> = self.1.elements(id).await.unwrap();
            assert_stored("outlier", read, written);
            let found: Vec<_> = self.1.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}

struct Replies(Plain, SubsetRepository<Document, Document>);

impl Owner for Replies {
    fn repository(&self) -> &dyn Repository {
        &self.1
    }

    fn fields(&self) -> &'static [&'static str] {
        &["replies", "replies_version", "reply_count", "reply_sum"]
    }

    fn write(&self, id: i32, n: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let reply = doc! { "id": n, "of": id, "at": n, "n": n };
            self.1.insert(&reply).await.unwrap();
        })
    }

    fn check<'a>(&'a self, id: i32, written: &'a [i32]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let stored = self.0.of("replies", id).await;
            let stored = stored.iter().map(|reply| reply.get_i32("id").unwrap()).collect();
            assert_stored("subset", stored, written);
            let parent = self.0.document(id).await;
            let number = |field: &str| support::common::integer(parent.get(field).unwrap());
            let sum: i64 = written.iter().map(|n| i64::from(*n)).sum();
            assert_eq!(
                (number("reply_count"), number("reply_sum")),
                (written.len() as i64, sum)
            );
            let mut newest = written.to_vec();
            newest.sort_unstable_by(|a, b| b.cmp(a));
            newest.truncate(3);
            let embedded = parent.get_array("replies").unwrap().iter();
            let embedded: Vec<i32> = embedded
                .map(|reply| reply.as_document().unwrap().get_i32("id").unwrap())
                .collect();
            assert_eq!(embedded, newest);
            let found: Vec<_> = self.1.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}

struct Lines(Plain, EmbeddedRepository<Document, Document>);

impl Owner for Lines {
    fn repository(&self) -> &dyn Repository {
        &self.1
    }

    fn fields(&self) -> &'static [&'static str] {
        &["lines"]
    }

    fn write(&self, id: i32, n: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.1.add_child(id, &doc! { "_id": n }).await.unwrap() })
    }

    fn check<'a>(&'a self, id: i32, written: &'a [i32]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let order = self.0.document(id).await;
            let lines = order.get_array("lines").unwrap().iter();
            let stored = lines.map(|line| line.as_document().unwrap().get_i32("_id").unwrap());
            assert_stored("embedded", stored.collect(), written);
            let found: Vec<_> = self.1.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}

struct Reads(Plain, Counters);

impl Owner for Reads {
    fn repository(&self) -> &dyn Repository {
        &self.1
    }

    fn fields(&self) -> &'static [&'static str] {
        &["reads", "reads_batches"]
    }

    fn write(&self, id: i32, _: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.1.add(id, 1).unwrap();
            self.1.flush().await.unwrap();
        })
    }

    fn check<'a>(&'a self, id: i32, written: &'a [i32]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let reads = self.0.document(id).await.get_i64("reads").unwrap();
            assert_eq!(reads, written.len() as i64);
        })
    }
}

/// The documents are sources, to which a shipment each refers.
struct Source {
    plain: Plain,
    shipments: ReferenceRepository<Document, Document>,
    /// How often a check has incremented the version of a document.
    refreshed: Mutex<BTreeMap<i32, i64>>,
}

impl Owner for Source {
    fn repository(&self) -> &dyn Repository {
        &self.shipments
    }

    fn fields(&self) -> &'static [&'static str] {
        &["v"]
    }

    fn begin(&self, id: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let shipment = doc! { "_id": id, "of": { "_id": id } };
            self.shipments.insert(&shipment).await.unwrap();
        })
    }

    fn write(&self, id: i32, n: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let renamed = self
                .shipments
                .update_source(id, doc! { "$set": { "name": format!("of the source, {n}") } });
            assert!(renamed.await.unwrap().version > 0);
        })
    }

    fn check<'a>(&'a self, id: i32, written: &'a [i32]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let version = self.plain.document(id).await.get("v").cloned().unwrap();
            let version = support::common::integer(&version);
            let refreshes = self.refreshed.lock().unwrap().get(&id).copied().unwrap_or(0);
            assert_eq!(version, written.len() as i64 + refreshes);
            // A replacement has changed the name, too.
            let refreshed = self.shipments.refresh_copies(id).await.unwrap().version as i64;
            *self.refreshed.lock().unwrap().entry(id).or_default() += refreshed - version;
            let name = self.plain.document(id).await.get("name").cloned();
            let shipments = all(&self.plain.database.collection("shipments")).await;
            let shipment = shipments.iter().find(|one| one.get("_id") == Some(&id.into())).unwrap();
            assert_eq!(shipment.get_document("of").unwrap().get("name"), name.as_ref());
            let found: Vec<_> = self.shipments.verify().stream().try_collect().await.unwrap();
            // Those of other sources are refreshed later.
            assert!(!found.iter().any(|found| found.document_id == id.into()), "{found:?}");
        })
    }
}

/// The documents refer to a customer.
struct Customer(Plain, ReferenceRepository<Document, Document>);

const CUSTOMER: i32 = 7;

impl Owner for Customer {
    fn repository(&self) -> &dyn Repository {
        &self.1
    }

    fn fields(&self) -> &'static [&'static str] {
        &["customer"]
    }

    fn begin(&self, id: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let customers = self.0.database.collection::<Document>("customers");
            let ann = doc! { "$set": { "name": "Ann" } };
            let upsert = customers.update_one(doc! { "_id": CUSTOMER }, ann).upsert(true);
            upsert.await.unwrap();
            self.1.set_reference(id, CUSTOMER).await.unwrap();
        })
    }

    fn write(&self, _: i32, n: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let renamed = self
                .1
                .update_source(CUSTOMER, doc! { "$set": { "name": format!("Ann {n}") } });
            assert!(renamed.await.unwrap().version > 0);
        })
    }

    fn check<'a>(&'a self, id: i32, _: &'a [i32]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let customers = all(&self.0.database.collection("customers")).await;
            let order = self.0.document(id).await;
            let copy = order.get_document("customer").unwrap();
            assert_eq!(copy.get("_id"), Some(&CUSTOMER.into()));
            assert_eq!(copy.get("name"), customers[0].get("name"));
            let found: Vec<_> = self.1.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}

/// The documents have a version, which belongs to their content.
struct Version(Plain, SchemaRepository<Document>);

impl Owner for Version {
    fn repository(&self) -> &dyn Repository {
        &self.1
    }

    fn fields(&self) -> &'static [&'static str] {
        &["schemaVersion"]
    }

    fn begin(&self, id: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let orders = self.0.database.collection::<Document>(self.0.collection);
            let first = doc! { "$set": { "schemaVersion": 1 } };
            orders.update_one(doc! { "_id": id }, first).await.unwrap();
        })
    }

    fn write(&self, id: i32, n: i32) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.1.update(id, doc! { "$set": { "noted": n } }).await.unwrap();
        })
    }

    fn check<'a>(&'a self, id: i32, _: &'a [i32]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            assert_eq!(self.0.document(id).await.get_i32("schemaVersion").unwrap(), 1);
            let found: Vec<_> = self.1.verify().stream().try_collect().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        })
    }
}
