//! Suppliers: sources of references, parents of a subset and of a list, with a trash and a history.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::archive::Trash;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::ReferenceRepository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns::through::Deletes;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};

use support::common::{all, patient};

pub(super) type Orders = ReferenceRepository<Document, Document>;

/// What keeps suppliers that are deleted, or deletes what belongs to them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Other {
    Trash,
    History,
    Subset,
    List,
}

pub(super) const OTHERS: [Other; 4] = [Other::Trash, Other::History, Other::Subset, Other::List];

/// The repositories of a process. All of them are of the suppliers.
#[derive(Clone)]
pub(super) struct Shop {
    pub(super) orders: Orders,
    pub(super) trash: Trash<Document>,
    pub(super) history: HistoryRepository<Document>,
    pub(super) products: SubsetRepository<Document, Document>,
    pub(super) visits: OutlierRepository<Document, i32>,
}

impl Shop {
    pub(super) fn new(db: &TestDatabase) -> Self {
        Self::of(db.database())
    }

    pub(super) fn of(database: &Database) -> Self {
        let of = |name: &str| database.collection::<Document>(name);
        let suppliers = || of("suppliers");
        let orders = Orders::builder(of("orders"), suppliers()).reference_field("supplier");
        let trash = Trash::builder(suppliers(), of("deleted_suppliers"));
        let history = HistoryRepository::builder(suppliers(), of("revisions")).id_field("_id");
        let newest = Subset::new("newest").sort(doc! { "at": -1 }).size(2);
        let products = SubsetRepository::builder(suppliers(), of("products")).parent_field("supplier");
        let products = products.child_id_field("_id").subset(newest).total_field("products");
        let visits = OutlierRepository::builder(suppliers(), of("more_visits")).array_field("visits");
        let visits = visits.parent_field("supplier").threshold(5).max_overflow_elements(5);
        Self {
            orders: orders.copied_fields(["name"]).retry(patient()).build().unwrap(),
            trash: trash.retry(patient()).build().unwrap(),
            history: history.time_field("at").retry(patient()).build().unwrap(),
            products: products.retry(patient()).build().unwrap(),
            visits: visits.retry(patient()).build().unwrap(),
        }
    }

    /// Sets up the orders, and one of the others.
    pub(super) async fn set_up(&self, other: Other) {
        self.orders.ensure_indexes().await.unwrap();
        self.set_up_alone(other).await;
    }

    /// Sets up one of the others.
    pub(super) async fn set_up_alone(&self, other: Other) {
        let repository: &dyn Repository = match other {
            Other::Trash => &self.trash,
            Other::History => &self.history,
            Other::Subset => &self.products,
            Other::List => &self.visits,
        };
        repository.ensure_indexes().await.unwrap();
    }

    /// Checks that no repository finds a problem.
    pub(super) async fn assert_sound(&self) {
        let orders: Vec<_> = self.orders.verify().stream().try_collect().await.unwrap();
        let products: Vec<_> = self.products.verify().stream().try_collect().await.unwrap();
        let visits: Vec<_> = self.visits.verify().stream().try_collect().await.unwrap();
        assert_eq!((orders, products, visits), (vec![], vec![], vec![]));
    }

    pub(super) fn other(&self, other: Other) -> &dyn Deletes {
        match other {
            Other::Trash => &self.trash,
            Other::History => &self.history,
            Other::Subset => &self.products,
            Other::List => &self.visits,
        }
    }

    /// Stores suppliers with all that another repository has of them.
    pub(super) async fn add(&self, db: &TestDatabase, other: Other, ids: impl IntoIterator<Item = i32>) {
        for id in ids {
            let supplier = doc! { "_id": id, "name": "Ann" };
            match other {
                Other::History => drop(self.history.insert(&supplier).await.unwrap()),
                _ => drop(suppliers(db).insert_one(supplier).await.unwrap()),
            }
            self.add_parts(other, [id]).await;
        }
    }

    /// Stores three children of suppliers, or eight elements of their lists, three of them in an overflow document.
    pub(super) async fn add_parts(&self, of: Other, ids: impl IntoIterator<Item = i32>) {
        for id in ids {
            match of {
                Other::Subset => {
                    let product = |n: i32| doc! { "_id": 10 * id + n, "supplier": id, "at": n };
                    let products: Vec<Document> = (0..3).map(product).collect();
                    self.products.insert_many(&products).await.unwrap();
                }
                Other::List => drop(self.visits.push_many(id, &(0..8).collect::<Vec<i32>>()).await.unwrap()),
                Other::Trash | Other::History => {}
            }
        }
    }
}

pub(super) fn suppliers(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("suppliers")
}

pub(super) async fn count(db: &TestDatabase, collection: &str, filter: Document) -> u64 {
    let collection = db.plain_collection::<Document>(collection);
    collection.count_documents(filter).await.unwrap()
}

pub(super) fn order(id: impl Into<Bson>, supplier: i32) -> Document {
    doc! { "_id": id, "supplier": { "_id": supplier } }
}

/// Checks by the driver alone that a supplier is there with all that it has, or deleted as a whole. Returns whether it is there.
pub(super) async fn judge(db: &TestDatabase, other: Other, id: i32, context: &str) -> bool {
    let stored = suppliers(db).find_one(doc! { "_id": id }).await.unwrap();
    let is_there = stored.is_some();
    let expected = |there: u64, deleted: u64| if is_there { there } else { deleted };
    let (collection, filter, expected) = match other {
        Other::Trash => ("deleted_suppliers", doc! { "document._id": id }, expected(0, 1)),
        Other::History => ("revisions", doc! { "documentId": id, "deleted": true }, expected(0, 1)),
        Other::Subset => ("products", doc! { "supplier": id }, expected(3, 0)),
        Other::List => ("more_visits", doc! { "supplier": id }, expected(1, 0)),
    };
    assert_eq!(count(db, collection, filter.clone()).await, expected, "{context}");
    if !is_there {
        assert_eq!(count(db, "orders", doc! { "supplier._id": id }).await, 0, "{context}");
    }
    for kept in all(&db.plain_collection::<Document>(collection)).await {
        assert!(!kept.to_string().contains("mongo_patterns_deleting"), "{context}");
    }
    is_there
}
