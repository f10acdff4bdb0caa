//! Updates of one element of a list in a child.

use futures::future::join_all;
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::assert_refused;
use support::embedded::*;
use support::explain::{documents_examined, explained, has_stage};

fn phone(number: impl Into<Bson>) -> Document {
    doc! { "number": number, "calls": 1 }
}

fn with_phones(id: impl Into<Bson>, phones: impl Into<Bson>) -> Document {
    doc! { "id": id, "phones": phones }
}

/// Two addresses with the same two phones, and one without.
fn joe() -> Document {
    let phones = vec![phone("a"), phone("b")];
    let [home, work] = ["home", "work"].map(|id| with_phones(id, phones.clone()));
    patron("joe", [home, work, address("bare")])
}

/// Calls a phone of an address of joe.
async fn call(patrons: &Patrons, child: impl Into<Bson>, number: impl Into<Bson>) -> Result<bool> {
    let (child, number, update) = (child.into(), number.into(), doc! { "$inc": { "calls": 1 } });
    let updated = patrons.update_grandchild("joe", child, "phones", ("number", number), update);
    Ok(updated.await?.modified)
}

/// Updates an element, which is named by its parent, child, list, field and id.
async fn change(patrons: &Patrons, element: [&str; 5], update: &Document) -> Result<bool> {
    let [parent, child, list, field, id] = element;
    let updated = patrons.update_grandchild(parent, child, list, (field, id), update.clone());
    Ok(updated.await?.modified)
}

/// A phone that each test has.
const PHONE: [&str; 5] = ["joe", "home", "phones", "number", "a"];

async fn replant(db: &TestDatabase, children: impl IntoIterator<Item = Document>) {
    stored(db).delete_many(doc! {}).await.unwrap();
    plant(db, &patron("joe", children)).await;
}

#[tokio::test]
async fn every_operator_changes_one_element_by_one_command() {
    testkit::run(async |db| {
        plant(db, &joe()).await;
        let update = doc! {
            "$set": { "kind": "$kind", "geo.lat": 1 }, "$inc": { "calls": 2 }, "$push": { "tags": { "$each": ["x", "y"] } },
            "$unset": { "none": "" }, "$max": { "last": 3 }, "$currentDate": { "seen": true },
        };
        let patrons = patrons(db);
        assert!(change(&patrons, ["joe", "work", "phones", "number", "b"], &update).await.unwrap());
        assert_eq!(db.recorder().names(), ["update"]);
        let commands = db.recorder().commands();
        let statement = commands[0].essence();
        let statement = statement.get_array("updates").unwrap()[0].as_document().unwrap();
        let element = doc! { "$elemMatch": { "number": { "$eq": "b" } } };
        let this = doc! { "$elemMatch": { "id": { "$eq": "work" }, "phones": element } };
        assert_eq!(
            statement.get_document("q").unwrap(),
            &doc! { "_id": { "$eq": "joe" }, "addresses": this, "addresses_version": { "$exists": false } }
        );
        let filter = doc! { "element.number": { "$eq": "b" } };
        assert_eq!(statement.get_array("arrayFilters").unwrap(), &[filter.into()]);
        let explained = explained(db, &commands[0]).await;
        assert!(!has_stage(&explained, "COLLSCAN"), "{explained}");
        assert_eq!(documents_examined(&explained), 1, "{explained}");

        let mut expected = joe();
        let work = expected.get_array_mut("addresses").unwrap()[1].as_document_mut().unwrap();
        let changed = work.get_array_mut("phones").unwrap()[1].as_document_mut().unwrap();
        changed.extend(doc! { "calls": 3, "geo": { "lat": 1 }, "kind": "$kind", "last": 3, "tags": ["x", "y"] });
        let mut stored = patrons.get("joe").await.unwrap().unwrap();
        let work = stored.get_array_mut("addresses").unwrap()[1].as_document_mut().unwrap();
        let b = work.get_array_mut("phones").unwrap()[1].as_document_mut().unwrap();
        assert!(b.remove("seen").unwrap().as_datetime().is_some());
        let tags = b.remove("tags").unwrap();
        b.insert("tags", tags);
        assert_eq!(stored, expected);
    })
    .await;
}

