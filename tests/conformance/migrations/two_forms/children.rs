//! Embedded children and those of a subset, embedded children and references.

use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database};

use super::{Form, Items, Op, Write, Writers, items_of};
use support::common::all;
use support::embedded::migration::{addresses, index_reference};
use support::embedded::{self, Patrons};
use support::pace::Pace;
use support::subset::{Any, Repository, builder_of, day, newest, product, reviews};

const KEYS: i32 = 20;
const EACH: i32 = 30;

/// Items of all keys, each with the value 0.
fn some(each: i32) -> Items {
    let items = (1..=KEYS).flat_map(|key| (0..each).map(move |id| ((key, id), 0)));
    items.collect()
}

fn review(id: i32, n: i32) -> Document {
    doc! { "review_id": id, "published_date": day(i64::from(id * 7 % 60)), "n": n }
}

fn embedding(database: &Database) -> EmbeddedRepository<Document, Document> {
    let products = EmbeddedRepository::builder(database.collection::<Document>("product"));
    let products = products.children_field("reviews").child_id_field("review_id");
    products.max_children(10_000).build().unwrap()
}

fn of_subset(database: &Database) -> Any {
    builder_of(database, newest().size(5)).build().unwrap()
}

/// As a service writes embedded children, whose migration may have begun.
fn embedded_form<D: Send + Sync + 'static>(
    children: EmbeddedRepository<D, Document>,
    child: impl Fn(i32, i32) -> Document + Clone + Send + Sync + 'static,
) -> Form {
    Form::new(&[ErrorKind::NewerVersion], move |Write { key, id, op, value }| {
        let (children, child) = (children.clone(), child.clone());
        async move {
            match op {
                Op::Add => children.add_child(key, &child(id, value)).await,
                Op::Change => {
                    let set = doc! { "$set": { "n": value } };
                    children.update_child(key, id, set).await.map(drop)
                }
                Op::Remove => {
                    let removed = children.remove_child(key, id).await?;
                    assert!(removed.found, "{key}, {id}");
                    Ok(())
                }
            }
        }
    })
}

fn subset_form(products: Any) -> Form {
    Form::new(&[ErrorKind::NotMigrated], move |Write { key, id, op, value }| {
        let products = products.clone();
        async move {
            match op {
                Op::Add => {
                    let mut new = doc! { "product_id": key };
                    new.extend(review(id, value));
                    products.insert(&new).await.map(drop)
                }
                Op::Change => {
                    let set = doc! { "$set": { "n": value } };
                    products.update(key, id, set).await.map(drop)
                }
                Op::Remove => {
                    let deleted = products.delete(key, id).await?;
                    assert!(deleted.found, "{key}, {id}");
                    Ok(())
                }
            }
        }
    })
}

async fn stored_reviews(db: &TestDatabase) -> Items {
    let stored = all(&reviews(db)).await.into_iter();
    items_of(stored.map(|review| {
        let number = |field| review.get_i32(field).unwrap();
        ((number("product_id"), number("review_id")), number("n"))
    }))
}

/// Both repositories add, change and remove, while the migration is killed again and again, each time a few commands later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_children_and_a_subset_have_writers_during_the_migration() {
    testkit::run(async |db| {
        let initial = some(EACH);
        let products = (1..=KEYS).map(|key| {
            let reviews: Vec<Document> = (0..EACH).map(|id| review(id, 0)).collect();
            doc! { "_id": key, "reviews": reviews }
        });
        product(db).insert_many(products).await.unwrap();
        let mover = of_subset(db.database());
        mover.ensure_indexes().await.unwrap();

        let database = db.plain_client().database(db.database().name());
        let forms = [
            embedded_form(embedding(&database), review),
            subset_form(of_subset(&database)),
        ];
        let pace = Pace::of(100);
        let ops = &[Op::Add, Op::Change, Op::Remove];
        let writers = Writers::start(&initial, KEYS, &forms, ops, &pace);
        for commands in 1.. {
            pace.keep(60).await;
            db.recorder().clear();
            let sent = db.recorder().sent(8 + commands);
            let migrated = tokio::select! {
                biased;
                () = sent => None,
                migrated = mover.migrate_from_embedded().chunk(40).into_future() => Some(migrated),
            };
            if let Some(migrated) = migrated {
                // Also if products were empty for a moment.
                migrated.unwrap();
                break;
            }
        }
        let acknowledged = writers.end().await;
        assert!(acknowledged.refused.iter().all(|refused| *refused > 0));
        mover.migrate_from_embedded().allow_non_empty_target().await.unwrap();
        assert_eq!(stored_reviews(db).await, acknowledged.items);
        assert_eq!(support::subset::wrong(&product(db), &reviews(db), 5).await, []);
    })
    .await;
}

