//! Documents with references that are restored from a trash or an archive, while their sources change.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::ErrorKind::{InvalidArgument, NotFound, Referenced};
use mongo_patterns::archive::{Archive, Trash};
use mongo_patterns::reference::{OnReferences, Reference, ReferenceRepository};
use mongo_patterns::{Error, Repository, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::repositories::of;
use support::archive::sales::old;
use support::common::{all, assert_names, dropped_after, dropped_commands, patient};
use support::reference::{
    Orders, add_customers, assert_current, builder, copy_in, customer, customers, judge, order, rename, stored,
};

/// How orders leave their collection, and are restored.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Trash,
    Archive,
    Many,
}

const WAYS: [Way; 3] = [Way::Trash, Way::Archive, Way::Many];

/// The orders of a shop, with their trash and their archive.
struct Shop {
    orders: Orders,
    trash: Trash<Document>,
    archive: Archive<Document>,
}

impl Shop {
    async fn new(db: &TestDatabase, orders: Orders) -> Self {
        let trash = Trash::builder(of(db, "orders"), of(db, "deletedOrders"));
        let archive = Archive::builder(of(db, "orders"), of(db, "archivedOrders")).age_field("date");
        let shop = Self {
            orders,
            trash: trash.retry(patient()).build().unwrap(),
            archive: archive
                .older_than(Duration::from_secs(60))
                .retry(patient())
                .build()
                .unwrap(),
        };
        let repositories: [&dyn Repository; 3] = [&shop.orders, &shop.trash, &shop.archive];
        for repository in repositories {
            repository.ensure_indexes().await.unwrap();
        }
        for name in ["orders", "deletedOrders", "archivedOrders", "customers", "products"] {
            db.plain_collection::<Document>(name)
                .delete_many(doc! {})
                .await
                .unwrap();
        }
        shop
    }

    /// Returns it with customers 1 and 2.
    async fn with_customers(db: &TestDatabase) -> Self {
        let shop = Self::new(db, builder(db.database()).retry(patient()).build().unwrap()).await;
        add_customers(db, 1..=2).await;
        shop
    }

    async fn insert(&self, id: i32, customer: i32) {
        let mut order = order(id, customer);
        order.insert("date", old(i64::from(id)));
        self.orders.insert(&order).await.unwrap();
    }

    /// Moves all old orders out of their collection.
    async fn remove(&self, way: Way, ids: &[i32]) {
        match way {
            Way::Trash => {
                for id in ids {
                    assert!(self.trash.delete(*id).await.unwrap().found);
                }
            }
            Way::Archive | Way::Many => assert_eq!(self.archive.run().await.unwrap().documents, ids.len() as u64),
        }
    }

    /// Restores an order through the references.
    async fn restore(&self, way: Way, id: i32) -> Result<()> {
        match way {
            Way::Trash => self.trash.restore(id).through(&self.orders).await.map(drop),
            Way::Archive => self.archive.restore(id).through(&self.orders).await.map(drop),
            Way::Many => {
                let one = self.archive.restore_many(doc! { "_id": id });
                one.through(&self.orders).await.map(drop)
            }
        }
    }
}

/// Returns how many orders are in the collection, the trash and the archive.
async fn places(db: &TestDatabase) -> [usize; 3] {
    let mut places = [0; 3];
    for (place, name) in places.iter_mut().zip(["orders", "deletedOrders", "archivedOrders"]) {
        *place = all(&db.plain_collection(name)).await.len();
    }
    places
}