/// An array filter alone reports an absent element as it reports one that has the values already.
#[tokio::test]
async fn a_missing_element_differs_from_an_unchanged_one_and_from_a_missing_child() {
    use ErrorKind::{ChildNotFound, GrandchildNotFound, NotFound};
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &joe()).await;
        let same = doc! { "$set": { "calls": 1 } };
        assert!(!change(&patrons, PHONE, &same).await.unwrap());
        for (parent, child, list, id, kind) in [
            ("jack", "home", "phones", "a", NotFound),
            ("joe", "club", "phones", "a", ChildNotFound),
            ("joe", "home", "phones", "c", GrandchildNotFound),
            ("joe", "home", "fax", "a", GrandchildNotFound),
            ("joe", "home", "phones.calls", "a", GrandchildNotFound),
            ("joe", "bare", "phones", "a", GrandchildNotFound),
            ("joe", "bare", "street", "a", GrandchildNotFound),
        ] {
            db.recorder().clear();
            let error = change(&patrons, [parent, child, list, "number", id], &same)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{parent} {child} {list} {id}: {error}");
            assert!(!error.is_outcome_unknown() && !error.is_contention() && !error.is_invalid_input());
            assert_eq!(db.recorder().names(), ["update", "find"]);
        }
        assert_eq!(patrons.get("joe").await.unwrap(), Some(joe()));
        let set = doc! { "$set": { "addresses": Bson::Null } };
        stored(db).update_one(doc! { "_id": "joe" }, set).await.unwrap();
        assert!(call(&patrons, "home", "a").await.unwrap_err().is_corrupt());
    })
    .await;
}

#[tokio::test]
async fn invalid_arguments_are_refused_before_a_command_is_sent() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &joe()).await;
        let valid = doc! { "$set": { "calls": 2 } };
        let lists = ["", "$", "a.$[]", "$[x]", "a..b", "$phones", "phones\0", "id", "id.x"];
        let fields = ["", "$gt", "a.b", "number\0", "0"];
        let updates = [
            doc! {},
            doc! { "calls": 2 },
            doc! { "$set": { "number": "secret" } },
            doc! { "$unset": { "number.x": "" } },
            doc! { "$set": { "$[element].calls": 2 } },
            doc! { "$rename": { "calls": "secret" } },
            doc! { "$set": { "calls": 2 }, "$inc": { "calls": 1 } },
        ];
        let lists = lists.map(|list| (list, "number", valid.clone()));
        let fields = fields.map(|field| ("phones", field, valid.clone()));
        let updates = updates.map(|update| ("phones", "number", update));
        for (list, field, update) in lists.into_iter().chain(fields).chain(updates) {
            let refused = change(&patrons, ["joe", "home", list, field, "a"], &update).await;
            let error = assert_refused(refused, ErrorKind::InvalidArgument);
            assert!(
                !format!("{error} {error:?}").contains("secret"),
                "{list} {field} {update}: {error:?}"
            );
        }
        let pipeline = vec![doc! { "$set": { "calls": 2 } }];
        let updated = patrons.update_grandchild("joe", "home", "phones", ("number", "a"), pipeline);
        assert_refused(updated.await, ErrorKind::InvalidArgument);
        for id in [Bson::Null, Bson::Array(vec![]), Bson::MaxKey] {
            assert_refused(call(&patrons, "home", id.clone()).await, ErrorKind::InvalidItemId);
            assert_refused(call(&patrons, id, "a").await, ErrorKind::InvalidItemId);
        }
        assert_eq!(db.recorder().round_trips(), 0);
        assert_eq!(patrons.get("joe").await.unwrap(), Some(joe()));
    })
    .await;
}

