//! Sources that are deleted through another repository of the same documents.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind::{IndexMissing, InvalidArgument, NotFound, Referenced};
use mongo_patterns::Repository;
use mongo_patterns::archive::Trash;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::through::Deletes;
use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use super::repositories::of;
use super::suppliers::{OTHERS, Other, Shop, count, judge, order, suppliers};
use support::common::dropped_commands;

/// Two tasks of two processes delete each supplier, while sixteen writers insert orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_deletions_beside_inserts_no_removed_source_has_references() {
    const SUPPLIERS: i32 = 24;
    for other in OTHERS {
        testkit::run(async |db| {
            let processes = [Shop::new(db), Shop::new(db)];
            processes[0].set_up(other).await;
            processes[0].add(db, other, 0..SUPPLIERS).await;
            let writers = (0..16).map(|writer: i32| {
                let orders = processes[writer as usize % 2].orders.clone();
                tokio::spawn(async move {
                    let mut inserted = 0;
                    for id in 0..SUPPLIERS {
                        match orders.insert(&order(format!("{writer}-{id}"), id)).await {
                            Ok(_) => inserted += 1,
                            Err(error) => assert_eq!(error.kind(), NotFound, "{error:?}"),
                        }
                    }
                    inserted
                })
            });
            let writers: Vec<_> = writers.collect();
            // From the last supplier, which the writers reach last.
            let deletions = processes.iter().cloned().map(|process| {
                tokio::spawn(async move {
                    let (mut deleted, mut refused) = (Vec::new(), 0);
                    for id in (0..SUPPLIERS).rev() {
                        match process.orders.delete_source(id).through(process.other(other)).await {
                            Ok(done) => deleted.extend(done.found.then_some(id)),
                            Err(error) => {
                                assert_eq!(error.kind(), Referenced, "{error:?}");
                                refused += 1;
                            }
                        }
                    }
                    (deleted, refused)
                })
            });
            let (mut deleted, mut refused) = (Vec::new(), 0);
            for ended in join_all(deletions.collect::<Vec<_>>()).await {
                let (more, of_task) = ended.unwrap();
                deleted.extend(more);
                refused += of_task;
            }
            let inserted: u64 = join_all(writers).await.into_iter().map(|ended| ended.unwrap()).sum();
            assert!(!deleted.is_empty() && refused > 0, "{other:?}: {deleted:?} {refused}");
            assert_eq!(count(db, "orders", doc! {}).await, inserted, "{other:?}");
            deleted.sort_unstable();
            for id in 0..SUPPLIERS {
                let is_there = judge(db, other, id, &format!("{other:?} {id}")).await;
                assert_eq!(
                    deleted.iter().filter(|deleted| **deleted == id).count(),
                    usize::from(!is_there)
                );
            }
            let marked = doc! { "mongo_patterns_deleting": { "$exists": true } };
            assert_eq!(count(db, "suppliers", marked).await, 0, "{other:?}");
            let findings: Vec<_> = processes[0].orders.verify().stream().try_collect().await.unwrap();
            assert_eq!(findings, [], "{other:?}");
        })
        .await;
    }
}

/// Each call is dropped after one more of its commands.
#[tokio::test]
async fn a_dropped_deletion_takes_effect_as_a_whole_or_not() {
    for other in OTHERS {
        testkit::run(async |db| {
            let shop = Shop::new(db);
            shop.set_up(other).await;
            shop.add(db, other, 0..20).await;
            // The first deletion checks the indexes.
            shop.orders.delete_source(-1).through(shop.other(other)).await.unwrap();
            let mut dropped = 0;
            for id in 0..20 {
                let rule = [OnReferences::Restrict, OnReferences::KeepCopy][id as usize % 2];
                let call = async || {
                    shop.orders
                        .delete_source(id)
                        .through(shop.other(other))
                        .on_references(rule)
                        .await
                };
                let context = format!("{other:?} {rule:?} after {} commands", id / 2);
                db.recorder().clear();
                let ended = tokio::select! {
                    biased;
                    () = db.recorder().sent(id as usize / 2 + 1) => false,
                    done = call() => done.unwrap().found,
                };
                dropped += u32::from(!ended);
                dropped_commands(db).await;
                judge(db, other, id, &context).await;
                let again = call().await.unwrap();
                assert!(!(ended && again.found), "{context}");
                assert!(!judge(db, other, id, &context).await, "{context}");
            }
            assert!(dropped > 8, "{other:?}: {dropped}");
        })
        .await;
    }
}

