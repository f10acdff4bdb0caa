//! The patterns.

use futures::TryStreamExt;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::subset::SubsetRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::model::{Values, of_array, set, with};
use support::common::{SECOND, at};
use support::intervals;
use support::{embedded, history, outlier, reference, schema, subset};

/// Items.
pub(super) struct Items(BucketRepository<String, Document>);

/// Strings that look like more than one key.
const KEYS: [&str; 2] = ["$key", "a.b"];

impl Values for Items {
    const OPERATORS: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        let items = BucketRepository::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .time_field("date")
            .item_id_field("n")
            .page_size(3);
        let items = items.build().unwrap();
        items.ensure_indexes().await.unwrap();
        Self(items)
    }

    fn is_id(value: &Bson) -> bool {
        use Bson::{Int32, Int64, ObjectId, String};
        matches!(value, String(_) | Int32(_) | Int64(_) | ObjectId(_))
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let item = with(doc! { "n": id, "date": at(SECOND) }, fields);
        self.0.append(KEYS[0], &item).await.unwrap();
        self.0.append_many(KEYS[1], std::slice::from_ref(&item)).await.unwrap();
        for key in KEYS {
            self.0.replace_item(key, &item).await.unwrap();
            self.0.update_item(key, id.clone(), set(fields)).await.unwrap();
        }
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let mut read = Vec::new();
        for key in KEYS {
            match self.0.item(key, id.clone()).await {
                Ok(item) => read.extend(item),
                Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidItemId, "{id}"),
            }
            let items: Vec<Document> = self.0.items(key).stream().try_collect().await.unwrap();
            read.extend(items.into_iter().filter(|item| item.get("n") == Some(id)));
        }
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        let mut found = false;
        for key in KEYS {
            match self.0.remove_item(key, id.clone()).await {
                Ok(removed) => found = removed.found,
                Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidItemId, "{id}"),
            }
        }
        found
    }

    async fn findings(&self) -> usize {
        self.0.verify().stream().try_collect::<Vec<_>>().await.unwrap().len()
    }
}

/// Lists.
pub(super) struct Lists(OutlierRepository<Document, Document>);

impl Values for Lists {
    const OPERATORS: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        Self(outlier::ready(db, outlier::builder(db).threshold(2).max_overflow_elements(2)).await)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let element = |n: i32| with(doc! { "n": n }, fields);
        let book = doc! { "_id": id, "customers_purchased": [element(0), element(1), element(2)] };
        self.0.insert(&with(book, fields)).await.unwrap();
        self.0.push(id.clone(), &element(3)).await.unwrap();
        self.0.push_many(id.clone(), &[element(4), element(5)]).await.unwrap();
        for n in [0, 5] {
            let updated = self.0.update_element(id.clone(), doc! { "n": n }, set(fields)).await;
            assert!(updated.unwrap().modified);
        }
        assert!(self.0.contains(id.clone(), &element(4)).await.unwrap());
        assert!(self.0.remove(id.clone(), &element(1)).await.unwrap().found);
        self.0.refresh(id.clone()).await.unwrap();
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let mut read = match self.0.elements(id.clone()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            elements => elements.unwrap(),
        };
        let numbers: Vec<i32> = read.iter().map(|element| element.get_i32("n").unwrap()).collect();
        assert!(numbers.is_empty() || numbers == [0, 2, 3, 4, 5], "{id}: {numbers:?}");
        read.extend(self.0.get(id.clone()).await.unwrap().map(|book| book.document));
        read.extend(self.0.get_full(id.clone()).await.unwrap());
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.delete(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        outlier::findings(&self.0).await.len()
    }
}

/// Children, and the subset in their parent.
pub(super) struct Subsets {
    products: SubsetRepository<Document, Document>,
    parents: Collection<Document>,
}

/// The parent of all children. Each child whose id can be an `_id` has a parent with this id too.
const PARENT: &str = "$parent";

impl Subsets {
    async fn parents_of(&self, id: &Bson) -> Vec<Bson> {
        let own = self.parents.find_one(doc! { "_id": { "$eq": id } }).await.unwrap();
        let own = own.map(|_| id.clone());
        [Bson::from(PARENT)].into_iter().chain(own).collect()
    }
}

