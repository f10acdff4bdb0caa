//! Embedded children.

use futures::TryStreamExt;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Values, of_array, set, with};
use support::embedded::{Patrons, builder, patron, plant};

pub(super) struct Children(Patrons);

const PARENT: &str = "$joe";

impl Values for Children {
    const OPERATORS: bool = true;

    async fn new(db: &TestDatabase) -> Self {
        plant(db, &patron(PARENT, [])).await;
        Self(builder(db).max_children(1000).build().unwrap())
    }

    async fn put(&self, id: &Bson, fields: &Document) {
        let child = with(doc! { "id": id }, fields);
        self.0.add_child(PARENT, &child).await.unwrap();
        self.0.replace_child(PARENT, &child).await.unwrap();
        assert!(!self.0.upsert_child(PARENT, &child).await.unwrap().inserted);
        self.0.update_child(PARENT, id.clone(), set(fields)).await.unwrap();
        let parent = self.0.get(PARENT).await.unwrap().unwrap();
        let children = parent.get_array("addresses").unwrap().iter().rev();
        let reversed = children.map(|child| child.as_document().unwrap().get("id").unwrap().clone());
        self.0.reorder_children(PARENT, reversed).await.unwrap();
        // The server refuses an operator as an `_id`.
        let is_operator = id
            .as_document()
            .is_some_and(|id| id.keys().any(|name| name.starts_with('$')));
        if !is_operator {
            let parent = patron(id.clone(), [child]);
            self.0.insert(&with(parent, fields)).await.unwrap();
            self.0.update_child(id.clone(), id.clone(), set(fields)).await.unwrap();
        }
    }

    async fn read(&self, id: &Bson) -> Vec<Document> {
        let mut read: Vec<Document> = self.0.child(PARENT, id.clone()).await.unwrap().into_iter().collect();
        let parent = self.0.get(PARENT).await.unwrap().unwrap();
        read.extend(of_array(&parent, "addresses", "id", id));
        if let Some(parent) = self.0.get(id.clone()).await.unwrap().filter(|_| !read.is_empty()) {
            read.extend(of_array(&parent, "addresses", "id", id));
            read.push(parent);
        }
        read
    }

    async fn remove(&self, id: &Bson) -> bool {
        self.0.remove_child(PARENT, id.clone()).await.unwrap().found
    }

    async fn findings(&self) -> usize {
        self.0.verify().stream().try_collect::<Vec<_>>().await.unwrap().len()
    }
}
