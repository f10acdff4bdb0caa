//! Values that are hostile, and fields that no type has.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit};
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

use support::schema::contacts::*;

/// The type of the step's version is not that of the stored document.
#[tokio::test]
async fn a_typed_step_keeps_the_fields_that_its_type_does_not_have() {
    testkit::run(async |db| {
        let contacts = typed(db);
        let mut taylor = v1(1);
        let others = doc! { "$dollar": 1, "a.b": 2, "": 3, "tags": ["x"], "fax": null };
        taylor.extend(others.clone());
        let mut expected = v2(1);
        expected.extend(others);
        plant(db, [taylor]).await;
        assert_eq!(contacts.get(1).await.unwrap(), Some(expected.clone()));
        set_up(&contacts, db).await;
        contacts.migrate().await.unwrap();
        assert_eq!(one(db, 1).await, Some(expected));
    })
    .await;
}

#[derive(Serialize, Deserialize)]
struct Shop {
    place: Place,
    #[serde(default)]
    doors: Vec<Place>,
}

#[derive(Serialize, Deserialize)]
struct Place {
    city: String,
}

#[tokio::test]
async fn a_typed_step_keeps_fields_in_documents_and_refuses_to_lose_one_in_an_array() {
    testkit::run(async |db| {
        let rename = |old: Shop| Ok(doc! { "shop": { "city": old.place.city }, "doors": old.doors.len() as i64 });
        let keep = |old: Shop| Ok(old);
        let renamed = builder::<Document>(db).step(1, rename).build().unwrap();
        let kept = builder::<Document>(db).step(1, keep).build().unwrap();
        let shop = |doors: Document| doc! { "_id": 1, "place": { "city": "Cork", "zip": "T12" }, "doors": [doors] };
        plant(db, [shop(doc! { "city": "Cobh" })]).await;
        let expected = doc! {
            "_id": 1, "schemaVersion": 2, "place": { "city": "Cork", "zip": "T12" }, "doors": [{ "city": "Cobh" }],
        };
        assert_eq!(kept.get(1).await.unwrap(), Some(expected));
        let expected = doc! {
            "_id": 1, "schemaVersion": 2, "shop": { "city": "Cork" }, "doors": 1_i64, "place": { "zip": "T12" },
        };
        assert_eq!(renamed.get(1).await.unwrap(), Some(expected));
        plant(db, [shop(doc! { "city": "Cobh", "zip": "P24" })]).await;
        for contacts in [renamed, kept] {
            let before = one(db, 1).await;
            for error in [
                contacts.get(1).await.unwrap_err(),
                contacts.update(1, doc! { "$set": { "a": 1 } }).await.unwrap_err(),
            ] {
                assert_error(&error, ErrorKind::InvalidArgument, Some("1"), Some(&1.into()));
                assert_eq!(error.field(), Some("doors.0.zip"));
            }
            assert_eq!(one(db, 1).await, before);
        }
    })
    .await;
}

/// Ids and values are never interpreted.
#[tokio::test]
async fn hostile_values_are_stored_and_converted_literally() {
    testkit::run(async |db| {
        let ids = [
            Bson::from("$name"),
            doc! { "a": "$gt" }.into(),
            doc! { "k": "$$ROOT" }.into(),
            f64::NAN.into(),
            "".into(),
        ];
        let old = |id: &Bson| {
            doc! { "_id": id, "name": "$$ROOT", "home": "$home", "x": { "$literal": 1, "a.b": ["$x", { "$set": 1 }] } }
        };
        for contacts in both(db) {
            plant(db, ids.iter().map(old)).await;
            set_up(&contacts, db).await;
            for id in &ids {
                let read = contacts.get(id.clone()).await.unwrap().unwrap();
                assert_eq!(read.get("name"), Some(&"$$ROOT".into()));
            }
            let set = doc! { "$set": { "y": "$y" } };
            contacts.update(ids[1].clone(), set).await.unwrap();
            contacts.migrate().await.unwrap();
            for id in &ids {
                // NaN is not equal to itself here.
                let found = contacts.get(id.clone()).await.unwrap().unwrap();
                let expected = old(id);
                assert_eq!(found.get("x"), expected.get("x"));
                assert_eq!(found.get("name"), Some(&"$$ROOT".into()));
                assert_eq!(found.get_document("contactInfo").unwrap(), &doc! { "home": "$home" });
                assert_eq!(found.get("schemaVersion"), Some(&2.into()));
            }
            assert_eq!(stored(db).count_documents(doc! {}).await.unwrap(), 5);
            for id in &ids {
                let other = doc! { "x": "$x", "y": { "$dollar": 1 } };
                contacts.replace(id.clone(), &other).await.unwrap();
                assert!(contacts.delete(id.clone()).await.unwrap().found);
            }
        }
    })
    .await;
}

/// Documents whose version field has another name.
#[tokio::test]
async fn the_version_field_has_any_plain_name() {
    testkit::run(async |db| {
        for name in ["2", "größe", "a b"] {
            let contacts = builder::<Document>(db).version_field(name);
            let contacts = contacts.pipeline_step(1, stages()).build().unwrap();
            plant(db, [v1(1), v1(2)]).await;
            db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
            stored(db).drop_indexes().await.unwrap();
            set_up(&contacts, db).await;
            contacts.update(1, doc! { "$set": { "n": 1 } }).await.unwrap();
            assert_eq!(contacts.migrate().await.unwrap().documents, 1);
            for id in [1, 2] {
                assert_eq!(one(db, id).await.unwrap().get(name), Some(&2.into()));
            }
        }
    })
    .await;
}
