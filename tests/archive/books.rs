//! Outliers that move with their overflow documents.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::archive::{Archive, Problem};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::sales::*;
use support::archive::books::*;
use support::archive::sales::*;
use support::common::{all, assert_names, contents};

/// Returns the repositories and the archive.
pub(super) async fn shop(db: &TestDatabase) -> ([Books; 2], Archive<Document>) {
    let books = [HOT, COLD].map(|names| books_in(db.database(), names));
    for books in &books {
        books.ensure_indexes().await.unwrap();
    }
    for name in HOT.iter().chain(&COLD) {
        let stored = db.plain_collection::<Document>(name);
        stored.delete_many(doc! {}).await.unwrap();
    }
    let archive = wholes(builder(db), db.database()).build().unwrap();
    archive.ensure_indexes().await.unwrap();
    db.recorder().clear();
    (books, archive)
}

async fn elements(books: &Books, id: i32) -> Vec<String> {
    books.elements(id).await.unwrap()
}

pub(super) async fn problems(archive: &Archive<Document>) -> Vec<(String, Bson, Problem)> {
    let found: Vec<_> = archive.verify().stream().try_collect().await.unwrap();
    let found = found.into_iter();
    found
        .map(|one| (one.namespace.coll, one.document_id, one.problem))
        .collect()
}

/// Asserts that each list is whole, in one of the two.
pub(super) async fn assert_whole([hot, cold]: &[Books; 2], archive: &Archive<Document>) {
    for books in [hot, cold] {
        let found: Vec<_> = books.verify().stream().try_collect().await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
    assert_eq!(problems(archive).await, []);
}

#[tokio::test]
async fn an_outlier_moves_there_and_back_with_its_bytes() {
    testkit::run(async |db| {
        let (books, archive) = shop(db).await;
        let [hot, cold] = &books;
        for (id, customers) in [(1, 1), (2, 9), (3, 6)] {
            hot.insert(&book(id, id.into(), customers)).await.unwrap();
        }
        let mut permanent = book(4, 0, 4);
        permanent.insert("date", new(0));
        hot.insert(&permanent).await.unwrap();
        let before = contents(db).await;
        let lists = [elements(hot, 2).await, elements(hot, 3).await];
        let planned = archive.run().plan().await.unwrap().migrated;
        db.recorder().clear();
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.related, moved.oldest), (3, 3 + 2, Some(old(1))));
        assert_eq!(planned, moved);
        let names = db.recorder().names();
        let chunk = "find aggregate find delete delete insert insert commitTransaction";
        assert_eq!(names[6..].join(" "), chunk);
        assert_eq!(hot.collection().count_documents(doc! {}).await.unwrap(), 1);
        assert_eq!([elements(cold, 2).await, elements(cold, 3).await], lists);
        assert_whole(&books, &archive).await;

        assert!(!archive.restore(2).await.unwrap().already_there);
        assert_eq!(elements(hot, 2).await, lists[0]);
        assert!(cold.get(2).await.unwrap().is_none());
        assert_whole(&books, &archive).await;
        let restored = archive.restore_many(doc! {}).await.unwrap();
        assert_eq!((restored.documents, restored.related), (2, 2));
        let is_kept = |(name, _): &(String, Vec<Document>)| name != "mongo_patterns";
        let sorted = |contents: Vec<(String, Vec<Document>)>| {
            let mut contents: Vec<_> = contents.into_iter().filter(is_kept).collect();
            for (_, documents) in &mut contents {
                documents.sort_by_key(ToString::to_string);
            }
            contents
        };
        assert_eq!(sorted(contents(db).await), sorted(before));
        hot.push(2, "another").await.unwrap();

        archive.run().await.unwrap();
        let planned = archive.delete_before(old(3)).plan().await.unwrap();
        assert_eq!(planned.migrated.documents, 2);
        assert_eq!(archive.delete_before(old(3)).await.unwrap().documents, 2);
        let left = all(&db.plain_collection(COLD[1])).await;
        assert!(left.iter().all(|one| one.get_i32("book_id").unwrap() == 3), "{left:?}");
        assert_eq!(elements(cold, 3).await, lists[1]);
        assert_whole(&books, &archive).await;
    })
    .await;
}

