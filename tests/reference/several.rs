//! Several references of a document, several collections that refer to one source, renamed and nested fields, and
//! snapshots.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::{OnReferences, Problem, Reference};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database};

use support::reference::migrate::rename_unnoticed;
use support::reference::*;

fn invoices(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("invoices")
}

/// Orders have a customer and a payer, and the price list that was sent to the customer. Invoices have a customer too.
fn of_all_kinds(database: &Database) -> Builder {
    bare(database)
        .reference_field("customer")
        .copied_fields(["name", "address.city"])
        .copied_field("contact.mail", "mail")
        .add_reference(Reference::new("payer").copied_field("payerName", "name"))
        .add_reference(Reference::new("soldAs").copied_fields(["name"]).snapshot())
        .add_referring(
            database.collection::<Document>("invoices"),
            Reference::new("customer").copied_fields(["name"]),
        )
}

async fn with_all_kinds(db: &TestDatabase) -> Orders {
    let orders = ready(db, of_all_kinds(db.database())).await;
    for (id, name) in [(1, "Ann"), (2, "Bea")] {
        let mut customer = customer(id, name);
        customer.insert("mail", format!("{name}@example.com"));
        customer.insert("address", doc! { "city": "Dublin", "zip": "D1" });
        customers(db).insert_one(customer).await.unwrap();
    }
    check_indexes(db, &orders).await;
    orders
}

fn new_order() -> Document {
    doc! { "_id": 7, "customer": { "_id": 1 }, "payer": { "_id": 2, "since": 2020 }, "soldAs": { "_id": 1 } }
}

async fn only_order(db: &TestDatabase) -> Document {
    stored(db).find_one(doc! {}).await.unwrap().unwrap()
}

#[tokio::test]
async fn each_reference_has_its_own_fields() {
    testkit::run(async |db| {
        let orders = with_all_kinds(db).await;
        orders.insert(&new_order()).await.unwrap();
        assert_eq!(names(db), "find insert find");
        let customer = |name: &str, version: i64| {
            doc! {
                "_id": 1, "name": name, "address": { "city": "Dublin" }, "contact": { "mail": "Ann@example.com" },
                "v": version,
            }
        };
        let payer = doc! { "_id": 2, "payerName": "Bea", "v": 0_i64, "since": 2020 };
        let sold_as = doc! { "_id": 1, "name": "Ann", "v": 0_i64 };
        let expected =
            doc! { "_id": 7, "customer": customer("Ann", 0), "payer": payer.clone(), "soldAs": sold_as.clone() };
        assert_eq!(only_order(db).await, expected);

        // Both followed references of the orders, and that of the invoices.
        let updated = orders.update_source(1, rename("Cas")).await.unwrap();
        assert_eq!((updated.version, updated.copies), (1, 1));
        assert_eq!(names(db), "findAndModify update update update update update");
        let expected = doc! { "_id": 7, "customer": customer("Cas", 1), "payer": payer, "soldAs": sold_as };
        assert_eq!(only_order(db).await, expected);
        assert_eq!(findings(&orders).await, []);

        orders.set_reference(7, 1).field("payer").await.unwrap();
        let payer = doc! { "_id": 1, "payerName": "Cas", "v": 1_i64 };
        assert_eq!(only_order(db).await.get_document("payer").unwrap(), &payer);
        let updated = orders.update_source(1, rename("Dan")).await.unwrap();
        assert_eq!(updated.copies, 2);
        orders.clear_reference(7).field("payer").await.unwrap();
        assert!(!only_order(db).await.contains_key("payer"));
        assert_eq!(findings(&orders).await, []);
    })
    .await;
}

