//! Repositories of one shop, most of them of its orders.

use std::time::Duration;

use mongo_patterns::Repository;
use mongo_patterns::archive::{Archive, Trash};
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::intervals::IntervalRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::subset::{Subset, SubsetRepository, SubsetRepositoryBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

pub(super) type One = Box<dyn Repository>;

pub(super) fn of(db: &TestDatabase, name: &str) -> Collection<Document> {
    db.collection(name)
}

/// A list of an order, whose overflow documents are in a collection with its name.
pub(super) fn list(db: &TestDatabase, array: &str, flag: &str) -> OutlierRepository<Document, i32> {
    overflowing(db, array, flag, &format!("more_{array}"))
}

pub(super) fn overflowing(
    db: &TestDatabase,
    array: &str,
    flag: &str,
    overflow: &str,
) -> OutlierRepository<Document, i32> {
    let lists = OutlierRepository::builder(of(db, "orders"), of(db, overflow));
    let lists = lists.array_field(array).parent_field("order").flag_field(flag);
    lists.threshold(5).max_overflow_elements(10).build().unwrap()
}

pub(super) fn list_in(db: &TestDatabase, collection: &str) -> OutlierRepository<Document, i32> {
    let lists = OutlierRepository::builder(of(db, collection), of(db, "more_of_these"));
    lists.array_field("parts").parent_field("note").build().unwrap()
}

pub(super) fn embedded(db: &TestDatabase, array: &str) -> EmbeddedRepository<Document, Document> {
    let lines = EmbeddedRepository::builder(of(db, "orders")).children_field(array);
    lines.max_children(100).build().unwrap()
}

/// Subsets of the children of an order. Those of `notes` are in a collection with this name.
pub(super) fn subset(db: &TestDatabase, children: &str) -> SubsetRepositoryBuilder<Document, Document> {
    let subset = Subset::new(children).sort(doc! { "at": -1 }).size(3);
    SubsetRepository::builder(of(db, "orders"), of(db, children))
        .parent_field("order")
        .child_id_field("id")
        .subset(subset)
}

pub(super) fn further(field: &str) -> Subset {
    Subset::new(field).sort(doc! { "at": 1 }).size(3)
}

pub(super) fn intervals(db: &TestDatabase, collection: &str) -> IntervalRepository<Document> {
    let prices = IntervalRepository::builder(of(db, collection));
    prices.id_field("item").build().unwrap()
}

pub(super) fn history(db: &TestDatabase, current: &str, revisions: &str, time: &str) -> HistoryRepository<Document> {
    let history = HistoryRepository::builder(of(db, current), of(db, revisions)).id_field("_id");
    history.time_field(time).build().unwrap()
}

pub(super) fn trash(db: &TestDatabase, current: &str, second: &str) -> Trash<Document> {
    Trash::builder(of(db, current), of(db, second)).build().unwrap()
}

pub(super) fn archive(db: &TestDatabase, current: &str, second: &str) -> Archive<Document> {
    let archive = Archive::builder(of(db, current), of(db, second)).age_field("at");
    archive.older_than(Duration::from_secs(60)).build().unwrap()
}

pub(super) fn references(db: &TestDatabase, field: &str) -> ReferenceRepository<Document, Document> {
    references_to(db, "customers", field)
}

pub(super) fn references_in(db: &TestDatabase, collection: &str) -> ReferenceRepository<Document, Document> {
    let orders = ReferenceRepository::builder(of(db, collection), of(db, "customers"));
    orders.reference_field("order").copied_fields(["name"]).build().unwrap()
}

pub(super) fn references_to(db: &TestDatabase, sources: &str, field: &str) -> ReferenceRepository<Document, Document> {
    let orders = ReferenceRepository::builder(of(db, "orders"), of(db, sources));
    orders.reference_field(field).copied_fields(["name"]).build().unwrap()
}

pub(super) fn schema(db: &TestDatabase, collection: &str, version: &str) -> SchemaRepository<Document> {
    let orders = SchemaRepository::builder(of(db, collection)).version_field(version);
    orders.newest(1).build().unwrap()
}

pub(super) fn buckets(db: &TestDatabase, collection: &str) -> BucketRepository<i32, Document> {
    let buckets = BucketRepository::builder(of(db, collection)).key_field("customer");
    buckets.items_field("items").build().unwrap()
}

pub(super) fn embedded_in(db: &TestDatabase, collection: &str) -> EmbeddedRepository<Document, Document> {
    let lines = EmbeddedRepository::builder(of(db, collection)).children_field("lines");
    lines.max_children(100).build().unwrap()
}
