//! What another repository keeps of a deleted source, parent or list, and how it is restored.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind::NotFound;
use mongo_patterns::reference::OnReferences;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::suppliers::{Other, Shop, count, judge, order, suppliers};
use support::common::{all, integer};

async fn supplier(db: &TestDatabase, id: i32) -> Document {
    suppliers(db).find_one(doc! { "_id": id }).await.unwrap().unwrap()
}

/// By a refresh of its copies, and by a follower.
#[tokio::test]
async fn a_source_whose_copies_were_kept_is_restored() {
    testkit::run(async |db| {
        let shop = Shop::new(db);
        let follow = async || shop.orders.follow("orders").run_until_current().await.unwrap();
        shop.set_up(Other::Trash).await;
        follow().await;
        for (id, is_followed) in [(1, false), (2, true)] {
            shop.add(db, Other::Trash, [id]).await;
            for n in 0..2 {
                shop.orders.insert(&order(format!("{id}-{n}"), id)).await.unwrap();
            }
            let rename = doc! { "$set": { "name": "Bea" } };
            assert_eq!(shop.orders.update_source(id, rename).await.unwrap().version, 1);
            let before = supplier(db, id).await;
            follow().await;
            let deletion = shop.orders.delete_source(id).on_references(OnReferences::KeepCopy);
            let deleted = deletion.through(&shop.trash).await.unwrap();
            assert_eq!((deleted.found, deleted.copies), (true, 2));
            let kept = db.plain_collection::<Document>("deleted_suppliers");
            let kept = kept.find_one(doc! { "document._id": id }).await.unwrap().unwrap();
            assert_eq!(kept.get_document("document").unwrap(), &before);
            if is_followed {
                follow().await; // it sees the deletion before the restoration
            }
            shop.trash.restore(id).await.unwrap();
            assert_eq!(supplier(db, id).await, before);
            let expected = match is_followed {
                true => {
                    assert_eq!(follow().await.written, 2);
                    1
                }
                false => {
                    let refreshed = shop.orders.refresh_copies(id).await.unwrap();
                    assert_eq!((refreshed.version, refreshed.copies), (2, 2));
                    2
                }
            };
            assert_eq!(integer(supplier(db, id).await.get("v").unwrap()), expected);
            for order in all(&db.plain_collection::<Document>("orders")).await {
                let copy = order.get_document("supplier").unwrap();
                if copy.get("_id") == Some(&id.into()) {
                    assert_eq!(copy, &doc! { "_id": id, "name": "Bea", "v": expected });
                }
            }
        }
        let findings: Vec<_> = shop.orders.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
    })
    .await;
}

/// A source that is deleted by a rule that keeps its copies, while its copies are refreshed.
#[tokio::test]
async fn a_refresh_beside_a_deletion_leaves_the_marks_of_the_copies() {
    testkit::run(async |db| {
        let shop = Shop::new(db);
        shop.set_up(Other::Trash).await;
        for id in 0..30 {
            shop.add(db, Other::Trash, [id]).await;
            shop.orders.insert(&order(id, id)).await.unwrap();
            let delete = || shop.orders.delete_source(id).on_references(OnReferences::KeepCopy);
            let deletion = async {
                delete().through(&shop.trash).await.unwrap();
                shop.trash.restore(id).await.unwrap();
                delete().through(&shop.trash).await.unwrap();
            };
            let refreshes = async {
                for _ in 0..4 {
                    match shop.orders.refresh_copies(id).await {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), NotFound, "{error:?}"),
                    }
                }
            };
            futures::join!(deletion, refreshes);
        }
        assert_eq!(count(db, "orders", doc! { "supplier.deleted": true }).await, 30);
        let findings: Vec<_> = shop.orders.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
    })
    .await;
}

