//! The entries of a trash: pages, expiry, and their deletion.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::archive::{Trash, TrashEntry, TrashToken};
use mongo_patterns::mongodb::Client;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, Mongod, MongodOptions};
use mongodb::IndexModel;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::users::*;
use support::archive::sales::{numbers, old};
use support::archive::users::*;
use support::common::until;
use support::explain::explain_last;

async fn pages(trash: &Trash<Document>, limit: u32) -> Vec<TrashEntry<Document>> {
    let (mut all, mut after) = (Vec::new(), None::<TrashToken>);
    loop {
        let page = trash
            .list()
            .newest_first()
            .limit(limit)
            .after(after)
            .page()
            .await
            .unwrap();
        assert!(page.items.len() == limit as usize || page.next.is_none());
        all.extend(page.items);
        match page.next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => return all,
        }
    }
}

#[tokio::test]
async fn pages_have_each_entry_once_in_both_orders() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        // Several entries of one time, and of one document.
        let stored: Vec<Document> = (0..50).map(|n| entry(n % 7, i64::from(n / 4))).collect();
        entries(db).insert_many(&stored).await.unwrap();
        let newest = stored.iter().rev().map(|entry| entry.get_document("document").unwrap());
        let newest: Vec<&Document> = newest.collect();
        for limit in [1, 3, 49, 50, 100] {
            let found = pages(&trash, limit).await;
            let documents: Vec<&Document> = found.iter().map(|entry| &entry.document).collect();
            assert_eq!(documents, newest, "{limit}");
            assert!(found.iter().all(|entry| entry.deleted_by.is_none()));
            assert_eq!(found[0].deleted_at, old(12));
        }
        let page = || trash.list().newest_first().limit(10);
        let first = page().page().await.unwrap();
        db.recorder().clear();
        let second = page().after(first.next.clone()).page().await.unwrap();
        assert_eq!(db.recorder().names(), ["find"]);
        let examined = explain_last(db).await;
        assert_eq!((&*examined.index, examined.documents), ("deletedAt_1__id_1", 11));
        let again = page().before(second.previous).page().await.unwrap();
        assert_eq!((&again.items, again.previous.is_none()), (&first.items, true));
        let oldest: Vec<TrashEntry<Document>> = trash.list().limit(7).stream().try_collect().await.unwrap();
        assert!(oldest.iter().rev().map(|entry| &entry.document).eq(newest));
        // A token is a position, whatever happens to the entries.
        let newer = doc! { "deletedAt": { "$gt": old(5) } };
        entries(db).delete_many(newer).await.unwrap();
        let rest = trash.list().newest_first().after(first.next).page().await.unwrap();
        assert_eq!(rest.items.len(), 24);
        let zero = trash.list().limit(0).page().await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidArgument);
        let [users, deleted] = ["users", "deleted_users"].map(|name| db.collection::<Document>(name));
        let other = Trash::<u32>::builder(users, deleted);
        let refused = other.build().unwrap().list().newest_first().page().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Decode);
        assert_eq!(refused.document_id(), stored[23].get("_id"));
        assert_eq!(refused.document_namespace().unwrap().coll, "deleted_users");
    })
    .await;
}

#[tokio::test]
async fn the_list_has_who_deleted_a_document_and_when() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        plant(db, (1..4).map(user)).await;
        let by: [Option<Bson>; 3] = [None, Some("ann".into()), Some(doc! { "$set": { "a.b": 1 } }.into())];
        for (id, by) in (1..).zip(by.clone()) {
            let delete = trash.delete(id);
            match by {
                None => delete.await.unwrap(),
                Some(by) => delete.by(by).await.unwrap(),
            };
        }
        let page = trash.list().page().await.unwrap();
        let mut found = page.items;
        found.sort_by_key(|entry| entry.document.get_i32("_id").unwrap());
        for (entry, (id, by)) in found.iter().zip((1..).zip(by)) {
            assert_eq!((&entry.document, &entry.deleted_by), (&user(id), &by));
        }
        assert!(page.next.is_none());
    })
    .await;
}

#[tokio::test]
async fn the_entries_from_before_a_time_are_deleted() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let stored = (0..25).map(|n| entry(n, i64::from(n)));
        entries(db).insert_many(stored).await.unwrap();
        plant(db, [user(1)]).await;
        let plan = trash.delete_before(old(20)).chunk(10).plan().await.unwrap();
        assert_eq!(plan.migrated.documents, 20);
        assert_eq!(entries(db).count_documents(doc! {}).await.unwrap(), 25);
        db.recorder().clear();
        let deleted = trash.delete_before(old(20)).chunk(10).await.unwrap();
        assert_eq!(deleted.documents, 20);
        let names = ["find", "listIndexes", "find", "delete", "delete"];
        assert_eq!(db.recorder().names(), names);
        assert_eq!(both(db).await, [numbers([1]), numbers(20..25)]);
    })
    .await;
}

#[tokio::test]
async fn entries_expire_after_their_time() {
    testkit::run(async |db| {
        let trash = builder(db).expires_after(MONTH).build().unwrap();
        trash.ensure_indexes().await.unwrap();
        plant(db, [user(1)]).await;
        trash.delete(1).await.unwrap();
        let entry = entries(db).find_one(doc! {}).await.unwrap().unwrap();
        let expires = entry.get_datetime("expiresAt").unwrap().timestamp_millis();
        let month = i64::try_from(MONTH.as_millis()).unwrap();
        assert_eq!(expires - deleted_at(&entry).timestamp_millis(), month);
        let indexes = entries(db).list_indexes().await.unwrap();
        let indexes: Vec<IndexModel> = indexes.try_collect().await.unwrap();
        let mut indexes = indexes.into_iter();
        let expiry = indexes.find(|index| index.keys == doc! { "expiresAt": 1 });
        let options = expiry.unwrap().options.unwrap();
        assert_eq!(options.expire_after, Some(Duration::ZERO));
        // The longest time.
        let forever = builder(db).expires_after(Duration::MAX).build().unwrap();
        users(db).insert_one(user(2)).await.unwrap();
        forever.delete(2).await.unwrap();
        let entry = entries(db).find_one(doc! { "document._id": 2 }).await.unwrap().unwrap();
        assert_eq!(entry.get_datetime("expiresAt").unwrap(), &DateTime::MAX);
    })
    .await;
}

/// The server deletes what has expired, and nothing else.
#[tokio::test]
async fn the_server_deletes_expired_entries() {
    let options = MongodOptions::new().argument("--setParameter=ttlMonitorSleepSecs=1");
    let mongod = Mongod::start(options).await.unwrap();
    let database = Client::with_uri_str(mongod.uri()).await.unwrap().database("shop");
    let [users, deleted] = ["users", "deleted"].map(|name| database.collection::<Document>(name));
    users.insert_many((1..4).map(user)).await.unwrap();
    let of = |time: Option<u64>| {
        let builder = Trash::<Document>::builder(users.clone(), deleted.clone());
        let builder = match time {
            None => builder,
            Some(seconds) => builder.expires_after(Duration::from_secs(seconds)),
        };
        builder.build().unwrap()
    };
    of(Some(1)).ensure_indexes().await.unwrap();
    for (id, time) in [(1, None), (2, Some(3600)), (3, Some(1))] {
        assert!(of(time).delete(id).await.unwrap().found);
    }
    let left = async || deleted.distinct("document._id", doc! {}).await.unwrap();
    until("the expiry", async || left().await == numbers([1, 2])).await;
    let gone = of(None).restore(3).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert!(!of(None).restore(2).await.unwrap().already_there);
}
