//! Items.

use futures::TryStreamExt;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use super::model::{Values, set, with};
use support::common::{SECOND, at};

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
        matches!(
            value,
            Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::ObjectId(_)
        )
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
