//! References by another unique field than `_id`: posts, whose authors are named by their username.

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::OnReferences;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::{all, contents, until_blocked};
use support::explain::explain;
use support::random::random;
use support::reference::source_key::*;
use support::reference::*;

/// Returns a repository over ann, who has the id 1, and bob, who has 2.
pub async fn with_people(db: &TestDatabase) -> Orders {
    let orders = ready(db, by_username(builder(db.database()))).await;
    let people = [person(1, "ann", "Ann"), person(2, "bob", "Bob")];
    customers(db).insert_many(people).await.unwrap();
    check_indexes(db, &orders).await;
    orders
}

pub fn by(id: impl Into<Bson>, customer: impl Into<Bson>) -> Document {
    doc! { "_id": id, "customer": customer.into() }
}

#[tokio::test]
async fn documents_name_a_source_by_its_key_alone_or_in_a_document() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        let copy = doc! { "_id": 1, "username": "ann", "name": "Ann", "v": 0_i64 };
        for (n, given) in [
            Bson::from("ann"),
            doc! { "username": "ann", "name": "?" }.into(),
            doc! { "_id": null, "username": "ann" }.into(),
            // As a document has it that was read.
            copy.clone().into(),
        ]
        .into_iter()
        .enumerate()
        {
            let id = i32::try_from(n).unwrap();
            orders.insert(&by(id, given)).await.unwrap();
            assert_eq!(copy_in(db, id).await, copy);
            let find = db.recorder().commands().into_iter().next().unwrap();
            assert_eq!(names(db), "find insert find");
            assert_eq!(
                find.essence().get_document("filter").unwrap(),
                &doc! { "username": { "$eq": "ann" } }
            );
            let examined = explain(db, &find).await;
            assert_eq!(
                (examined.keys, examined.documents, examined.index.as_str()),
                (1, 1, "username_1")
            );
        }
        let many = doc! { "_id": 9, "customer": null, "members": ["bob", { "username": "ann", "role": "x" }] };
        orders.insert(&many).await.unwrap();
        let stored = stored(db).find_one(doc! { "_id": 9 }).await.unwrap().unwrap();
        let bob = doc! { "_id": 2, "username": "bob", "name": "Bob", "v": 0_i64 };
        let mut ann = copy;
        ann.insert("role", "x");
        assert_eq!(stored, doc! { "_id": 9, "customer": null, "members": [bob, ann] });
        assert_eq!(findings(&orders).await, []);
    })
    .await;
}

#[tokio::test]
async fn what_names_no_source_is_refused_and_nothing_is_stored() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        let others = [
            doc! { "_id": 3, "name": "without" },
            person(4, vec!["eve", "mallory"], "several"),
            person(5, doc! { "a": 1 }, "document"),
            person("ann", "zoe", "whose id is the key of another one"),
        ];
        customers(db).insert_many(others).await.unwrap();
        let before = contents(db).await;
        let regex = Bson::RegularExpression(mongodb::bson::Regex {
            pattern: "a".try_into().unwrap(),
            options: "".try_into().unwrap(),
        });
        for (given, kind) in [
            ("ANN".into(), ErrorKind::NotFound),
            ("eve".into(), ErrorKind::NotFound),
            (".*".into(), ErrorKind::NotFound),
            ("$username".into(), ErrorKind::NotFound),
            (1.into(), ErrorKind::NotFound),
            (doc! { "_id": 2, "username": "ann" }.into(), ErrorKind::NotFound),
            (doc! { "_id": "ann" }.into(), ErrorKind::InvalidArgument),
            (doc! { "$gt": "" }.into(), ErrorKind::InvalidArgument),
            (doc! { "username": { "$gt": "" } }.into(), ErrorKind::InvalidArgument),
            (doc! { "username": { "a": 1 } }.into(), ErrorKind::InvalidArgument),
            (doc! { "username": ["ann"] }.into(), ErrorKind::InvalidArgument),
            (doc! { "username": null }.into(), ErrorKind::InvalidArgument),
            (vec!["ann"].into(), ErrorKind::InvalidArgument),
            (regex, ErrorKind::InvalidArgument),
        ] {
            let refused = orders.insert(&by(7, given.clone())).await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{given}: {refused}");
            let many = [by(8, "bob"), by(9, given.clone())];
            let refused = orders.insert_many(&many).await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{given}: {refused}");
            assert!(!refused.to_string().contains("ann"), "{refused}");
        }
        for members in [vec!["ann".into(), doc! { "username": "ann" }.into()], vec![Bson::Null]] {
            let refused = orders.insert(&doc! { "_id": 7, "members": members }).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(contents(db).await, before);
        orders.insert(&by(7, "ann")).await.unwrap();
        let before = contents(db).await;
        for (source, kind) in [
            (Bson::from("unknown"), ErrorKind::NotFound),
            (doc! { "a": 1 }.into(), ErrorKind::InvalidArgument),
            (Bson::Null, ErrorKind::InvalidArgument),
        ] {
            assert_eq!(orders.set_reference(7, source.clone()).await.unwrap_err().kind(), kind);
            let added = orders.add_reference_to(7, source).field("members").await;
            assert_eq!(added.unwrap_err().kind(), kind);
        }
        assert_eq!(contents(db).await, before);
    })
    .await;
}