/// Another process pushes to an outlier that it knows, which writes only the overflow document; or opens another one. Both after
/// the chunk has read the list.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_push_between_the_read_and_the_deletion_is_archived() {
    testkit::run(async |db| {
        // The newest overflow document has room, or is full.
        for customers in [4, 5] {
            let (books, archive) = shop(db).await;
            let other = books_in(&db.plain_client().database(db.database().name()), HOT);
            other.insert(&book(1, 0, customers)).await.unwrap();
            let deletes = ("delete", Duration::from_millis(500));
            let (moved, pushed) = beside_blocked(db, deletes, archive.run(), other.push(1, "late").into_future()).await;
            pushed.unwrap();
            assert_eq!(moved.unwrap().documents, 1);
            let list = elements(&books[1], 1).await;
            assert_eq!((list.len(), list.last().unwrap().as_str()), (customers + 1, "late"));
            assert_eq!(other.push(1, "later").await.unwrap_err().kind(), ErrorKind::NotFound);
            assert!(all(&db.plain_collection(HOT[1])).await.is_empty());
            assert_whole(&books, &archive).await;
        }
    })
    .await;
}

/// A document of the other collection without that to which it belongs, and the other way round.
#[tokio::test]
async fn a_related_document_without_its_document_is_found() {
    testkit::run(async |db| {
        let ([hot, _], archive) = shop(db).await;
        for id in 1..=3 {
            hot.insert(&book(id, 0, 4)).await.unwrap();
        }
        archive.run().await.unwrap();
        archive.restore(3).await.unwrap();
        let related =
            |id: &str, book: Bson| doc! { "_id": id, "book_id": book, "seq": i32::from(id.as_bytes()[0]), "count": 0 };
        let strays = |ids: &[&str]| -> Vec<Document> { ids.iter().map(|id| related(id, Bson::Int32(2))).collect() };
        let hot_extra = db.plain_collection::<Document>(HOT[1]);
        hot_extra.insert_many(strays(&["a"])).await.unwrap();
        // An equal number of another type, of several books, and of none.
        let others = [
            related("b", 1.0.into()),
            related("c", vec![1, 2].into()),
            related("d", 70.into()),
        ];
        hot_extra.insert_many(others).await.unwrap();
        let cold_extra = db.plain_collection::<Document>(COLD[1]);
        cold_extra.insert_one(related("e", 3.into())).await.unwrap();
        let of = |name: &str, id: &str| (name.to_owned(), Bson::from(id), Problem::Elsewhere);
        let mut found = problems(&archive).await;
        found.sort_by_key(|(_, id, _)| id.to_string());
        assert_eq!(found, [of(HOT[1], "a"), of(HOT[1], "b"), of(COLD[1], "e")]);
        // A restore makes the list whole again.
        archive.restore(2).await.unwrap();
        let found = problems(&archive).await;
        assert!(!found.contains(&of(HOT[1], "a")), "{found:?}");
    })
    .await;
}

/// A book was inserted again, or the archive has overflow documents of it.
#[tokio::test]
async fn a_conflict_stays_as_a_whole_unless_it_replaces() {
    testkit::run(async |db| {
        let (books, archive) = shop(db).await;
        let [hot, cold] = &books;
        for id in 1..=4 {
            hot.insert(&book(id, 0, 4)).await.unwrap();
        }
        cold.insert(&book(2, 1, 9)).await.unwrap();
        let orphan = doc! { "_id": "orphan", "book_id": 3, "seq": 0, "count": 0, "customers_extra": [] };
        let cold_extra = db.plain_collection::<Document>(COLD[1]);
        cold_extra.insert_one(orphan).await.unwrap();
        let planned = archive.run().plan().await.unwrap().migrated;
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.related, moved.conflicts), (2, 2, 2));
        assert_eq!(planned, moved);
        assert_eq!((elements(hot, 2).await.len(), elements(cold, 2).await.len()), (4, 9));
        let moved = archive.run().replace_archived().await.unwrap();
        assert_eq!((moved.documents, moved.related, moved.conflicts), (2, 2, 0));
        for id in 1..=4 {
            assert_eq!(elements(cold, id).await.len(), 4);
        }
        assert_eq!(cold_extra.count_documents(doc! {}).await.unwrap(), 4);
        assert_whole(&books, &archive).await;
    })
    .await;
}

