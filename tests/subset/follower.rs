//! Other programs write reviews without the repository, and a follower refreshes the products.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Followed, Subset};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, doc};
use tokio::sync::{oneshot, watch};

use support::common::{all, pause};
use support::subset::follower::*;
use support::subset::migration::{fill, of_product};
use support::subset::*;

#[tokio::test]
async fn changes_before_the_follower_and_while_it_was_off_are_followed() {
    testkit::run(async |db| {
        let products = followed(db, 10).await;
        write_plainly(&reviews(db), 10, 0, 60).await;
        assert!(count_wrong(db).await >= 5);
        let first = catch_up(&products).await;
        assert_eq!((first.repaired, first.changes), (1, 0));
        assert_right(db, &products, "at the start").await;

        write_plainly(&reviews(db), 10, 1, 60).await;
        assert!(count_wrong(db).await >= 5);
        let before = operation_time(db).await;
        let second = catch_up(&products).await;
        assert_eq!((second.repaired, second.changes), (0, 60));
        assert!(second.written <= 10, "{second:?}");
        assert!(second.up_to.unwrap() >= before);
        assert_right(db, &products, "after it was off").await;

        let versions = all(&product(db)).await;
        let third = catch_up(&products).await;
        assert_eq!((third.repaired, third.changes, third.written), (0, 0, 0));
        assert_eq!(all(&product(db)).await, versions, "no parent is refreshed again");
        assert_eq!(records(db).await.len(), 1);
    })
    .await;
}

/// Many changes of three products need few commands.
#[tokio::test]
async fn changes_of_one_parent_in_a_batch_need_one_refresh() {
    testkit::run(async |db| {
        let products = behind(db, 3, 100).await;
        let followed = products.follow(NAME).run_until_current().await.unwrap();
        assert_eq!((followed.changes, followed.written), (100, 3));
        let commands = db.recorder().commands();
        let updates: Vec<_> = commands.iter().filter(|command| command.name == "update").collect();
        let refreshes = updates
            .iter()
            .filter(|update| update.command.get_str("update").unwrap() == "product");
        assert_eq!(refreshes.count(), 3);
        let names = db.recorder().names();
        let others = names.iter().filter(|name| *name != "getMore" && *name != "killCursors");
        // hello, the settings, listCollections, the record, the time, the stream; three for each product; the record.
        assert_eq!(others.count(), 6 + 3 * 3 + updates.len() - 3, "{names:?}");
        assert!(updates.len() <= 5, "{names:?}");
        assert_right(db, &products, "").await;
    })
    .await;
}

