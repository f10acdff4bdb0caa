//! Suppliers on which documents of several patterns depend: orders refer to them, and they have products and visits.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind::{InvalidArgument, NotFound, Referenced, SettingsMismatch};
use mongo_patterns::reference::OnReferences;
use mongo_patterns::reference::action::DeleteSource;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::suppliers::{Other, Shop, count, judge, order, suppliers};
use support::common::dropped_commands;

const PARTS: [Other; 2] = [Other::Subset, Other::List];
/// What keeps a deleted supplier.
const KEEPERS: [&[Other]; 3] = [&[Other::Trash], &[Other::History], &[Other::History, Other::Trash]];

/// Stores suppliers with products and visits, and sets up what keeps them.
async fn add(db: &TestDatabase, shop: &Shop, keepers: &[Other], ids: std::ops::Range<i32>) {
    for other in PARTS.iter().chain(keepers) {
        shop.set_up(*other).await;
    }
    shop.add(db, keepers[0], ids.clone()).await;
    for of in PARTS {
        shop.add_parts(of, ids.clone()).await;
    }
}

fn deletion<'a>(shop: &'a Shop, keepers: &[Other], id: i32) -> DeleteSource<'a> {
    let keepers = keepers.iter().rev();
    let deletion = keepers.fold(shop.orders.delete_source(id), |deletion, keeper| {
        deletion.through(shop.other(*keeper))
    });
    // In any order.
    deletion.through(&shop.visits).through(&shop.products)
}

/// Checks by the driver alone that a supplier is there with all that it has, or deleted with all of it and kept. Returns whether
/// it is there.
async fn judge_all(db: &TestDatabase, keepers: &[Other], id: i32, context: &str) -> bool {
    let mut found = BTreeSet::new();
    for other in PARTS.iter().chain(keepers) {
        found.insert(judge(db, *other, id, context).await);
    }
    assert_eq!(found.len(), 1, "{context}");
    found.contains(&true)
}

/// A call that does not know all of them would leave the products, the visits, or the references.
#[tokio::test]
async fn what_depends_on_a_document_is_never_left() {
    for keepers in KEEPERS {
        testkit::run(async |db| {
            let shop = Shop::new(db);
            add(db, &shop, keepers, 0..4).await;
            // One that has called no ensure_indexes() reads the catalog.
            for shop in [&shop, &Shop::new(db)] {
                let keep = shop.other(keepers[keepers.len() - 1]);
                let of_source = || shop.orders.delete_source(0);
                for refused in [
                    of_source().await.map(drop),
                    of_source().on_references(OnReferences::Clear).await.map(drop),
                    of_source().through(keep).await.map(drop),
                    of_source().through(&shop.products).await.map(drop),
                    of_source().through(&shop.visits).through(keep).await.map(drop),
                    shop.products.delete_parent(0).await.map(drop),
                    shop.products
                        .delete_parent(0)
                        .through(&shop.visits)
                        .through(keep)
                        .await
                        .map(drop),
                    shop.visits.delete(0).await.map(drop),
                    shop.visits
                        .delete(0)
                        .through(&shop.products)
                        .through(keep)
                        .await
                        .map(drop),
                ] {
                    let refused = refused.unwrap_err();
                    assert_eq!(refused.kind(), SettingsMismatch, "{refused}");
                    assert!(judge_all(db, keepers, 0, &refused.to_string()).await);
                }
                let refused = shop.products.delete_parent(0).await.unwrap_err();
                let remedy = "call delete_source(..) of its repository, and pass this one to through(..)";
                assert!(refused.to_string().ends_with(remedy), "{refused}");
                let refused = of_source().through(keep).through(keep).await.unwrap_err();
                assert_eq!(refused.kind(), InvalidArgument, "{refused}");
                if keepers.contains(&Other::History) {
                    let refused = of_source().through(&shop.products).through(&shop.visits).await;
                    assert_eq!(refused.unwrap_err().kind(), SettingsMismatch);
                }
            }
            assert!(deletion(&shop, keepers, 3).await.unwrap().found);
            assert!(!judge_all(db, keepers, 3, "deleted").await);
        })
        .await;
    }
}