impl Values for Subsets {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        let products = subset::ready(db, subset::builder(db.database())).await;
        subset::add_product(db, PARENT).await;
        Self {
            products,
            parents: subset::product(db),
        }
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        // Not an operator, which the server refuses.
        let _ = self.parents.insert_one(doc! { "_id": id }).await;
        for parent in self.parents_of(id).await {
            let child = doc! { "product_id": &parent, "review_id": id, "published_date": subset::day(1) };
            let child = with(child, fields);
            self.products.insert(&child).await.unwrap();
            assert!(self.products.delete(parent.clone(), id.clone()).await.unwrap().found);
            self.products.insert_many(std::slice::from_ref(&child)).await.unwrap();
            self.products.replace(&child).await.unwrap();
            self.products.update(parent, id.clone(), set(fields)).await.unwrap();
        }
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let mut read = Vec::new();
        for parent in self.parents_of(id).await {
            read.extend(self.products.child(parent.clone(), id.clone()).await.unwrap());
            let page = self.products.children(parent.clone()).limit(1000).page().await.unwrap();
            let page = doc! { "children": page.items };
            read.extend(of_array(&page, "children", "review_id", id));
            let parent = self.products.get(parent).await.unwrap().unwrap();
            read.extend(of_array(&parent, "reviews", "review_id", id));
        }
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        let mut found = false;
        for parent in self.parents_of(id).await {
            found = self.products.delete(parent, id.clone()).await.unwrap().found;
        }
        found
    }

    async fn findings(&self) -> usize {
        let found: Vec<_> = self.products.verify().stream().try_collect().await.unwrap();
        assert_eq!(self.products.refresh_all().await.unwrap().rebuilt_individually, 0);
        found.len()
    }
}

/// Embedded children.
pub(super) struct Embedded(embedded::Patrons);

const JOE: &str = "$joe";

impl Values for Embedded {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        embedded::plant(db, &embedded::patron(JOE, [])).await;
        Self(embedded::builder(db).max_children(1000).build().unwrap())
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let child = with(doc! { "id": id }, fields);
        self.0.add_child(JOE, &child).await.unwrap();
        self.0.replace_child(JOE, &child).await.unwrap();
        assert!(!self.0.upsert_child(JOE, &child).await.unwrap().inserted);
        self.0.update_child(JOE, id.clone(), set(fields)).await.unwrap();
        let parent = self.0.get(JOE).await.unwrap().unwrap();
        let children = parent.get_array("addresses").unwrap().iter().rev();
        let reversed = children.map(|child| child.as_document().unwrap().get("id").unwrap().clone());
        self.0.reorder_children(JOE, reversed).await.unwrap();
        // The server refuses an operator as an `_id`.
        let has_operator = |id: &Document| id.keys().any(|name| name.starts_with('$'));
        if !id.as_document().is_some_and(has_operator) {
            let parent = embedded::patron(id.clone(), [child]);
            self.0.insert(&with(parent, fields)).await.unwrap();
            self.0.update_child(id.clone(), id.clone(), set(fields)).await.unwrap();
        }
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let mut read: Vec<Document> = self.0.child(JOE, id.clone()).await.unwrap().into_iter().collect();
        let parent = self.0.get(JOE).await.unwrap().unwrap();
        read.extend(of_array(&parent, "addresses", "id", id));
        if let Some(parent) = self.0.get(id.clone()).await.unwrap().filter(|_| !read.is_empty()) {
            read.extend(of_array(&parent, "addresses", "id", id));
            read.push(parent);
        }
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.remove_child(JOE, id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        self.0.verify().stream().try_collect::<Vec<_>>().await.unwrap().len()
    }
}

/// Histories.
pub(super) struct Histories(history::Policies);