/// Writes a part of a supplier. Returns whether the supplier was there.
async fn add_part(shop: &Shop, of: Other, id: i32, n: i32) -> bool {
    let added = match of {
        Other::Subset => {
            let product = doc! { "_id": 1000 + n, "supplier": id, "at": n };
            shop.products.insert(&product).await.map(drop)
        }
        _ => shop.visits.push(id, &(1000 + n)).await.map(drop),
    };
    match added {
        Ok(()) => true,
        Err(error) if error.kind() == NotFound => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// Deletes a supplier with its parts through another repository. Returns whether it was found.
async fn delete(shop: &Shop, of: Other, id: i32, other: Other) -> bool {
    let deleted = match of {
        Other::Subset => shop.products.delete_parent(id).through(shop.other(other)).await,
        _ => shop.visits.delete(id).through(shop.other(other)).await,
    };
    deleted.unwrap().found
}

/// While eight writers add children to parents, or elements to lists. Then all are restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_and_a_list_are_deleted_through_another_repository() {
    const SUPPLIERS: i32 = 8;
    for (of, other) in [
        (Other::Subset, Other::Trash),
        (Other::Subset, Other::History),
        (Other::List, Other::Trash),
        (Other::List, Other::History),
    ] {
        testkit::run(async |db| {
            let processes = [Shop::new(db), Shop::new(db)];
            let shop = &processes[0];
            for one in [of, other] {
                shop.set_up_alone(one).await;
            }
            shop.add(db, other, 0..SUPPLIERS).await;
            shop.add_parts(of, 0..SUPPLIERS).await;
            let writers = (0..8).map(|writer: i32| {
                let shop = processes[writer as usize % 2].clone();
                tokio::spawn(async move {
                    let mut added = 0;
                    for n in 0..24 {
                        let id = (writer + n) % SUPPLIERS;
                        added += u32::from(add_part(&shop, of, id, 100 * writer + n).await);
                    }
                    added
                })
            });
            let writers: Vec<_> = writers.collect();
            let deletions = processes.iter().cloned().map(|shop| {
                tokio::spawn(async move {
                    let mut deleted = 0;
                    for id in 0..SUPPLIERS {
                        deleted += u32::from(delete(&shop, of, id, other).await);
                    }
                    deleted
                })
            });
            let deletions = join_all(deletions.collect::<Vec<_>>()).await;
            let deleted: u32 = deletions.into_iter().map(|ended| ended.unwrap()).sum();
            let added: u32 = join_all(writers).await.into_iter().map(|ended| ended.unwrap()).sum();
            println!("{of:?} through {other:?}: {added} of 192 parts were added");
            assert_eq!(deleted, SUPPLIERS as u32);
            let context = format!("{of:?} through {other:?}");
            for id in 0..SUPPLIERS {
                assert!(!judge(db, other, id, &context).await);
                assert!(!judge(db, of, id, &context).await);
                restore(db, shop, other, id).await;
                assert_empty(&supplier(db, id).await, of, &context);
            }
            assert_sound(shop, of).await;
            for id in 0..SUPPLIERS {
                assert!(add_part(shop, of, id, id).await, "{context}");
                let now = supplier(db, id).await;
                let parts = if of == Other::Subset { "newest" } else { "visits" };
                assert_eq!(now.get_array(parts).unwrap().len(), 1, "{context}: {now}");
                if of == Other::Subset {
                    assert_eq!(integer(now.get("products").unwrap()), 1, "{context}");
                }
            }
            assert_sound(shop, of).await;
        })
        .await;
    }
}

/// Restores a supplier with the content that it had before its deletion.
async fn restore(db: &TestDatabase, shop: &Shop, other: Other, id: i32) {
    if other == Other::Trash {
        shop.trash.restore(id).await.unwrap();
        return;
    }
    let deletion = db.plain_collection::<Document>("revisions");
    let deletion = deletion.find_one(doc! { "documentId": id, "deleted": true }).await;
    let revision = integer(deletion.unwrap().unwrap().get("revision").unwrap());
    shop.history.restore(id, revision as u64 - 1).await.unwrap();
}

/// Checks that a restored supplier has no parts.
fn assert_empty(supplier: &Document, of: Other, context: &str) {
    let empty = Bson::Array(Vec::new());
    match of {
        Other::Subset => {
            assert_eq!(supplier.get("newest"), Some(&empty), "{context}");
            assert_eq!(integer(supplier.get("products").unwrap()), 0, "{context}");
        }
        _ => {
            assert_eq!(supplier.get("visits"), Some(&empty), "{context}");
            assert!(!supplier.contains_key("has_extras"), "{context}");
        }
    }
    assert_eq!(supplier.get_str("name").unwrap(), "Ann", "{context}");
}

/// Checks that `verify` finds nothing.
async fn assert_sound(shop: &Shop, of: Other) {
    match of {
        Other::Subset => {
            let findings: Vec<_> = shop.products.verify().stream().try_collect().await.unwrap();
            assert_eq!(findings, []);
        }
        _ => {
            let findings: Vec<_> = shop.visits.verify().stream().try_collect().await.unwrap();
            assert_eq!(findings, []);
        }
    }
}