/// Too many for a chunk, which is halved, and too many for a transaction.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn wholes_of_any_size_move_or_are_counted() {
    testkit::run(async |db| {
        let (books, archive) = shop(db).await;
        let [hot, _] = &books;
        let extra = db.plain_collection::<Document>(HOT[1]);
        let of = |book: i32, seq: i32, bytes: usize| {
            doc! { "book_id": book, "seq": seq, "count": 1, "customers_extra": ["x".repeat(bytes)] }
        };
        let mut outlier = book(0, 0, 2);
        outlier.insert("has_extras", true);
        let plant = async |id: i32, documents: i32, bytes: usize| {
            let mut main = outlier.clone();
            main.insert("_id", id);
            db.plain_collection(HOT[0]).insert_one(main).await.unwrap();
            for seq in 0..documents {
                extra.insert_one(of(id, seq, bytes)).await.unwrap();
            }
        };
        for id in 0..20 {
            plant(id, 2, 1 << 20).await;
        }
        plant(20, 3, 15 << 20).await;
        plant(21, 2, 15 << 20).await;
        let moved = archive.run().await.unwrap();
        let counts = (moved.documents, moved.related, moved.too_large);
        assert_eq!(counts, (21, 42, 1), "{moved:?}");
        assert_eq!(elements(hot, 20).await.len(), 5);
        // It has grown in the archive.
        archive.restore(21).await.unwrap();
        archive.run().await.unwrap();
        let grown = of(21, 2, 15 << 20);
        db.plain_collection(COLD[1]).insert_one(grown).await.unwrap();
        assert_names(&archive.restore(21).await.unwrap_err(), ErrorKind::TooLarge, 21);
        assert_eq!(archive.restore_many(doc! { "_id": 21 }).await.unwrap().too_large, 1);
        assert_whole(&books, &archive).await;
    })
    .await;
}

#[tokio::test]
async fn a_restore_of_a_whole_is_a_part_of_the_callers_transaction() {
    testkit::run(async |db| {
        let (books, archive) = shop(db).await;
        books[0].insert(&book(1, 0, 6)).await.unwrap();
        archive.run().await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            archive.restore(1).session(&mut session).await.unwrap();
            books[0].push(1, "more").session(&mut session).await.unwrap();
            match commits {
                true => session.commit_transaction().await.unwrap(),
                false => session.abort_transaction().await.unwrap(),
            }
            assert_eq!(books[0].get(1).await.unwrap().is_some(), commits);
        }
        assert_eq!(elements(&books[0], 1).await.len(), 7);
        assert_whole(&books, &archive).await;
    })
    .await;
}

/// The indexes of the pattern serve. Without it, the archive creates its own.
#[tokio::test]
async fn the_indexes_and_the_settings_are_those_of_the_wholes() {
    testkit::run(async |db| {
        let archive = wholes(builder(db), db.database()).build().unwrap();
        let created = archive.ensure_indexes().await.unwrap().created;
        let of_books = created.iter().filter(|name| *name == "book_id_1");
        assert_eq!(of_books.count(), 2, "{created:?}");
        for name in [HOT[1], COLD[1]] {
            db.plain_collection::<Document>(name).drop_indexes().await.unwrap();
        }
        assert_eq!(archive.run().await.unwrap_err().kind(), ErrorKind::IndexMissing);
        for names in [HOT, COLD] {
            books_in(db.database(), names).ensure_indexes().await.unwrap();
        }
        let ensured = archive.ensure_indexes().await.unwrap();
        assert!(ensured.created.is_empty() && ensured.existing.contains(&"book_id_1_seq_1".to_owned()));
        archive.run().await.unwrap();
        // Another process does not leave the overflow documents behind.
        let without = builder(db).build().unwrap();
        assert_eq!(without.run().await.unwrap_err().kind(), ErrorKind::SettingsMismatch);
        let collection = |name| db.collection::<Document>(name);
        for wrong in [
            builder(db).related(collection("a"), collection("a"), "book_id"),
            builder(db).related(collection("sales"), collection("a"), "book_id"),
            builder(db).related(collection("a"), collection("archived_sales"), "book_id"),
            wholes(wholes(builder(db), db.database()), db.database()),
            builder(db).related(collection("a"), collection("sales"), "book_id"),
            builder(db).related(collection("archived_sales"), collection("a"), "book_id"),
            builder(db).related(collection("a"), collection("b"), "$book"),
            builder(db).related(collection("a"), collection("b"), "_id"),
            builder(db).id_field("date"),
            builder(db).keep_newest_by("_id"),
            builder(db).keep_newest_by("date"),
        ] {
            assert_eq!(wrong.build().unwrap_err().kind(), ErrorKind::Configuration);
        }
    })
    .await;
}
