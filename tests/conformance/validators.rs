//! The validators of subset, history and reference: they accept what the repositories write, and refuse what breaks the pattern. Those of
//! the other patterns are in their folders.

use mongo_patterns::Repository;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::reference::{OnReferences, Reference, ReferenceRepository};
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns_testkit as testkit;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::common::create_validated;

async fn refuses(collection: &Collection<Document>, valid: &Document, changes: &[(&str, Option<Bson>)]) {
    for (field, value) in changes {
        let mut invalid = valid.clone();
        match value {
            Some(value) => drop(invalid.insert(*field, value.clone())),
            None => drop(invalid.remove(field)),
        }
        let refused = collection.insert_one(&invalid).await;
        assert!(refused.is_err(), "{invalid}");
    }
    let inserted = collection.insert_one(valid).await.unwrap();
    let deleted = collection.delete_one(doc! { "_id": inserted.inserted_id });
    deleted.await.unwrap();
}

#[tokio::test]
async fn the_validators_of_subsets_bound_them_and_require_ids() {
    testkit::run(async |db| {
        let plain = |name| db.plain_collection::<Document>(name);
        let of = |name| db.collection::<Document>(name);
        let products = SubsetRepository::<Document, Document>::builder(of("product"), of("review"))
            .subset(Subset::new("reviews").sort(doc! { "stars": -1 }).size(2))
            .parent_field("product_id")
            .child_id_field("review_id")
            .total_field("total")
            .sum("stars", "sum_of_stars")
            .sum("helpful", "sum_of_helpful")
            .build()
            .unwrap();
        create_validated(db.database(), &products).await;
        products.ensure_indexes().await.unwrap();
        plain("product")
            .insert_one(doc! { "_id": 1, "name": "Widget" })
            .await
            .unwrap();
        let review = |id: i32, stars: i32| doc! { "product_id": 1, "review_id": id, "stars": stars };
        for id in 0..5 {
            products.insert(&review(id, id)).await.unwrap();
        }
        products.replace(&review(0, 9)).await.unwrap();
        products.update(1, 1, doc! { "$set": { "stars": 7 } }).await.unwrap();
        products.delete(1, 0).await.unwrap();
        products.refresh_all().await.unwrap();
        let product = plain("product").find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(product.get_array("reviews").unwrap().len(), 2);

        let three = vec![Bson::from(doc! {}), doc! {}.into(), doc! {}.into()];
        let invalid = [
            ("reviews", Some(three.into())),
            ("reviews", Some(Bson::Null)),
            ("total", Some((-1).into())),
        ];
        refuses(&plain("product"), &doc! { "reviews": [{}, {}], "total": 2 }, &invalid).await;
        let invalid = [
            ("product_id", None),
            ("product_id", Some(Bson::Null)),
            ("review_id", None),
            ("stars", Some(vec![1].into())),
            ("helpful", Some(vec![1].into())),
        ];
        refuses(&plain("review"), &review(77, 3), &invalid).await;
    })
    .await;
}

#[tokio::test]
async fn the_validators_of_a_history_require_id_number_and_time() {
    testkit::run(async |db| {
        let plain = |name| db.plain_collection::<Document>(name);
        let [current, revisions] = ["currentPolicies", "policyRevisions"].map(plain);
        let of = |name| db.collection::<Document>(name);
        let policies = HistoryRepository::<Document>::builder(of("currentPolicies"), of("policyRevisions"))
            .id_field("policyId")
            .revision_field("revision")
            .time_field("dateSet")
            .build()
            .unwrap();
        create_validated(db.database(), &policies).await;
        policies.ensure_indexes().await.unwrap();
        policies.insert(&doc! { "policyId": 1, "items": [] }).await.unwrap();
        policies.update(1, doc! { "$push": { "items": "car" } }).await.unwrap();
        policies
            .replace(1, &doc! { "policyId": 1, "items": ["house"] })
            .await
            .unwrap();
        policies.delete(1).await.unwrap();
        policies.restore(1, 2).await.unwrap();
        assert_eq!(current.count_documents(doc! {}).await.unwrap(), 1);
        assert_eq!(revisions.count_documents(doc! {}).await.unwrap(), 5);

        let valid = doc! { "policyId": 2, "revision": 1, "dateSet": DateTime::now() };
        let invalid = [
            ("policyId", None),
            ("policyId", Some(Bson::Null)),
            ("policyId", Some(vec![1].into())),
            ("revision", None),
            ("revision", Some(0.into())),
            ("revision", Some(1.5.into())),
            ("revision", Some("1".into())),
            ("dateSet", None),
            ("dateSet", Some("today".into())),
            ("deleted", Some("yes".into())),
        ];
        for collection in [&current, &revisions] {
            refuses(collection, &valid, &invalid).await;
        }
        // Numbers of the shell are doubles.
        let inserted = current.insert_one(doc! { "policyId": 2, "revision": 1.0, "dateSet": DateTime::now() });
        inserted.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_validators_of_references_require_ids_and_versions() {
    testkit::run(async |db| {
        let plain = |name| db.plain_collection::<Document>(name);
        let of = |name| db.collection::<Document>(name);
        let products = Reference::new("products").copied_fields(["name"]).array();
        let orders = ReferenceRepository::<Document, Document>::builder(of("orders"), of("customers"))
            .reference_field("customer")
            .copied_fields(["name"])
            .add_reference(products)
            .build()
            .unwrap();
        create_validated(db.database(), &orders).await;
        orders.ensure_indexes().await.unwrap();
        plain("customers")
            .insert_many([1, 2, 3].map(|id| doc! { "_id": id, "name": "Ann" }))
            .await
            .unwrap();
        let order = doc! { "_id": 1, "customer": { "_id": 1 }, "products": [{ "_id": 2, "quantity": 5 }] };
        orders.insert(&order).await.unwrap();
        orders.insert(&doc! { "_id": 2, "customer": null }).await.unwrap();
        orders.insert(&doc! { "_id": 3 }).await.unwrap();
        let updated = orders.update_source(1, doc! { "$set": { "name": "Anna" } });
        updated.await.unwrap();
        orders.set_reference(2, 3).await.unwrap();
        let deleted = orders.delete_source(3).on_references(OnReferences::KeepCopy);
        deleted.await.unwrap();
        orders.clear_reference(2).await.unwrap();

        let orders = plain("orders");
        let valid = doc! { "customer": { "_id": 1, "name": "Anna", "v": 2 }, "products": [{ "_id": 2, "v": 0_i64 }] };
        let invalid = [
            ("customer", Some(Bson::Int32(1))),
            ("customer", Some(doc! { "name": "Ann" }.into())),
            ("customer", Some(doc! { "_id": 1, "v": "2" }.into())),
            ("customer", Some(doc! { "_id": 1, "v": -1 }.into())),
            ("customer", Some(doc! { "_id": 1, "deleted": 1 }.into())),
            ("products", Some(doc! { "_id": 2 }.into())),
            ("products", Some(vec![Bson::Int32(2)].into())),
        ];
        refuses(&orders, &valid, &invalid).await;
        let invalid = [
            ("v", Some("2".into())),
            ("v", Some((-1).into())),
            ("v", Some(1.5.into())),
        ];
        refuses(&plain("customers"), &doc! { "name": "Bob", "v": 7 }, &invalid).await;
    })
    .await;
}
