//! A trash that keeps the related documents of its documents: the overflow documents of lists, and the children of parents.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use mongo_patterns::ErrorKind::{self, AlreadyExists, NotFound, SettingsMismatch, TooLarge};
use mongo_patterns::archive::{Trash, TrashBuilder};
use mongo_patterns::{Deleted, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::repositories::{of, subset};
use support::archive::books::{Books, HOT, book, books_in};
use support::archive::sales::old;
use support::archive::users::MONTH;
use support::common::{all, assert_names, contents, patient};

pub(super) fn builder(db: &TestDatabase) -> TrashBuilder<Document> {
    let trash = Trash::builder(of(db, HOT[0]), of(db, "deleted_sales"));
    trash.related(of(db, HOT[1]), "book_id").retry(patient())
}

/// Returns the lists and their trash, with indexes.
pub(super) async fn shop(db: &TestDatabase) -> (Books, Trash<Document>) {
    let (books, trash) = (books_in(db.database(), HOT), builder(db).build().unwrap());
    books.ensure_indexes().await.unwrap();
    trash.ensure_indexes().await.unwrap();
    db.recorder().clear();
    (books, trash)
}

pub(super) fn entries(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("deleted_sales")
}

/// Returns a book whose customers have names of a generation.
fn book_of(generation: i32, customers: usize) -> Document {
    let mut book = book(1, 0, 0);
    let customers: Vec<String> = (0..customers).map(|number| format!("{generation}-{number}")).collect();
    book.insert("customers", customers);
    book
}

async fn elements(books: &Books) -> Vec<String> {
    books.elements(1).await.unwrap()
}

/// Asserts that no list has a problem, that each entry of a related document belongs to one of a document, which counts them,
/// and returns the number of the documents in the trash.
pub(super) async fn assert_whole(db: &TestDatabase, books: &Books) -> usize {
    let found: Vec<_> = books.verify().stream().try_collect().await.unwrap();
    assert!(found.is_empty(), "{found:?}");
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let (related, own): (Vec<_>, Vec<_>) = all(&entries(db))
        .await
        .into_iter()
        .partition(|one| one.contains_key("of"));
    for entry in &related {
        *counts.entry(entry.get("of").unwrap().to_string()).or_default() += 1;
        assert_eq!(entry.get_str("collection").unwrap(), HOT[1]);
        assert!(!entry.contains_key("database") && !entry.contains_key("deletedBy"));
    }
    for entry in &own {
        let id = entry.get("_id").unwrap().to_string();
        assert_eq!(
            entry.get_i64("related").unwrap(),
            counts.remove(&id).unwrap_or_default()
        );
        let times = related.iter().filter(|one| one.get("of") == entry.get("_id"));
        for field in ["deletedAt", "expiresAt"] {
            assert!(times.clone().all(|one| one.get(field) == entry.get(field)), "{field}");
        }
    }
    assert!(counts.is_empty(), "{counts:?}");
    own.len()
}

#[tokio::test]
async fn a_list_is_deleted_and_restored_as_a_whole() {
    testkit::run(async |db| {
        let (books, trash) = shop(db).await;
        books.insert(&book_of(0, 9)).await.unwrap();
        let before = elements(&books).await;
        db.recorder().clear();
        assert_eq!(trash.delete(1).by("ann").await.unwrap(), Deleted::new(4));
        let names = db.recorder().names().join(" ");
        let checked = "listIndexes listIndexes ";
        let sent = "findAndModify aggregate find delete insert commitTransaction";
        // The trash knows its indexes from ensure_indexes.
        assert_eq!(names.strip_prefix(checked).unwrap_or(&names), sent);
        assert_eq!(all(&db.plain_collection(HOT[1])).await, []);
        assert_eq!(assert_whole(db, &books).await, 1);
        let listed = trash.list().page().await.unwrap().items;
        assert_eq!((listed.len(), listed[0].deleted_by.clone()), (1, Some("ann".into())));

        db.recorder().clear();
        assert!(!trash.restore(1).await.unwrap().already_there);
        let sent = "find find delete insert delete insert commitTransaction";
        assert_eq!(db.recorder().names().join(" "), sent);
        assert_eq!(elements(&books).await, before);
        assert_eq!(all(&entries(db)).await, []);
        assert!(trash.restore(1).await.unwrap().already_there);
        books.push(1, "more").await.unwrap();
        assert_eq!(assert_whole(db, &books).await, 0);

        // One without related documents takes one command less each.
        books.delete(1).await.unwrap();
        books.insert(&book_of(1, 2)).await.unwrap();
        db.recorder().clear();
        assert_eq!(trash.delete(1).await.unwrap(), Deleted::new(1));
        assert_eq!(trash.delete(1).await.unwrap(), Deleted::new(0));
        trash.restore(1).await.unwrap();
        let sent = "findAndModify aggregate insert commitTransaction findAndModify find commitTransaction \
            find delete insert commitTransaction";
        assert_eq!(db.recorder().names().join(" "), sent);
    })
    .await;
}

/// A new document with the `_id` of a deleted list has none of its elements, whatever a process knows of the old one, and each
/// deletion keeps its own.
#[tokio::test]
async fn an_id_that_is_deleted_twice_keeps_its_lists_apart() {
    testkit::run(async |db| {
        let (books, trash) = shop(db).await;
        let knowing = books_in(&db.plain_client().database(db.database().name()), HOT);
        for (generation, customers) in [(0, 9), (1, 7), (2, 8)] {
            books.insert(&book_of(generation, 2)).await.unwrap();
            for number in 2..customers {
                knowing.push(1, &format!("{generation}-{number}")).await.unwrap();
            }
            assert_eq!(elements(&books).await.len(), customers, "{generation}");
            if generation < 2 {
                trash.delete(1).await.unwrap();
                assert_eq!(knowing.push(1, "late").await.unwrap_err().kind(), NotFound);
            }
        }
        let listed = |generation: i32, customers: i32| -> Vec<String> {
            (0..customers).map(|number| format!("{generation}-{number}")).collect()
        };
        assert_eq!(elements(&books).await, listed(2, 8));
        let before = contents(db).await;
        assert_names(&trash.restore(1).await.unwrap_err(), AlreadyExists, 1);
        assert_eq!(contents(db).await, before);
        books.delete(1).await.unwrap();
        trash.restore(1).await.unwrap();
        assert_eq!(elements(&books).await, listed(1, 7));
        knowing.push(1, "more").await.unwrap();
        assert_eq!(elements(&books).await.len(), 8);
        books.delete(1).await.unwrap();
        trash.restore(1).await.unwrap();
        assert_eq!(elements(&books).await, listed(0, 9));
        assert_eq!(assert_whole(db, &books).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_parent_is_deleted_and_restored_with_its_children() {
    testkit::run(async |db| {
        let orders = subset(db, "notes").total_field("note_count").build().unwrap();
        let trash = Trash::<Document>::builder(of(db, "orders"), of(db, "deleted_orders"));
        let trash = trash.related(of(db, "notes"), "order").build().unwrap();
        orders.ensure_indexes().await.unwrap();
        trash.ensure_indexes().await.unwrap();
        for id in 1..=2 {
            of(db, "orders").insert_one(doc! { "_id": id }).await.unwrap();
        }
        let note = |order: i32, id: i32| doc! { "order": order, "id": id, "at": DateTime::from_millis(id.into()) };
        for id in 0..5 {
            orders.insert(&note(1, id)).await.unwrap();
            orders.insert(&note(2, id)).await.unwrap();
        }
        let stored = async || [all(&of(db, "orders")).await, all(&of(db, "notes")).await];
        let before = stored().await;
        assert_eq!(trash.delete(1).await.unwrap().documents, 6);
        let late = orders.insert(&note(1, 7)).await.unwrap_err();
        assert_eq!(late.kind(), NotFound, "{late}");
        assert_eq!(all(&of(db, "notes")).await.len(), 5);
        trash.restore(1).await.unwrap();
        let by_text = |mut documents: Vec<Document>| {
            documents.sort_by_key(ToString::to_string);
            documents
        };
        assert_eq!(stored().await.map(by_text), before.map(by_text));
        orders.insert(&note(1, 7)).await.unwrap();
        let parent = all(&of(db, "orders")).await.remove(0);
        assert_eq!(support::common::integer(parent.get("note_count").unwrap()), 6);
        let found: Vec<_> = orders.verify().stream().try_collect().await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    })
    .await;
}

/// Also in a transaction that the caller commits after the error.
#[tokio::test]
async fn a_related_document_whose_entry_would_be_too_large_stays() {
    testkit::run(async |db| {
        let (books, trash) = shop(db).await;
        let extra = db.plain_collection::<Document>(HOT[1]);
        let plant = async |bytes: usize| {
            let text = vec!["x".repeat(bytes)];
            let document = doc! { "_id": "large", "book_id": 1, "seq": 0, "count": 1, "customers_extra": text };
            let size = mongodb::bson::serialize_to_vec(&document).unwrap().len();
            extra.insert_one(document).await.unwrap();
            size
        };
        let mut main = book_of(0, 2);
        main.insert("has_extras", true);
        db.plain_collection::<Document>(HOT[0]).insert_one(main).await.unwrap();
        let own = plant(0).await;
        extra.delete_many(doc! {}).await.unwrap();
        plant((16 << 20) - own).await;
        let before = contents(db).await;
        assert_names(&trash.delete(1).await.unwrap_err(), TooLarge, "large");
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let refused = trash.delete(1).session(&mut session).await.unwrap_err();
        assert_names(&refused, TooLarge, "large");
        assert_eq!(refused.document_namespace().unwrap().coll, HOT[1]);
        session.commit_transaction().await.unwrap();
        assert_eq!(contents(db).await, before);
        // The fields of an entry take some bytes.
        extra.delete_many(doc! {}).await.unwrap();
        plant((16 << 20) - own - 200).await;
        assert_eq!(trash.delete(1).await.unwrap().documents, 2);
        trash.restore(1).await.unwrap();
        assert_eq!(assert_whole(db, &books).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_whole_is_a_part_of_the_callers_transaction() {
    testkit::run(async |db| {
        let (books, trash) = shop(db).await;
        books.insert(&book_of(0, 9)).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            for _ in 0..2 {
                let deleted = trash.delete(1).session(&mut session).await.unwrap();
                assert_eq!(deleted.documents, 4);
                trash.restore(1).session(&mut session).await.unwrap();
            }
            trash.delete(1).session(&mut session).await.unwrap();
            books.insert(&book_of(1, 7)).session(&mut session).await.unwrap();
            trash.delete(1).session(&mut session).await.unwrap();
            trash.restore(1).session(&mut session).await.unwrap();
            match commits {
                true => session.commit_transaction().await.unwrap(),
                false => session.abort_transaction().await.unwrap(),
            }
            let first = elements(&books).await.remove(0);
            assert_eq!(first, if commits { "1-0" } else { "0-0" });
            assert_eq!(assert_whole(db, &books).await, usize::from(commits));
        }
    })
    .await;
}

/// The server deletes expired entries one by one, and `delete_before` by two commands for each chunk.
#[tokio::test]
async fn a_part_of_a_list_is_never_restored() {
    testkit::run(async |db| {
        let books = books_in(db.database(), HOT);
        let trash = builder(db).expires_after(MONTH).build().unwrap();
        books.ensure_indexes().await.unwrap();
        trash.ensure_indexes().await.unwrap();
        books.insert(&book_of(0, 9)).await.unwrap();
        trash.delete(1).await.unwrap();
        assert_eq!(assert_whole(db, &books).await, 1);
        let expire = all(&entries(db))
            .await
            .into_iter()
            .map(|one| one.get_datetime("expiresAt").copied());
        let expire: Vec<_> = expire.collect::<Result<_, _>>().unwrap();
        assert!(expire.len() == 4 && expire.iter().all(|time| *time == expire[0]));
        let indexes = entries(db).list_index_names().await.unwrap();
        assert!(
            ["expiresAt_1", "of_1"]
                .iter()
                .all(|name| indexes.contains(&(*name).to_owned())),
            "{indexes:?}"
        );
        let of_list = doc! { "of": { "$exists": true } };
        let expired = entries(db).find_one_and_delete(of_list).await.unwrap().unwrap();
        let before = contents(db).await;
        for _ in 0..2 {
            let refused = trash.restore(1).await.unwrap_err();
            assert_names(&refused, NotFound, 1);
            assert!(refused.to_string().contains("nothing was restored"), "{refused}");
        }
        assert_eq!(contents(db).await, before);
        entries(db).insert_one(expired).await.unwrap();
        trash.restore(1).await.unwrap();
        assert_eq!(elements(&books).await.len(), 9);
    })
    .await;
}

#[tokio::test]
async fn old_lists_are_deleted_as_wholes_and_counted_once() {
    testkit::run(async |db| {
        let (books, trash) = shop(db).await;
        for (id, customers) in [(1, 9), (2, 2), (3, 6), (4, 12)] {
            books.insert(&book(id, 0, customers)).await.unwrap();
            trash.delete(id).await.unwrap();
        }
        let newest = trash.list().newest_first().limit(1).page().await.unwrap();
        let before = newest.items[0].deleted_at;
        let numbers = async || all(&entries(db)).await.len();
        assert_eq!(numbers().await, 4 + 3 + 2 + 4);
        let plan = trash.delete_before(before).chunk(2).plan().await.unwrap();
        assert_eq!(plan.migrated.documents, 3);
        let progress = std::sync::Mutex::new(Vec::new());
        let deletion = trash.delete_before(before).chunk(2);
        let deletion = deletion.on_progress(|made| progress.lock().unwrap().push(made.done));
        assert_eq!(deletion.await.unwrap().documents, 3);
        assert_eq!(*progress.lock().unwrap(), [2, 3]);
        assert_eq!(numbers().await, 1 + 4);
        assert_eq!(assert_whole(db, &books).await, 1);
        trash.restore(4).await.unwrap();
        assert_eq!(books.elements(4).await.unwrap().len(), 12);
    })
    .await;
}

#[tokio::test]
async fn other_related_collections_are_refused() {
    testkit::run(async |db| {
        let of_name = |name: &str| Trash::<Document>::builder(of(db, "a"), of(db, "b")).related(of(db, name), "parent");
        for wrong in [
            of_name("a"),
            of_name("b"),
            of_name("c").related(of(db, "c"), "other"),
            of_name("c").related(of(db, "d"), "_id"),
            of_name("c").related(of(db, "d"), "a.b"),
        ] {
            assert_eq!(wrong.build().unwrap_err().kind(), ErrorKind::Configuration);
        }
        let (books, trash) = shop(db).await;
        books.insert(&book_of(0, 9)).await.unwrap();
        trash.delete(1).await.unwrap();
        let entry = all(&db.plain_collection("mongo_patterns")).await.into_iter();
        let mut entry = entry.map(|entry| entry.get_document("settings").unwrap().clone());
        let settings = entry
            .find(|settings| settings.contains_key("trash_collection"))
            .unwrap();
        let namespace = format!("{}.{}", db.database().name(), HOT[1]);
        assert_eq!(
            settings.get_array("related").unwrap(),
            &[Bson::from(doc! { "collection": namespace, "field": "book_id" })]
        );
        // Entries that were stored with other settings.
        let without = Trash::<Document>::builder(of(db, HOT[0]), of(db, "deleted_sales"))
            .build()
            .unwrap();
        let other = Trash::<Document>::builder(of(db, HOT[0]), of(db, "deleted_sales"));
        let other = other.related(of(db, "more"), "book_id").build().unwrap();
        let before = all(&entries(db)).await;
        for wrong in [&without, &other] {
            assert_eq!(wrong.ensure_indexes().await.unwrap_err().kind(), SettingsMismatch);
            assert_eq!(wrong.delete_before(old(0)).await.unwrap_err().kind(), SettingsMismatch);
            let more = db.plain_collection::<Document>("more");
            let index = mongodb::IndexModel::builder().keys(doc! { "book_id": 1 }).build();
            more.create_index(index).await.unwrap();
            let refused = wrong.restore(1).await.unwrap_err();
            assert_eq!(refused.kind(), SettingsMismatch, "{refused}");
            assert!(refused.to_string().contains("related(..)"), "{refused}");
        }
        let listed = without.list().page().await.unwrap_err();
        assert_eq!(listed.kind(), SettingsMismatch);
        assert_eq!(all(&entries(db)).await, before);
    })
    .await;
}

/// The related documents are in another database, which their entries name.
#[tokio::test]
async fn related_documents_of_another_database_are_restored() {
    testkit::run(async |db| {
        let elsewhere = db.client().database(&format!("{}_2", db.database().name()));
        let deleted = elsewhere.collection::<Document>("deleted");
        let trash = Trash::<Document>::builder(of(db, "orders"), deleted.clone());
        let trash = trash
            .related(of(db, "lines"), "order")
            .related(elsewhere.collection::<Document>("lines"), "order");
        let trash = trash.build().unwrap();
        trash.ensure_indexes().await.unwrap();
        of(db, "orders").insert_one(doc! { "_id": 1 }).await.unwrap();
        let lines = [of(db, "lines"), elsewhere.collection::<Document>("lines")];
        for (number, lines) in lines.iter().enumerate() {
            lines
                .insert_one(doc! { "_id": 1, "order": 1, "n": number as i32 })
                .await
                .unwrap();
            lines.insert_one(doc! { "_id": 2, "order": [1, 2] }).await.unwrap();
        }
        assert_eq!(trash.delete(1).await.unwrap().documents, 3);
        let found = all(&deleted).await.into_iter().filter(|one| one.contains_key("of"));
        let databases: Vec<_> = found
            .map(|one| one.get_str("database").ok().map(str::to_owned))
            .collect();
        assert_eq!(databases, [Some(db.database().name().to_owned()), None]);
        assert_eq!(all(&lines[0]).await.len(), 1);
        trash.restore(1).await.unwrap();
        for (number, lines) in lines.iter().enumerate() {
            let line = lines.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
            assert_eq!(line.get_i32("n").unwrap(), number as i32);
        }
        elsewhere.drop().await.unwrap();
    })
    .await;
}