fn referring(id: i32, value: i32) -> Document {
    doc! { "_id": id, "n": value }
}

fn reference_form(addresses: Collection<Document>) -> Form {
    Form::new(&[], move |Write { key, id, value, .. }| {
        let addresses = addresses.clone();
        async move {
            let mut new = referring(id, value);
            new.insert("patron_id", key);
            addresses.insert_one(new).await.map(drop).map_err(Error::from)
        }
    })
}

async fn embedded_addresses(db: &TestDatabase) -> Vec<((i32, i32), i32)> {
    let patrons = all(&embedded::stored(db)).await;
    let of_patron = |patron: Document| {
        let key = patron.get_i32("_id").unwrap();
        let stored = patron.get_array("addresses").cloned().unwrap_or_default();
        stored.into_iter().map(move |address| {
            let number = |field| address.as_document().unwrap().get_i32(field).unwrap();
            ((key, number("_id")), number("n"))
        })
    };
    patrons.into_iter().flat_map(of_patron).collect()
}

/// Writers that were not stopped are an error, and what to do about it loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_references_and_of_embedded_children_are_noticed_by_the_migration() {
    testkit::run(async |db| {
        let each = 5;
        let patrons = (1..=KEYS).map(|key| doc! { "_id": key });
        embedded::stored(db).insert_many(patrons).await.unwrap();
        let of_key = |key: i32| (0..each).map(move |n| (key, key * 10 + n));
        let initial: Items = (1..=KEYS).flat_map(of_key).map(|item| (item, 0)).collect();
        let referring_to = |key: i32, id: i32, value: i32| {
            let mut document = referring(id, value);
            document.insert("patron_id", key);
            document
        };
        let stored = initial.keys().map(|(key, id)| referring_to(*key, *id, 0));
        addresses(db).insert_many(stored).await.unwrap();
        index_reference(db).await;
        let patrons: Patrons = Patrons::builder(db.collection::<Document>("patron"))
            .children_field("addresses")
            .build()
            .unwrap();
        let forms = [reference_form(addresses(db)), embedded_form(patrons.clone(), referring)];
        let pace = Pace::of(0);
        let writers = Writers::start(&initial, KEYS, &forms, &[Op::Add], &pace);
        let source = addresses(db);
        let migrate = patrons.migrate_from_references(&source, "patron_id").chunk(4);
        let migrated = migrate.on_progress(|_| pace.add(10)).await;
        let acknowledged = writers.end().await;
        let error = migrated.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CountMismatch, "{error:?}");
        // As its text says.
        let source: Items = items_of(all(&addresses(db)).await.into_iter().map(|address| {
            let number = |field| address.get_i32(field).unwrap();
            ((number("patron_id"), number("_id")), number("n"))
        }));
        let missing = embedded_addresses(db).await.into_iter();
        let missing = missing.filter(|(item, _)| !source.contains_key(item));
        let missing: Vec<Document> = missing.map(|((key, id), n)| referring_to(key, id, n)).collect();
        assert!(!missing.is_empty());
        addresses(db).insert_many(missing).await.unwrap();
        let unset = doc! { "$unset": { "addresses": 1 } };
        embedded::stored(db).update_many(doc! {}, unset).await.unwrap();
        patrons
            .migrate_from_references(&addresses(db), "patron_id")
            .await
            .unwrap();
        assert_eq!(items_of(embedded_addresses(db).await), acknowledged.items);
    })
    .await;
}