#[tokio::test]
async fn in_a_transaction_of_the_caller_it_takes_effect_at_the_commit() {
    for other in OTHERS {
        testkit::run(async |db| {
            let shop = Shop::new(db);
            shop.set_up(other).await;
            shop.add(db, other, 1..=3).await;
            shop.orders.insert(&order(1, 3)).await.unwrap();
            // A deletion that died has left its mark.
            let mark = doc! { "$set": { "mongo_patterns_deleting": ObjectId::new() } };
            suppliers(db).update_one(doc! { "_id": 2 }, mark).await.unwrap();
            for commits in [false, true] {
                let mut session = db.database().client().start_session().await.unwrap();
                session.start_transaction().await.unwrap();
                for (id, rule) in [(1, OnReferences::Restrict), (2, OnReferences::KeepCopy)] {
                    let deletion = shop.orders.delete_source(id).through(shop.other(other));
                    let deleted = deletion.on_references(rule).session(&mut session).await.unwrap();
                    assert!(deleted.found, "{other:?}");
                }
                let deletion = shop.orders.delete_source(3).through(shop.other(other));
                let refused = deletion.session(&mut session).await.unwrap_err();
                assert_eq!(refused.kind(), Referenced, "{refused}");
                for id in 1..=3 {
                    assert!(judge(db, other, id, "before the end").await);
                }
                match commits {
                    true => session.commit_transaction().await.unwrap(),
                    false => session.abort_transaction().await.unwrap(),
                }
                for id in 1..=3 {
                    let is_there = judge(db, other, id, &format!("{other:?} {commits}")).await;
                    assert_eq!(is_there, !commits || id == 3, "{other:?} {commits} {id}");
                }
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_repository_of_other_documents_is_refused() {
    testkit::run(async |db| {
        let shop = Shop::new(db);
        shop.orders.ensure_indexes().await.unwrap();
        let others = Trash::<Document>::builder(of(db, "customers"), of(db, "deleted_customers"));
        let others = others.build().unwrap();
        let by_number = HistoryRepository::<Document>::builder(of(db, "suppliers"), of(db, "revisions"));
        let by_number = by_number.id_field("number").build().unwrap();
        db.recorder().clear();
        let refused: [(&dyn Deletes, &str); 2] = [(&others, ".customers`"), (&by_number, "`number`")];
        for (other, named) in refused {
            for error in [
                shop.orders.delete_source(1).through(other).await.unwrap_err(),
                shop.products.delete_parent(1).through(other).await.unwrap_err(),
                shop.visits.delete(1).through(other).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), InvalidArgument, "{error}");
                assert!(error.to_string().contains(named), "{error}");
            }
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_error_of_a_missing_index_tells_whose_it_is() {
    testkit::run(async |db| {
        Shop::new(db).set_up(Other::List).await;
        let overflow = db.plain_collection::<Document>("more_visits");
        overflow.drop_indexes().await.unwrap();
        let shop = Shop::new(db);
        suppliers(db)
            .insert_one(doc! { "_id": 1, "name": "Ann" })
            .await
            .unwrap();
        let error = shop.orders.delete_source(1).through(&shop.visits).await.unwrap_err();
        assert_eq!(error.kind(), IndexMissing, "{error}");
        assert!(
            error.to_string().contains("of a repository of through(..), the index"),
            "{error}"
        );
        assert_eq!(count(db, "suppliers", doc! {}).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_source_that_does_not_exist_may_be_referred_to() {
    testkit::run(async |db| {
        let shop = Shop::new(db);
        shop.set_up(Other::Trash).await;
        shop.add(db, Other::Trash, 1..=3).await;
        let orders = &shop.orders;
        for (id, supplier) in [(1, 1), (2, 2)] {
            orders.insert(&order(id, supplier)).await.unwrap();
        }
        // By another program, and with its copies kept.
        suppliers(db).delete_one(doc! { "_id": 1 }).await.unwrap();
        orders
            .delete_source(2)
            .on_references(OnReferences::KeepCopy)
            .await
            .unwrap();
        let mut session = db.database().client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        for refused in [
            orders.delete_source(1).await,
            orders.delete_source(1).through(&shop.trash).await,
            orders.delete_source(1).session(&mut session).await,
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), Referenced);
            assert!(refused.to_string().contains("which does not exist"), "{refused}");
        }
        session.abort_transaction().await.unwrap();
        for absent in [2, 7] {
            assert!(!orders.delete_source(absent).await.unwrap().found);
            assert!(!orders.delete_source(absent).through(&shop.trash).await.unwrap().found);
        }
        assert_eq!(count(db, "deleted_suppliers", doc! {}).await, 0);
        let cleared = orders
            .delete_source(1)
            .on_references(OnReferences::Clear)
            .await
            .unwrap();
        assert_eq!((cleared.found, cleared.copies), (false, 1));
        assert!(!orders.delete_source(1).await.unwrap().found);
    })
    .await;
}