/// Four followers of two names, four programs that write without the repository, and four that use it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_run_concurrently_with_each_other_and_all_writers() {
    testkit::run(async |db| {
        let products = followed(db, 20).await;
        catch_up(&products).await;
        let (stop, stopped) = watch::channel(false);
        let (up_to, reached) = watch::channel(None);
        let begun: Arc<[AtomicBool; 4]> = Arc::default();
        let followers = (0..4).map(|n| {
            // Locks of its own, as another process has.
            let products = builder::<Product, Review>(db.database()).build().unwrap();
            let (mut stopped, up_to, begun) = (stopped.clone(), up_to.clone(), Arc::clone(&begun));
            tokio::spawn(async move {
                let end = async { drop(stopped.wait_for(|stopped| *stopped).await) };
                let follow = products.follow(if n < 2 { NAME } else { "others" }).until(end);
                let report = |at: Followed| {
                    begun[n].fetch_or(at.changes > 0, Ordering::Relaxed);
                    if n == 0 {
                        up_to.send_replace(at.up_to);
                    }
                };
                follow.on_progress(report).await.unwrap()
            })
        });
        let followers: Vec<_> = followers.collect();
        let others = db.plain_client().database(db.database().name());
        let writers = (1..=8).map(|writer| {
            let products = builder::<Product, Review>(&others).build().unwrap();
            let reviews = reviews(db);
            tokio::spawn(async move {
                if writer <= 4 {
                    return write_plainly(&reviews, 20, writer, 60).await;
                }
                let mut random = Random(writer as u64);
                for n in 0..25 {
                    let (parent, id) = (random.below(20) as i32 + 1, -(writer * 1000 + n));
                    products
                        .insert(&review_of(parent, id, random.below(60) as i64))
                        .await
                        .unwrap();
                    if n % 3 == 0 {
                        products.delete(parent, id).await.unwrap();
                    }
                }
            })
        });
        for written in join_all(writers).await {
            written.unwrap();
        }
        // A follower that has begun late may have met no change yet.
        for id in 100_000_000.. {
            if begun.iter().all(|begun| begun.load(Ordering::Relaxed)) {
                break;
            }
            let late = to_document(&review_of(1, id, 0));
            reviews(db).insert_one(late).await.unwrap();
            pause().await;
        }
        let last = operation_time(db).await;
        let mut reached = reached;
        reached
            .wait_for(|up_to| up_to.is_some_and(|up_to| up_to >= last))
            .await
            .unwrap();
        assert_right(db, &products, "while one of them runs").await;
        stop.send_replace(true);
        for follower in followers {
            follower.await.unwrap();
        }
        assert_right(db, &products, "after all have ended").await;
        assert_eq!(records(db).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_stopped_follower_leaves_no_work_to_repeat() {
    testkit::run(async |db| {
        let products = followed(db, 5).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let mut stop = Some(stop);
        let mut seen: Vec<Followed> = Vec::new();
        let follow = products.follow(NAME).enable_pre_images();
        let follow = follow.until(async { drop(stopped.await) }).on_progress(|at| {
            seen.push(at);
            if at.changes >= 20 {
                drop(stop.take());
            }
        });
        let (followed, ()) = tokio::join!(follow, async {
            // The follower has begun by then.
            db.recorder().sent(8).await;
            write_plainly(&reviews(db), 5, 0, 100).await;
        });
        let followed = followed.unwrap();
        assert!(followed.changes >= 20, "{followed:?}");
        assert_eq!(seen.last(), Some(&followed));
        let in_order = |pair: &[Followed]| pair[0].up_to <= pair[1].up_to && pair[0].changes <= pair[1].changes;
        assert!(seen.windows(2).all(in_order), "{seen:?}");
        let rest = products.follow(NAME).run_until_current().await.unwrap();
        assert_eq!((followed.changes + rest.changes, rest.repaired), (100, 0));
        assert_right(db, &products, "").await;
        // A follower that is stopped before it begins does nothing.
        let stopped = products.follow("another").until(std::future::ready(())).await.unwrap();
        assert_eq!((stopped.repaired, stopped.up_to), (0, None));
        assert_eq!(records(db).await.len(), 1);
    })
    .await;
}

/// Ids of any type, values that look like operators, and values that are no parent.
#[tokio::test]
async fn a_parent_has_any_id_and_other_values_are_ignored() {
    testkit::run(async |db| {
        let products = followed(db, 2).await;
        let ids: [Bson; 7] = [
            Bson::Int64(77),
            "$name".into(),
            doc! { "b": "$name" }.into(),
            doc! { "a": 1 }.into(),
            doc! { "a": 2 }.into(),
            doc! { "a": "b\", \"c\": \"d" }.into(),
            mongodb::bson::oid::ObjectId::new().into(),
        ];
        for id in &ids {
            add_product(db, id.clone()).await;
        }
        catch_up(&products).await;
        let review = |id: i32, parent: &Bson| doc! { "review_id": id, "product_id": parent, "published_date": day(1) };
        for (n, id) in (0..).zip(&ids) {
            reviews(db).insert_one(review(n, id)).await.unwrap();
        }
        let none: [Bson; 4] = [Bson::Null, vec![55, 56].into(), 99.into(), Bson::MinKey];
        for (n, id) in (10..).zip(&none) {
            reviews(db).insert_one(review(n, id)).await.unwrap();
        }
        let without = doc! { "review_id": 20, "published_date": day(1) };
        reviews(db).insert_one(without).await.unwrap();
        let followed = products.follow(NAME).run_until_current().await.unwrap();
        assert_eq!((followed.changes, followed.written), (12, 7));
        assert_eq!(count_wrong(db).await, 0);

        // Replaced, updated by a pipeline or by a path, without their parent, and deleted.
        let by = |id: i32| doc! { "review_id": id };
        reviews(db).replace_one(by(0), review(0, &ids[1])).await.unwrap();
        let pipeline = [doc! { "$set": { "product_id": { "$literal": &ids[2] } } }];
        reviews(db).update_one(by(1), pipeline.to_vec()).await.unwrap();
        let set = async |id: i32, field: &str, value: i32| {
            let update = doc! { "$set": { field: value } };
            reviews(db).update_one(by(id), update).await.unwrap();
        };
        set(3, "product_id.a", 2).await;
        set(10, "product_id", 2).await;
        set(20, "product_id", 1).await;
        let update = doc! { "$unset": { "product_id": 1 } };
        reviews(db).update_one(by(5), update).await.unwrap();
        reviews(db).delete_many(by(6)).await.unwrap();
        assert_eq!(count_wrong(db).await, 9);
        let followed = products.follow(NAME).run_until_current().await.unwrap();
        assert_eq!((followed.changes, followed.written), (7, 9));
        assert_eq!(count_wrong(db).await, 0);
    })
    .await;
}

/// A change of another program is visible while the follower waits for more.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_change_is_followed_immediately() {
    testkit::run(async |db| {
        let products = behind(db, 1, 0).await;
        let (up_to, mut reached) = watch::channel(None);
        let follow = products.follow(NAME).on_progress(|at| {
            up_to.send_replace(at.up_to);
        });
        let writes = async {
            for id in 0..3 {
                let new = to_document(&review(id));
                reviews(db).insert_one(new).await.unwrap();
                let last = operation_time(db).await;
                reached
                    .wait_for(|up_to| up_to.is_some_and(|up_to| up_to >= last))
                    .await
                    .unwrap();
                assert_eq!(embedded(db).await.len() as i32, id + 1);
            }
        };
        tokio::select! {
            ended = async { follow.await } => panic!("{ended:?}"),
            () = writes => {}
        }
    })
    .await;
}

/// The images of a review before and after its change exceed the size limit together. So the server sends only its
/// product.
#[tokio::test]
async fn a_followed_child_may_have_the_size_limit_of_a_document() {
    testkit::run(async |db| {
        followed(db, 1).await;
        let shown = newest().embedded_fields(["review_author", "published_date"]);
        let products: Products = builder_of(db.database(), shown).build().unwrap();
        products.ensure_indexes().replace_settings().await.unwrap();
        catch_up(&products).await;
        let new = |day_of: i64| {
            let mut new = to_document(&review_of(1, 7, day_of));
            new.insert("review_text", "x".repeat(12_000_000));
            new
        };
        let one = doc! { "review_id": 7 };
        reviews(db).insert_one(new(1)).await.unwrap();
        let update = doc! { "$set": { "published_date": day(2) } };
        reviews(db).update_one(one.clone(), update).await.unwrap();
        reviews(db).replace_one(one.clone(), new(3)).await.unwrap();
        let followed = products.follow(NAME).run_until_current().await.unwrap();
        assert_eq!((followed.changes, followed.written, followed.repaired), (3, 1, 0));
        assert_eq!(embedded(db).await, [7]);
        reviews(db).delete_one(one).await.unwrap();
        assert_eq!(products.follow(NAME).run_until_current().await.unwrap().changes, 1);
        assert!(embedded(db).await.is_empty());
    })
    .await;
}

/// The follower sees the children that a migration copies. It leaves a parent unchanged that is not migrated yet.
#[tokio::test]
async fn a_follower_leaves_unmanaged_parents_to_the_migration() {
    testkit::run(async |db| {
        let products = followed(db, 1).await;
        product(db).delete_many(doc! {}).await.unwrap();
        fill(db, 30).await;
        let with_reviews = async || {
            let mut products = all(&product(db)).await;
            products.retain(|product| product.get_array("reviews").is_ok_and(|reviews| !reviews.is_empty()));
            products
        };
        let unmanaged = with_reviews().await;
        assert_eq!(catch_up(&products).await.repaired, 1);
        // Like a migration that is killed between its two commands.
        let embedded = unmanaged[0].get_array("reviews").unwrap();
        let copied = of_product(1, embedded[0].as_document().unwrap());
        reviews(db).insert_one(copied).await.unwrap();
        let followed = catch_up(&products).await;
        assert_eq!((followed.changes, followed.written), (1, 0));
        assert_eq!(with_reviews().await, unmanaged);

        products.migrate_from_embedded().allow_non_empty_target().await.unwrap();
        assert!(catch_up(&products).await.changes > 0);
        assert_right(db, &products, "after the migration").await;
    })
    .await;
}

/// It can be stopped while it waits for the server.
#[tokio::test]
async fn a_follower_without_a_server_can_be_stopped() {
    testkit::run(async |db| {
        let products = behind(db, 1, 5).await;
        let fault = FailPoint::on(&["aggregate"]).error_code(262).enable(db).await;
        let stop = async {
            // The third attempt to open the stream.
            let aggregates = || db.recorder().names().iter().filter(|name| *name == "aggregate").count();
            while aggregates() < 3 {
                let sent = db.recorder().round_trips();
                db.recorder().sent(sent + 1).await;
            }
        };
        let followed = products.follow(NAME).until(stop).await.unwrap();
        fault.disable().await;
        assert_eq!(followed.changes, 0);
        assert_eq!(products.follow(NAME).run_until_current().await.unwrap().changes, 5);
    })
    .await;
}

#[tokio::test]
async fn a_name_belongs_to_one_pair_of_collections_and_fields() {
    testkit::run(async |db| {
        behind(db, 1, 3).await;
        let of_field = Subset::new("newest").sort(doc! { "published_date": -1 });
        let other: Products = builder_of(db.database(), of_field).build().unwrap();
        let record = records(db).await;
        let error = other.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        assert!(
            !error.to_string().contains(NAME) || error.to_string().contains("test_"),
            "{error}"
        );
        assert_eq!(records(db).await, record);
        other.follow("newest").run_until_current().await.unwrap();
        // A follower with another size, order or other embedded fields is the same one.
        let larger: Products = builder_of(db.database(), newest().size(20)).build().unwrap();
        larger.ensure_indexes().replace_settings().await.unwrap();
        assert_eq!(larger.follow(NAME).run_until_current().await.unwrap().changes, 3);
    })
    .await;
}

#[tokio::test]
async fn a_follower_without_rebuilds_starts_with_later_changes() {
    testkit::run(async |db| {
        let products = followed(db, 2).await;
        write_plainly(&reviews(db), 1, 0, 5).await;
        let follow = || {
            let follow = products.follow(NAME).enable_pre_images();
            follow.disable_repair().run_until_current()
        };
        let followed = follow().await.unwrap();
        assert_eq!((followed.repaired, followed.written), (0, 0));
        assert_eq!(count_wrong(db).await, 1);
        let new = to_document(&review_of(2, 9, 9));
        reviews(db).insert_one(new).await.unwrap();
        assert_eq!(follow().await.unwrap().written, 1);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, [Bson::from(1)]);
    })
    .await;
}