/// The server takes equal numbers of different types for the same key, so the index has one of them.
#[tokio::test]
async fn numbers_name_a_source_in_any_type() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        let people = [
            person(3, 7_i64, "seven"),
            person(4, "7", "text"),
            person(5, 7.5, "half"),
        ];
        customers(db).insert_many(people).await.unwrap();
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        let names: [(Bson, i32); 9] = [
            (decimal("7.0"), 3),
            (decimal("7"), 3),
            (decimal("0.7E+1"), 3),
            (decimal("7.50"), 5),
            (7.into(), 3),
            (7.0.into(), 3),
            (7_i64.into(), 3),
            ("7".into(), 4),
            (7.5.into(), 5),
        ];
        for (n, (name, expected)) in (0..).zip(names) {
            orders.insert(&by(n, name)).await.unwrap();
            assert_eq!(copy_in(db, n).await.get("_id"), Some(&expected.into()));
        }
        for twice in [[Bson::from(7), 7.0.into()], [7.5.into(), decimal("7.5")]] {
            let twice = orders.insert(&doc! { "_id": 9, "members": twice.to_vec() }).await;
            assert_eq!(twice.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let again = customers(db).insert_one(person(6, 7.0, "again")).await;
        assert!(again.is_err());
    })
    .await;
}

#[tokio::test]
async fn many_documents_read_each_source_once() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        let many: Vec<Document> = (0..50)
            .map(|id| by(id, if id % 3 == 0 { "ann" } else { "bob" }))
            .collect();
        orders.insert_many(&many).await.unwrap();
        let find = db.recorder().commands().remove(2);
        assert_eq!(names(db), "update update find insert commitTransaction");
        assert_eq!(
            find.essence().get_document("filter").unwrap(),
            &doc! { "username": { "$in": ["ann", "bob"] } }
        );
        assert_eq!(copy_in(db, 48).await.get("_id"), Some(&1.into()));
        assert_eq!(copy_in(db, 49).await.get("_id"), Some(&2.into()));
        assert_eq!(findings(&orders).await, []);
        let found = all(&customers(db)).await;
        assert!(found.iter().all(|one| !one.contains_key("mongo_patterns_held")));
    })
    .await;
}

#[tokio::test]
async fn references_are_set_by_the_key_and_removed_by_the_id() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        orders.insert(&by(7, "ann")).await.unwrap();
        db.recorder().clear();
        assert!(orders.set_reference(7, "bob").await.unwrap().modified);
        assert_eq!(names(db), "find update find");
        assert_eq!(
            copy_in(db, 7).await,
            doc! { "_id": 2, "username": "bob", "name": "Bob", "v": 0_i64 }
        );
        let add = |name: &'static str| orders.add_reference_to(7, name).field("members");
        assert!(add("ann").await.unwrap().modified);
        assert!(!add("ann").await.unwrap().modified);
        let by_key = orders.remove_reference(7, "ann").field("members");
        assert!(!by_key.await.unwrap().modified);
        assert!(orders.remove_reference(7, 1).field("members").await.unwrap().modified);
        assert_eq!(findings(&orders).await, []);
        assert_eq!(orders.delete_source(2).await.unwrap_err().kind(), ErrorKind::Referenced);
        assert_eq!(delete(&orders, 2, OnReferences::KeepCopy).await, (true, 1));
        let missing = orders.set_reference(7, "bob").await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn a_changed_key_reaches_the_copies_and_names_the_source_from_then_on() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        for id in 0..3 {
            orders.insert(&by(id, "ann")).await.unwrap();
        }
        let set = |username: &str| doc! { "$set": { "username": username } };
        let taken = orders.update_source(1, set("bob")).await.unwrap_err();
        assert_eq!(
            (taken.kind(), taken.stored_count()),
            (ErrorKind::DuplicateKey, None),
            "{taken}"
        );
        for nested in [
            doc! { "$set": { "username": ["anna"] } },
            doc! { "$set": { "username": { "a": "anna" } } },
            doc! { "$set": { "username.a": "anna" } },
            doc! { "$addToSet": { "username": "anna" } },
        ] {
            let refused = orders.update_source(1, nested).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        }
        let updated = orders.update_source(1, set("anna")).await.unwrap();
        assert_eq!((updated.version, updated.copies), (1, 3));
        assert_eq!(
            copy_in(db, 0).await,
            doc! { "_id": 1, "username": "anna", "name": "Ann", "v": 1_i64 }
        );
        let unknown = orders.insert(&by(7, "ann")).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
        // The key of the first source is now that of the second one.
        orders.update_source(2, set("ann")).await.unwrap();
        orders.insert(&by(7, "ann")).await.unwrap();
        assert_eq!(copy_in(db, 7).await.get("_id"), Some(&2.into()));
        assert_eq!(copy_in(db, 0).await.get("_id"), Some(&1.into()));
        let unset = doc! { "$unset": { "username": "" } };
        orders.update_source(1, unset).await.unwrap();
        assert_eq!(copy_in(db, 0).await, doc! { "_id": 1, "name": "Ann", "v": 2_i64 });
        assert_eq!(findings(&orders).await, []);
    })
    .await;
}