#[tokio::test]
async fn copies_are_current_after_a_restore() {
    testkit::run(async |db| {
        for way in WAYS {
            let shop = Shop::with_customers(db).await;
            shop.insert(7, 1).await;
            shop.remove(way, &[7]).await;
            shop.orders.update_source(1, rename("Bea")).await.unwrap();
            db.recorder().clear();
            shop.restore(way, 7).await.unwrap();
            let through = "update update find";
            let names = db.recorder().names().join(" ");
            let expected = match way {
                Way::Many => format!("find {through} delete insert commitTransaction"),
                _ => format!("find {through} delete insert commitTransaction"),
            };
            assert!(names.ends_with(&expected), "{way:?}: {names}");
            assert_eq!(copy_in(db, 7).await.get_str("name").unwrap(), "Bea", "{way:?}");
            assert_eq!(assert_current(db, &shop.orders).await, 1);
            assert_eq!(places(db).await, [1, 0, 0], "{way:?}");
            // Without it, the copy is as old as the deletion.
            shop.remove(way, &[7]).await;
            shop.orders.update_source(1, rename("Cid")).await.unwrap();
            match way {
                Way::Trash => drop(shop.trash.restore(7).await.unwrap()),
                _ => drop(shop.archive.restore(7).await.unwrap()),
            }
            assert_eq!(judge(db).await.stale, 1, "{way:?}");
        }
    })
    .await;
}

/// Also in a transaction of the caller, which can commit.
#[tokio::test]
async fn a_source_that_is_gone_refuses_the_restore() {
    testkit::run(async |db| {
        for way in WAYS {
            let shop = Shop::with_customers(db).await;
            shop.insert(7, 1).await;
            shop.remove(way, &[7]).await;
            let before = places(db).await;
            assert!(shop.orders.delete_source(1).await.unwrap().found);
            let refused = shop.restore(way, 7).await.unwrap_err();
            assert_names(&refused, NotFound, 7);
            assert_eq!(refused.field(), Some("customer"));
            assert!(refused.to_string().contains("insert the source again"), "{refused}");
            assert_eq!(places(db).await, before, "{way:?}");
            if way != Way::Many {
                let mut session = db.client().start_session().await.unwrap();
                session.start_transaction().await.unwrap();
                let refused = match way {
                    Way::Trash => shop.trash.restore(7).through(&shop.orders).session(&mut session).await,
                    _ => {
                        shop.archive
                            .restore(7)
                            .through(&shop.orders)
                            .session(&mut session)
                            .await
                    }
                };
                assert_names(&refused.unwrap_err(), NotFound, 7);
                session.commit_transaction().await.unwrap();
                assert_eq!(places(db).await, before, "{way:?}");
            }
            customers(db).insert_one(customer(1, "Bea")).await.unwrap();
            shop.restore(way, 7).await.unwrap();
            assert_eq!(assert_current(db, &shop.orders).await, 1);
        }
    })
    .await;
}

/// A copy that was marked before the order was deleted says that its source is gone. A source that is back removes the mark.
#[tokio::test]
async fn a_kept_copy_of_a_deleted_source_is_restored() {
    testkit::run(async |db| {
        for way in WAYS {
            let shop = Shop::with_customers(db).await;
            shop.insert(7, 1).await;
            let deletion = shop.orders.delete_source(1).on_references(OnReferences::KeepCopy);
            assert_eq!(deletion.await.unwrap().copies, 1);
            let marked = copy_in(db, 7).await;
            assert!(marked.get_bool("deleted").unwrap());
            shop.remove(way, &[7]).await;
            shop.restore(way, 7).await.unwrap();
            assert_eq!(copy_in(db, 7).await, marked, "{way:?}");
            shop.remove(way, &[7]).await;
            customers(db).insert_one(customer(1, "Bea")).await.unwrap();
            shop.restore(way, 7).await.unwrap();
            assert!(!copy_in(db, 7).await.contains_key("deleted"));
            assert_eq!(assert_current(db, &shop.orders).await, 1);
        }
    })
    .await;
}