#[tokio::test]
async fn an_id_that_looks_like_an_operator_matches_nothing_else() {
    use ErrorKind::{ChildNotFound, GrandchildNotFound};
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &joe()).await;
        for hostile in [doc! { "$gt": "" }, doc! { "$exists": true }, doc! { "$ne": 1 }] {
            assert_refused(call(&patrons, "home", hostile.clone()).await, GrandchildNotFound);
            assert_refused(call(&patrons, hostile, "a").await, ChildNotFound);
        }
        assert_eq!(patrons.get("joe").await.unwrap(), Some(joe()));

        let ids: [Bson; 5] = [
            doc! { "$gt": "" }.into(),
            "$number".into(),
            1.into(),
            f64::NAN.into(),
            doc! { "a": [1] }.into(),
        ];
        let phones: Vec<Document> = ids.clone().map(phone).to_vec();
        for (position, id) in ids.into_iter().enumerate() {
            replant(db, [with_phones(doc! { "$ne": 1 }, phones.clone())]).await;
            assert!(call(&patrons, doc! { "$ne": 1 }, id).await.unwrap());
            let child = patrons.child("joe", doc! { "$ne": 1 }).await.unwrap().unwrap();
            let calls = child.get_array("phones").unwrap().iter();
            let calls: Vec<i32> = calls
                .map(|phone| phone.as_document().unwrap().get_i32("calls").unwrap())
                .collect();
            let expected: Vec<i32> = (0..5).map(|n| 1 + i32::from(n == position)).collect();
            assert_eq!(calls, expected);
        }
        for same in [Bson::from(1_i64), 1.0.into()] {
            assert!(call(&patrons, doc! { "$ne": 1 }, same).await.unwrap());
        }
    })
    .await;
}

#[tokio::test]
async fn elements_with_one_id_are_all_updated_and_other_elements_stay() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let [a, b]: [Bson; 2] = ["a", "b"].map(|number| phone(number).into());
        let mixed = vec![b, Bson::Null, 5.into(), a.clone(), a];
        let children = ["work", "home"].map(|id| with_phones(id, mixed.clone()));
        replant(db, children).await;
        assert!(call(&patrons, "home", "a").await.unwrap());
        let called = Bson::from(doc! { "number": "a", "calls": 2 });
        let mut expected = mixed.clone();
        expected[3..].fill(called);
        let expected = vec![with_phones("work", mixed), with_phones("home", expected)];
        assert_eq!(addresses(db, "joe").await, Some(expected.into()));

        // A list inside documents and, by its position, inside another list.
        let deep =
            doc! { "id": 1, "a": { "rooms": [{ "lamps": [{ "n": 1 }, { "n": 2 }] }, { "lamps": [{ "n": 2 }] }] } };
        replant(db, [deep]).await;
        let lit = doc! { "$set": { "lit": true } };
        let light = async |list: &str| patrons.update_grandchild("joe", 1, list, ("n", 2), lit.clone()).await;
        assert!(light("a.rooms.0.lamps").await.unwrap().modified);
        let lamps = doc! { "rooms": [{ "lamps": [{ "n": 1 }, { "n": 2, "lit": true }] }, { "lamps": [{ "n": 2 }] }] };
        let expected = doc! { "id": 1, "a": lamps };
        assert_eq!(patrons.child("joe", 1).await.unwrap().as_ref(), Some(&expected));
        assert_refused(
            patrons
                .update_grandchild("joe", 1, "a.rooms.lamps", ("n", 2), lit)
                .await,
            ErrorKind::InvalidArgument,
        );
        assert_eq!(patrons.child("joe", 1).await.unwrap(), Some(expected));
    })
    .await;
}

#[tokio::test]
async fn an_update_that_does_not_suit_the_stored_element_changes_nothing() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &joe()).await;
        for update in [
            doc! { "$push": { "calls": 1 } },
            doc! { "$set": { "calls.secret": 1 } },
            doc! { "$inc": { "kind": 1 }, "$mul": { "calls.x": 2 } },
        ] {
            let error = assert_refused(change(&patrons, PHONE, &update).await, ErrorKind::InvalidArgument);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        assert_eq!(patrons.get("joe").await.unwrap(), Some(joe()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_of_sixty_four_tasks_add_up_while_children_move() {
    testkit::run(async |db| {
        plant(db, &joe()).await;
        let tasks = (0..64).map(|task| {
            let patrons = patrons(db);
            tokio::spawn(async move {
                for n in 0..3 {
                    assert!(call(&patrons, "home", "a").await.unwrap());
                    if task < 4 {
                        let orders = [["home", "work", "bare"], ["bare", "home", "work"]];
                        patrons.reorder_children("joe", orders[n % 2]).await.unwrap();
                    }
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
        let patrons = patrons(db);
        let calls = doc! { "number": "a", "calls": 1 + 64 * 3 };
        let home = with_phones("home", vec![calls, phone("b")]);
        assert_eq!(patrons.child("joe", "home").await.unwrap(), Some(home));
        let work = with_phones("work", vec![phone("a"), phone("b")]);
        assert_eq!(patrons.child("joe", "work").await.unwrap(), Some(work));
    })
    .await;
}
