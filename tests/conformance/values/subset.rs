//! Children, and the subset in their parent.

use futures::TryStreamExt;
use mongo_patterns::subset::SubsetRepository;
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Values, of_array, set, with};
use support::subset::{add_product, builder, day, product, ready};

pub(super) struct Children {
    products: SubsetRepository<Document, Document>,
    parents: Collection<Document>,
}

/// The parent of all children. Each child whose id can be an `_id` has a parent with this id too.
const PARENT: &str = "$parent";

impl Children {
    async fn parents_of(&self, id: &Bson) -> Vec<Bson> {
        let own = self.parents.find_one(doc! { "_id": { "$eq": id } }).await.unwrap();
        let own = own.map(|_| id.clone());
        [Bson::from(PARENT)].into_iter().chain(own).collect()
    }
}

impl Values for Children {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        let products = ready(db, builder(db.database())).await;
        add_product(db, PARENT).await;
        Self {
            products,
            parents: product(db),
        }
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        // Not an operator, which the server refuses.
        let _ = self.parents.insert_one(doc! { "_id": id }).await;
        for parent in self.parents_of(id).await {
            let child = with(
                doc! { "product_id": &parent, "review_id": id, "published_date": day(1) },
                fields,
            );
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
            let page = self.products.children(parent.clone()).limit(1000).await.unwrap();
            let page = doc! { "children": page.children };
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
        assert_eq!(self.products.rebuild_all().await.unwrap().rebuilt_individually, 0);
        found.len()
    }
}