#[tokio::test]
async fn nested_and_renamed_fields_follow() {
    testkit::run(async |db| {
        let orders = with_all_kinds(db).await;
        orders.insert(&new_order()).await.unwrap();
        for (update, is_swept) in [
            (doc! { "$set": { "address.city": "Cork" } }, true),
            (doc! { "$set": { "address.zip": "D2" } }, false),
            (doc! { "$set": { "mail": "a@b.example" } }, true),
            (doc! { "$set": { "contact": 5 } }, false),
            (doc! { "$set": { "address": { "zip": "D3" } } }, true),
            (doc! { "$unset": { "mail": "" } }, true),
            (doc! { "$set": { "address": { "city": { "$name": "$$ROOT" } } } }, true),
            (doc! { "$set": { "address": "none" } }, true),
        ] {
            let updated = orders.update_source(1, update.clone()).await.unwrap();
            assert_eq!(updated.copies, u64::from(is_swept), "{update}");
            assert_eq!(findings(&orders).await, [], "{update}");
            let source = customers(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
            let order = only_order(db).await;
            let copy = order.get_document("customer").unwrap();
            let city = |document: &Document| document.get_document("address").ok()?.get("city").cloned();
            assert_eq!(city(copy), city(&source), "{update}");
            let contact = copy.get_document("contact").ok();
            let mail = contact.and_then(|contact| contact.get("mail"));
            assert_eq!(mail, source.get("mail"), "{update}");
        }
    })
    .await;
}

#[tokio::test]
async fn another_collection_follows_and_restricts_too() {
    testkit::run(async |db| {
        let orders = with_all_kinds(db).await;
        // The invoices have a repository of their own, which knows the orders.
        let invoices_of = Orders::builder(
            db.database().collection::<Document>("invoices"),
            db.database().collection::<Document>("customers"),
        )
        .reference_field("customer")
        .copied_fields(["name"])
        .build()
        .unwrap();
        let invoice = doc! { "_id": 5, "customer": { "_id": 1 } };
        invoices_of.insert(&invoice).await.unwrap();
        let updated = orders.update_source(1, rename("Cas")).await.unwrap();
        assert_eq!(updated.copies, 1);
        let invoice = invoices(db).find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(
            invoice,
            doc! { "_id": 5, "customer": { "_id": 1, "name": "Cas", "v": 1_i64 } }
        );
        let refused = orders.delete_source(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Referenced, "{refused}");

        rename_unnoticed(db, 1, "Dan").await;
        let found = findings(&orders).await;
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (found.namespace.coll.as_str(), &found.document_id),
            ("invoices", &5.into())
        );
        assert_eq!(found.fields, ["customer"]);
        let (version, source_version) = (1, 2);
        let stale = Problem::Stale {
            version,
            source_version,
        };
        assert_eq!((found.problem, &found.related_id), (stale, &Some(1.into())));
        assert_eq!(repaired(&orders).await.len(), 1);
        assert_eq!(findings(&orders).await, []);

        assert_eq!(delete(&orders, 1, OnReferences::Clear).await, (true, 1));
        let invoice = invoices(db).find_one(doc! {}).await.unwrap();
        assert_eq!(invoice, Some(doc! { "_id": 5 }));
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_stays_and_still_counts_as_a_reference() {
    testkit::run(async |db| {
        let prices = bare(db.database())
            .reference_field("customer")
            .copied_fields(["name"])
            .snapshot();
        let orders = ready(db, prices).await;
        add_customers(db, 1..=2).await;
        check_indexes(db, &orders).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let before = copy_in(db, 7).await;
        assert_eq!(before, doc! { "_id": 1, "name": "Ann", "v": 0_i64 });
        let updated = orders.update_source(1, rename("Bea")).await.unwrap();
        assert_eq!((updated.version, updated.copies), (0, 0));
        orders.refresh_copies(1).await.unwrap();
        assert_eq!(copy_in(db, 7).await, before);
        assert_eq!(findings(&orders).await, []);
        let read = orders.get(7).max_staleness(0).await.unwrap().unwrap();
        assert_eq!(read.get_document("customer").unwrap(), &before);

        let refused = orders.delete_source(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Referenced);
        assert_eq!(delete(&orders, 1, OnReferences::KeepCopy).await, (true, 1));
        assert!(copy_in(db, 7).await.get_bool("deleted").unwrap());
        assert_eq!(findings(&orders).await, []);
        let indexes = stored(db).list_index_names().await.unwrap();
        assert!(indexes.contains(&"customer._id_1".to_owned()), "{indexes:?}");
    })
    .await;
}

#[tokio::test]
async fn the_version_can_have_another_name() {
    testkit::run(async |db| {
        let orders = ready(db, builder(db.database()).version_field("rev")).await;
        customers(db)
            .insert_one(doc! { "_id": 1, "name": "Ann", "rev": 7, "v": "not it" })
            .await
            .unwrap();
        orders.insert(&order(7, 1)).await.unwrap();
        assert_eq!(copy_in(db, 7).await, doc! { "_id": 1, "name": "Ann", "rev": 7_i64 });
        assert_eq!(orders.update_source(1, rename("Bea")).await.unwrap().version, 8);
        assert_eq!(copy_in(db, 7).await, doc! { "_id": 1, "name": "Bea", "rev": 8_i64 });
        let touched = orders.update_source(1, doc! { "$set": { "rev": 1 } }).await;
        assert_eq!(touched.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(findings(&orders).await, []);
    })
    .await;
}