/// Asserts that each copy has the values of its source, and that each order has the source that its `_id` begins with.
async fn assert_attached(db: &TestDatabase, orders: &Orders) -> usize {
    assert_eq!(findings(orders).await, []);
    let stored = all(&stored(db)).await;
    for order in &stored {
        let source = order.get_document("customer").unwrap().get_i32("_id").unwrap();
        let id = order.get_str("_id").unwrap();
        assert!(id.starts_with(&format!("{source}-")), "{order}");
    }
    stored.len()
}

/// Each source has one key after the other, which no other source ever has: an insert by any of them stores a reference to
/// this source, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_change_beside_writers_leave_every_copy_right() {
    testkit::run(async |db| {
        const CHANGES: i32 = 25;
        let of_process = || ready(db, patient(by_username(builder(db.database()))));
        let processes = [of_process().await, of_process().await];
        let people = (1..=3).map(|id| person(id, format!("{id}-0"), "x"));
        customers(db).insert_many(people).await.unwrap();
        let changes = (1..=3).map(|id| {
            let orders = processes[0].clone();
            tokio::spawn(async move {
                for n in 1..=CHANGES {
                    let set = doc! { "$set": { "username": format!("{id}-{n}") } };
                    orders.update_source(id, set).await.unwrap();
                }
            })
        });
        let inserts = (0..8).map(|writer: usize| {
            let (orders, customers) = (processes[writer % 2].clone(), customers(db));
            tokio::spawn(async move {
                let (mut inserted, mut random) = (0, random(writer));
                for n in 0..25 {
                    let id = random.i32(1..=3);
                    let now = customers.find_one(doc! { "_id": id }).await.unwrap().unwrap();
                    let key = now.get_str("username").unwrap();
                    let id = format!("{id}-{writer}-{n}");
                    let order = by(id.as_str(), key);
                    let done = match n % 3 {
                        0 => orders.insert_many(&[order]).await.map(drop),
                        1 => orders.insert(&order).await.map(drop),
                        _ => {
                            let bare = doc! { "_id": &id };
                            orders.insert(&bare).await.unwrap();
                            let set = orders.set_reference(id, key).await;
                            if set.is_err() {
                                orders.collection().delete_one(bare).await.unwrap();
                            }
                            set.map(drop)
                        }
                    };
                    match done {
                        Ok(()) => inserted += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
                    }
                }
                inserted
            })
        });
        let (changes, inserts): (Vec<_>, Vec<_>) = (changes.collect(), inserts.collect());
        let inserted: usize = join_all(inserts).await.into_iter().map(Result::unwrap).sum();
        for changed in join_all(changes).await {
            changed.unwrap();
        }
        assert_eq!(assert_attached(db, &processes[0]).await, inserted);
        assert!(inserted > 20, "{inserted}");
        for person in all(&customers(db)).await {
            assert_eq!(number(&person, "v"), i64::from(CHANGES));
        }
    })
    .await;
}

/// The snapshot of a transaction has the key, and the lock keeps it until the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_the_caller_keeps_the_key() {
    testkit::run(async |db| {
        let orders = with_people(db).await;
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        orders.insert(&by("1-a", "ann")).session(&mut session).await.unwrap();
        let many = [by("2-b", "bob"), by("1-c", "ann")];
        orders.insert_many(&many).session(&mut session).await.unwrap();
        orders.set_reference("1-a", "ann").session(&mut session).await.unwrap();
        let changes = {
            let orders = orders.clone();
            let set = doc! { "$set": { "username": "anna" } };
            tokio::spawn(async move { orders.update_source(1, set).await })
        };
        until_blocked(db, doc! { "command.findAndModify": "customers" }).await;
        session.commit_transaction().await.unwrap();
        assert_eq!(changes.await.unwrap().unwrap().copies, 2);
        assert_eq!(assert_attached(db, &orders).await, 3);
        session.start_transaction().await.unwrap();
        let unknown = by("1-d", "ann");
        let unknown = orders.insert(&unknown).session(&mut session).await;
        assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
        let _ = session.abort_transaction().await;
        assert_eq!(assert_attached(db, &orders).await, 3);
    })
    .await;
}