/// Such as after a deletion by another program.
#[tokio::test]
async fn what_is_left_of_an_absent_document_is_deleted() {
    testkit::run(async |db| {
        let shop = Shop::new(db);
        for of in PARTS {
            shop.set_up_alone(of).await;
        }
        suppliers(db)
            .insert_many([1, 2].map(|id| doc! { "_id": id }))
            .await
            .unwrap();
        for of in PARTS {
            shop.add_parts(of, [1, 2]).await;
        }
        suppliers(db).delete_many(doc! {}).await.unwrap();
        shop.products.delete_parent(1).through(&shop.visits).await.unwrap();
        shop.visits.delete(2).through(&shop.products).await.unwrap();
        for parts in ["products", "more_visits"] {
            assert_eq!(count(db, parts, doc! {}).await, 0, "{parts}");
        }
    })
    .await;
}

/// While eight writers insert orders, and eight others add products and visits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_beside_writers_of_all_patterns() {
    const SUPPLIERS: i32 = 16;
    for keepers in KEEPERS {
        testkit::run(async |db| {
            let processes = [Shop::new(db), Shop::new(db)];
            for shop in &processes {
                add(db, shop, keepers, 0..0).await;
            }
            add(db, &processes[0], keepers, 0..SUPPLIERS).await;
            let writers = (0..16).map(|writer: i32| {
                let shop = processes[writer as usize % 2].clone();
                tokio::spawn(async move {
                    for id in 0..SUPPLIERS {
                        let n = 1000 * (writer + 1) + id;
                        let added = match writer % 4 {
                            0 => shop
                                .products
                                .insert(&doc! { "_id": n, "supplier": id, "at": n })
                                .await
                                .map(drop),
                            1 => shop.visits.push(id, &n).await.map(drop),
                            // Half of the suppliers get orders.
                            _ if id % 2 == 0 => continue,
                            _ => shop.orders.insert(&order(n, id)).await.map(drop),
                        };
                        if let Err(error) = added {
                            assert_eq!(error.kind(), NotFound, "{error:?}");
                        }
                    }
                })
            });
            let writers: Vec<_> = writers.collect();
            let deletions = processes.iter().cloned().map(|shop| {
                tokio::spawn(async move {
                    let mut ended = Vec::new();
                    for id in (0..SUPPLIERS).rev() {
                        match deletion(&shop, keepers, id).await {
                            Ok(done) => ended.extend(done.found.then_some(id)),
                            Err(error) => assert_eq!(error.kind(), Referenced, "{error:?}"),
                        }
                    }
                    ended
                })
            });
            let mut deleted = Vec::new();
            for ended in join_all(deletions.collect::<Vec<_>>()).await {
                deleted.extend(ended.unwrap());
            }
            for ended in join_all(writers).await {
                ended.unwrap();
            }
            deleted.sort_unstable();
            let stored = suppliers(db).find(doc! {}).await.unwrap();
            let stored: Vec<Document> = stored.try_collect().await.unwrap();
            assert!(!stored.is_empty() && !deleted.is_empty(), "{deleted:?}");
            assert_eq!(stored.len() + deleted.len(), SUPPLIERS as usize);
            for id in deleted {
                for (collection, filter) in [
                    ("orders", doc! { "supplier._id": id }),
                    ("products", doc! { "supplier": id }),
                    ("more_visits", doc! { "supplier": id }),
                ] {
                    assert_eq!(count(db, collection, filter).await, 0, "{keepers:?} {id} {collection}");
                }
                for keeper in keepers {
                    assert!(!judge(db, *keeper, id, "deleted").await);
                }
            }
            processes[0].assert_sound().await;
        })
        .await;
    }
}

/// Each call is dropped after one more of its commands.
#[tokio::test]
async fn a_dropped_deletion_takes_effect_as_a_whole_or_not() {
    const SUPPLIERS: i32 = 14;
    for keepers in KEEPERS {
        testkit::run(async |db| {
            let shop = Shop::new(db);
            add(db, &shop, keepers, 0..SUPPLIERS).await;
            deletion(&shop, keepers, -1).await.unwrap();
            let mut dropped = 0;
            for id in 0..SUPPLIERS {
                db.recorder().clear();
                let ended = tokio::select! {
                    biased;
                    () = db.recorder().sent(id as usize + 1) => false,
                    done = deletion(&shop, keepers, id) => done.unwrap().found,
                };
                dropped += u32::from(!ended);
                dropped_commands(db).await;
                let context = format!("{keepers:?} after {id} commands");
                judge_all(db, keepers, id, &context).await;
                let again = deletion(&shop, keepers, id).await.unwrap();
                assert!(!(ended && again.found), "{context}");
                assert!(!judge_all(db, keepers, id, &context).await, "{context}");
            }
            assert!(dropped > 7, "{keepers:?}: {dropped}");
        })
        .await;
    }
}