/// References of two repositories, one of them an array of snapshots, whose sources must exist.
#[tokio::test]
async fn several_repositories_bring_a_document_up_to_date() {
    testkit::run(async |db| {
        for way in WAYS {
            let shop = Shop::with_customers(db).await;
            let products = ReferenceRepository::<Document, Document>::builder(of(db, "orders"), of(db, "products"));
            let lines = Reference::new("lines").array().copied_fields(["price"]).snapshot();
            let products = products
                .reference_field("gift")
                .copied_fields(["price"])
                .add_reference(lines);
            let products = products.build().unwrap();
            products.ensure_indexes().await.unwrap();
            let of_products = db.plain_collection::<Document>("products");
            let prices = (1..=2).map(|id| doc! { "_id": id, "price": 5 });
            of_products.insert_many(prices).await.unwrap();
            shop.insert(7, 1).await;
            products.add_reference_to(7, 2).field("lines").await.unwrap();
            let quantity = doc! { "$set": { "lines.0.quantity": 3 } };
            stored(db).update_one(doc! { "_id": 7 }, quantity).await.unwrap();
            products.set_reference(7, 1).await.unwrap();
            shop.remove(way, &[7]).await;
            shop.orders.update_source(1, rename("Bea")).await.unwrap();
            for id in 1..=2 {
                products
                    .update_source(id, doc! { "$set": { "price": 6 } })
                    .await
                    .unwrap();
            }
            let restore = async || match way {
                Way::Trash => shop
                    .trash
                    .restore(7)
                    .through(&shop.orders)
                    .through(&products)
                    .await
                    .map(drop),
                Way::Archive => shop
                    .archive
                    .restore(7)
                    .through(&shop.orders)
                    .through(&products)
                    .await
                    .map(drop),
                Way::Many => {
                    let all = shop.archive.restore_many(doc! {});
                    all.through(&shop.orders).through(&products).await.map(drop)
                }
            };
            for id in 1..=2 {
                let product = of_products.find_one_and_delete(doc! { "_id": id }).await.unwrap();
                assert_names(&restore().await.unwrap_err(), NotFound, 7);
                assert_eq!(places(db).await[0], 0, "{way:?}");
                of_products.insert_one(product.unwrap()).await.unwrap();
            }
            restore().await.unwrap();
            let found = stored(db).find_one(doc! { "_id": 7 }).await.unwrap().unwrap();
            assert_eq!(copy_in(db, 7).await.get_str("name").unwrap(), "Bea");
            assert_eq!(
                found.get_document("gift").unwrap().get_i32("price").unwrap(),
                6,
                "{way:?}"
            );
            let line = found.get_array("lines").unwrap()[0].as_document().unwrap();
            assert_eq!(
                (line.get_i32("price").unwrap(), line.get_i32("quantity").unwrap()),
                (5, 3),
                "{way:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn restore_many_leaves_what_has_no_source() {
    testkit::run(async |db| {
        let shop = Shop::with_customers(db).await;
        let ids = [1, 2, 3, 4, 5, 6, 7];
        for id in ids {
            shop.insert(id, 1 + i32::from(id == 4)).await;
        }
        shop.remove(Way::Many, &ids).await;
        shop.orders.update_source(1, rename("Bea")).await.unwrap();
        shop.orders.delete_source(2).await.unwrap();
        let restore = || shop.archive.restore_many(doc! {}).through(&shop.orders).chunk(5);
        assert_eq!(restore().plan().await.unwrap().migrated.documents, 7);
        assert_names(&restore().await.unwrap_err(), NotFound, 4);
        assert_eq!(places(db).await, [6, 0, 1]);
        assert_eq!(assert_current(db, &shop.orders).await, 6);
        customers(db).insert_one(customer(2, "Cid")).await.unwrap();
        assert_eq!(restore().await.unwrap().documents, 1);
        assert_eq!(assert_current(db, &shop.orders).await, 7);
    })
    .await;
}

#[tokio::test]
async fn a_repository_of_other_documents_is_refused() {
    testkit::run(async |db| {
        let shop = Shop::with_customers(db).await;
        let trash = Trash::<Document>::builder(of(db, "users"), of(db, "deletedUsers"))
            .build()
            .unwrap();
        trash.ensure_indexes().await.unwrap();
        db.recorder().clear();
        let refused = |error: Error| {
            assert_eq!(error.kind(), InvalidArgument);
            assert!(error.to_string().contains(".users`"), "{error}");
        };
        refused(trash.restore(1).through(&shop.orders).await.unwrap_err());
        assert_eq!(db.recorder().round_trips(), 0);
        let run = shop.archive.run().through(&shop.orders).await.unwrap_err();
        assert_eq!(run.kind(), InvalidArgument, "{run}");
    })
    .await;
}

/// Orders are deleted and restored while their customers are renamed and deleted. Some of the restores are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_restored_order_dangles_beside_writers_of_sources() {
    const CUSTOMERS: i32 = 12;
    const ORDERS: i32 = 24;
    testkit::run(async |db| {
        let mut shops = Vec::new();
        for _ in 0..4 {
            shops.push(Shop::with_customers(db).await);
        }
        customers(db).delete_many(doc! {}).await.unwrap();
        add_customers(db, 0..=CUSTOMERS - 1).await;
        for id in 0..ORDERS {
            shops[0].insert(id, id % CUSTOMERS).await;
        }
        let shops = std::sync::Arc::new(shops);
        let movers = (0..8).map(|task: i32| {
            let shops = shops.clone();
            tokio::spawn(async move {
                let (shop, mut restored) = (&shops[task as usize % shops.len()], 0);
                for n in 0..30 {
                    let id = (task * 3 + n * 5) % ORDERS;
                    if n % 2 == 0 {
                        shop.trash.delete(id).await.unwrap();
                        continue;
                    }
                    let restore = shop.trash.restore(id).through(&shop.orders);
                    let done = match n % 5 {
                        0 => dropped_after(10 * n, restore).await,
                        _ => Some(restore.await),
                    };
                    match done {
                        Some(Err(error)) => assert_eq!(error.kind(), NotFound, "{error:?}"),
                        Some(Ok(_)) => restored += 1,
                        None => {}
                    }
                }
                restored
            })
        });
        let movers: Vec<_> = movers.collect();
        let writers = (0..8).map(|task: i32| {
            let shops = shops.clone();
            tokio::spawn(async move {
                let (shop, mut deleted) = (&shops[task as usize % shops.len()], 0);
                for n in 0..30 {
                    let id = (task + n * 5) % CUSTOMERS;
                    // Those of the second half only: a customer that is inserted again would have older versions.
                    if n % 3 == 0 && id >= CUSTOMERS / 2 {
                        match shop.orders.delete_source(id).await {
                            Ok(done) => deleted += u64::from(done.found),
                            Err(error) => assert_eq!(error.kind(), Referenced, "{error:?}"),
                        }
                        continue;
                    }
                    let name = format!("{task} {n}");
                    if let Err(error) = shop.orders.update_source(id, rename(&name)).await {
                        assert_eq!(error.kind(), NotFound, "{error:?}");
                    }
                }
                deleted
            })
        });
        let writers: Vec<_> = writers.collect();
        let restored: u64 = join_all(movers).await.into_iter().map(|task| task.unwrap()).sum();
        let deleted: u64 = join_all(writers).await.into_iter().map(|task| task.unwrap()).sum();
        dropped_commands(db).await;
        assert!(restored > 0);
        let shop = &shops[0];
        assert_current(db, &shop.orders).await;
        for id in 0..ORDERS {
            let restored = shop.trash.restore(id).through(&shop.orders).await;
            if let Err(error) = restored {
                assert_names(&error, NotFound, id);
            }
        }
        let current = assert_current(db, &shop.orders).await;
        let [orders, in_trash, _] = places(db).await;
        assert_eq!((orders, orders + in_trash), (current, ORDERS as usize));
        assert_eq!(all(&customers(db)).await.len() as u64, CUSTOMERS as u64 - deleted);
    })
    .await;
}
