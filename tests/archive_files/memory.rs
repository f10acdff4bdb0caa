//! An archive in the memory of the process, as in the object store of a cloud.

use std::sync::Arc;

use futures::TryStreamExt;
use mongo_patterns::archive_files::object_store::memory::InMemory;
use mongo_patterns::archive_files::object_store::path::Path;
use mongo_patterns::archive_files::object_store::{ObjectStore, ObjectStoreExt};
use mongo_patterns::archive_files::{FileArchive, Problem};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use super::run::sales;
use support::archive::files::{plant, problems};
use support::archive::sales::{AGE, current, old};
use support::common::all;

async fn paths(store: &InMemory) -> Vec<Path> {
    let listed = store.list(None).map_ok(|file| file.location);
    listed.try_collect().await.unwrap()
}

#[tokio::test]
async fn documents_move_there_and_back_below_a_prefix() {
    testkit::run(async |db| {
        let store = Arc::new(InMemory::new());
        let sales_of = |prefix: &str| {
            let archive = FileArchive::<Document>::builder(current(db), store.clone(), prefix);
            archive.age_field("date").older_than(AGE).build().unwrap()
        };
        let archive = sales_of("shop/sales");
        archive.ensure_indexes().await.unwrap();
        plant(db, sales(0..6)).await;
        assert_eq!(archive.run().chunk(3).await.unwrap().documents, 6);
        let files = archive.files(..).await.unwrap();
        let expected: Vec<Path> = files
            .iter()
            .map(|file| Path::from(format!("shop/sales/{}", file.name)))
            .collect();
        assert_eq!(paths(&store).await, expected);
        assert_eq!(archive.read(&files[0].name).await.unwrap(), Vec::from_iter(sales(0..3)));
        assert_eq!(problems(&archive).await, []);
        // Files of others, below another prefix and below this one.
        for path in ["shop/sales_2/a", "shop/sales/notes/b"] {
            store.put(&Path::from(path), "text".into()).await.unwrap();
        }
        assert_eq!(problems(&archive).await, [("notes/b".to_owned(), Problem::Unknown)]);
        // An empty prefix is the whole store.
        assert_eq!(problems(&sales_of("")).await.len(), 6);

        assert_eq!(archive.restore_file(&files[0].name).await.unwrap().documents, 3);
        store.delete(&expected[1]).await.unwrap();
        let missing = archive.read(&files[1].name).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Corrupt);
        // A missing file is deleted already.
        assert_eq!(archive.delete_before(old(100)).await.unwrap().documents, 3);
        assert_eq!(paths(&store).await.len(), 2);
        assert_eq!(all(&current(db)).await.len(), 3);
        assert_eq!(
            current(db).count_documents(doc! { "_id": { "$lt": 3 } }).await.unwrap(),
            3
        );
    })
    .await;
}