impl Values for Histories {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        Self(history::policies(db).await)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let document = with(doc! { "policyId": id }, fields);
        self.0.insert(&document).await.unwrap();
        self.0.delete(id.clone()).await.unwrap();
        self.0.insert_many(std::slice::from_ref(&document)).await.unwrap();
        self.0.replace(id.clone(), &document).await.unwrap();
        self.0.upsert(&document).await.unwrap();
        self.0.update(id.clone(), set(fields)).await.unwrap();
        assert_eq!(self.0.restore(id.clone(), 1).await.unwrap().revision, 7);
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let Some(now) = self.0.get(id.clone()).await.unwrap() else {
            return Vec::new();
        };
        let last = self.0.as_of(id.clone(), DateTime::MAX).await.unwrap().unwrap();
        let page = self.0.revisions(id.clone()).page().await.unwrap().items;
        assert_eq!(page.len(), 7, "{id}");
        let revisions = page.into_iter().filter_map(|revision| revision.document);
        revisions.chain([now.document, last.document.unwrap()]).collect()
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.delete(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        history::findings(&self.0).await.len()
    }
}

/// Intervals.
pub(super) struct Intervals(intervals::Prices);

impl Values for Intervals {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        Self(intervals::prices(db).await)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let document = with(doc! { "item": id }, fields);
        self.0.insert(&document).await.unwrap();
        self.0.replace(id.clone(), &document).await.unwrap();
        self.0.update(id.clone(), set(fields)).await.unwrap();
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let now = self.0.get(id.clone()).await.unwrap();
        let last = self.0.as_of(id.clone(), DateTime::now()).await.unwrap();
        let read = now.into_iter().chain(last);
        read.map(|interval| interval.document).collect()
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.end(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        intervals::findings(&self.0).await.len()
    }
}

/// Orders with a copy of fields of their customer, who has the same id.
pub(super) struct Orders {
    orders: reference::Orders,
    customers: Collection<Document>,
}

impl Values for Orders {
    const OPERATORS: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        Self {
            orders: reference::orders(db).await,
            customers: reference::customers(db),
        }
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let customer = doc! { "_id": id, "name": fields };
        self.customers.insert_one(customer).await.unwrap();
        let order = with(doc! { "_id": id, "customer": { "_id": id } }, fields);
        self.orders.insert(&order).await.unwrap();
        for name in [doc! { "other": "$name" }, fields.clone()] {
            let update = doc! { "$set": { "name": name } };
            let updated = self.orders.update_source(id.clone(), update).await.unwrap();
            assert_eq!(updated.copies, 1, "{id}");
        }
        assert!(self.orders.clear_reference(id.clone()).await.unwrap().modified);
        let set = self.orders.set_reference(id.clone(), id.clone()).await.unwrap();
        assert!(set.modified);
        assert_eq!(self.orders.refresh_copies(id.clone()).await.unwrap().copies, 1);
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let order = self.orders.get(id.clone()).await.unwrap();
        let current = self.orders.get(id.clone()).max_staleness(0).await.unwrap();
        let mut read: Vec<Document> = order.into_iter().chain(current).collect();
        read.retain(|order| order.get("customer").is_some_and(|customer| *customer != Bson::Null));
        for order in &mut read {
            let copy = order.get_document("customer").unwrap();
            let name = copy.get("name").cloned();
            order.insert("v", name);
        }
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        if self.orders.get(id.clone()).await.unwrap().is_some() {
            let refused = self.orders.delete_source(id.clone()).await;
            assert!(refused.is_err(), "{id} is referenced");
            self.orders.clear_reference(id.clone()).await.unwrap();
        }
        self.orders.delete_source(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        reference::findings(&self.orders).await.len()
    }
}

/// Documents of several versions.
pub(super) struct Contacts(SchemaRepository<Document>);

impl Values for Contacts {
    const OPERATORS: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        let contacts = schema::contacts::typed(db);
        contacts.ensure_indexes().await.unwrap();
        Self(contacts)
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let document = with(doc! { "_id": id }, fields);
        self.0.insert(&document).await.unwrap();
        assert!(self.0.delete(id.clone()).await.unwrap().found);
        self.0.insert_many(std::slice::from_ref(&document)).await.unwrap();
        self.0.replace(id.clone(), &document).await.unwrap();
        self.0.update(id.clone(), set(fields)).await.unwrap();
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let found = self.0.find(doc! { "_id": { "$eq": id } }).await.unwrap();
        let document = self.0.get(id.clone()).await.unwrap();
        document.into_iter().chain(found).collect()
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.delete(id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        self.0.verify().stream().try_collect::<Vec<_>>().await.unwrap().len()
    }
}
