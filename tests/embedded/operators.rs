//! Updates of one child by operators.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::embedded::*;
use support::explain::{documents_examined, explained};

fn home() -> Document {
    doc! {
        "id": "home", "visits": 1, "rent": 100.0, "first": 5, "last": 5, "old": true,
        "tags": ["a", "b"], "marks": [1, 5, 9], "geo": { "lat": 1, "lon": 2 },
    }
}

#[tokio::test]
async fn every_operator_changes_one_child_and_nothing_else() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [address("a"), home(), address("b")])).await;
        let update = doc! {
            "$set": { "zip": "$zip", "geo.lat": 3 },
            "$unset": { "old": "" },
            "$inc": { "visits": 2, "moves": 1 },
            "$mul": { "rent": 1.5 },
            "$min": { "first": 3 },
            "$max": { "last": 3 },
            "$push": { "tags": { "$each": ["c"], "$slice": -2 } },
            "$pull": { "marks": { "$gt": 4 } },
            "$addToSet": { "kinds": "x" },
            "$currentDate": { "seen": true },
        };
        assert!(patrons.update_child("joe", "home", update).await.unwrap().modified);
        assert_eq!(db.recorder().names(), ["update"]);
        let commands = db.recorder().commands();
        assert_eq!(documents_examined(&explained(db, &commands[0]).await), 1);
        let stored = array(db, "joe").await;
        assert_eq!((&stored[0], &stored[2]), (&address("a").into(), &address("b").into()));
        let mut changed = stored[1].as_document().unwrap().clone();
        assert!(changed.remove("seen").unwrap().as_datetime().is_some());
        assert_eq!(
            changed,
            doc! {
                "id": "home", "visits": 3, "rent": 150.0, "first": 3, "last": 5,
                "tags": ["b", "c"], "marks": [1], "geo": { "lat": 3, "lon": 2 },
                "zip": "$zip", "moves": 1, "kinds": ["x"],
            }
        );
    })
    .await;
}

/// Read, add, write: concurrent increments are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_of_sixty_four_tasks_add_up() {
    testkit::run(async |db| {
        let (patrons, naive) = (patrons(db), stored(db));
        plant(db, &patron("joe", [address("a"), home()])).await;
        let visits = async || {
            let stored = array(db, "joe").await;
            stored[1].as_document().unwrap().get_i32("visits").unwrap()
        };
        // Both read before either writes.
        for read in [visits().await, visits().await] {
            let set = doc! { "$set": { "addresses.1.visits": read + 1 } };
            naive.update_one(doc! { "_id": "joe" }, set).await.unwrap();
        }
        assert_eq!(visits().await, 2, "the naive form lost one of two");

        let tasks = (0..64).map(|_| {
            let patrons = patrons.clone();
            tokio::spawn(async move {
                for _ in 0..3 {
                    let visit = doc! { "$inc": { "visits": 1 } };
                    patrons.update_child("joe", "home", visit).await.unwrap();
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
        assert_eq!(visits().await, 2 + 64 * 3);
    })
    .await;
}

#[tokio::test]
async fn refused_updates_send_nothing() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let joe = patron("joe", [home()]);
        plant(db, &joe).await;
        for update in [
            doc! {},
            doc! { "zip": "secret" },
            doc! { "$set": "secret" },
            doc! { "$rename": { "zip": "secret" } },
            doc! { "$set": { "zip": "secret" }, "$setOnInsert": { "a": 1 } },
            doc! { "$set": { "": "secret" } },
            doc! { "$set": { "$": "secret" } },
            doc! { "$set": { "tags.$[]": "secret" } },
            doc! { "$set": { "$.zip": "secret" } },
            doc! { "$set": { "tags..0": "secret" } },
            doc! { "$set": { "id": "secret" } },
            doc! { "$set": { "id.secret": 1 } },
            doc! { "$inc": { "id.x": 1 } },
            doc! { "$inc": { "visits": "secret" } },
            doc! { "$currentDate": { "seen": "secret" } },
            doc! { "$set": { "geo": "secret" }, "$inc": { "geo.lat": 1 } },
        ] {
            let error = patrons.update_child("joe", "home", update.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{update}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        let change = doc! { "zip": 1 };
        let plain = patrons.update_child("joe", "home", change).await.unwrap_err();
        assert!(plain.to_string().contains("$set"), "{plain}");
        let pipeline = vec![doc! { "$set": { "zip": 1 } }];
        let error = patrons.update_child("joe", "home", pipeline).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(db.recorder().round_trips(), 0);
        assert_eq!(patrons.get("joe").await.unwrap(), Some(joe));
    })
    .await;
}

#[tokio::test]
async fn an_update_that_does_not_suit_the_stored_child_changes_nothing() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let joe = patron("joe", [address("secret")]);
        plant(db, &joe).await;
        for update in [
            doc! { "$inc": { "street": 1 } },
            doc! { "$mul": { "street": 2 } },
            doc! { "$push": { "street": 1 } },
            doc! { "$addToSet": { "street": 1 } },
            doc! { "$pull": { "street": 1 } },
            doc! { "$set": { "street.number": 1 } },
            doc! { "$push": { "marks": { "$each": 1 } } },
        ] {
            let error = patrons.update_child("joe", "secret", update.clone()).await.unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::InvalidArgument,
                "{update}: {:?}",
                error.as_driver_error()
            );
            assert!(error.is_invalid_input() && !error.is_transient());
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        assert_eq!(patrons.get("joe").await.unwrap(), Some(joe));
    })
    .await;
}

/// As in MongoDB: a number is a position, and the positional operators are not supported.
#[tokio::test]
async fn a_number_in_a_path_is_the_position_of_an_element() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let mut child = home();
        child.insert("locations", vec![doc! { "n": 1 }, doc! { "n": 2 }]);
        plant(db, &patron("joe", [address("a"), child.clone()])).await;
        let update = doc! { "$inc": { "locations.0.n": 5 }, "$set": { "marks.2": 0 } };
        patrons.update_child("joe", "home", update).await.unwrap();
        child.insert("locations", vec![doc! { "n": 6 }, doc! { "n": 2 }]);
        child.insert("marks", vec![1, 5, 0]);
        let expected: Bson = vec![address("a"), child].into();
        assert_eq!(addresses(db, "joe").await, Some(expected.clone()));
        db.recorder().clear();
        for path in ["locations.$.n", "locations.$[].n", "locations.$[one].n"] {
            let update = doc! { "$inc": { path: 5 } };
            let error = patrons.update_child("joe", "home", update).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
            assert!(
                error.to_string().contains("positional operator, $, $[] or $[name]"),
                "{error}"
            );
        }
        assert_eq!(db.recorder().round_trips(), 0);
        assert_eq!(addresses(db, "joe").await, Some(expected));
    })
    .await;
}
