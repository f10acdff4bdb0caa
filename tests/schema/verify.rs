//! The verification of documents, and the validator.

use futures::TryStreamExt;
use mongo_patterns::schema::{Problem, SchemaRepository};
use mongo_patterns::{Progress, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::schema::contacts::*;

fn contacts(db: &TestDatabase) -> SchemaRepository<ContactV2> {
    builder(db)
        .step(2, |old: ContactV1| Ok(ContactV2::from(old)))
        .build()
        .unwrap()
}

async fn found<D>(repository: &SchemaRepository<D>) -> Vec<(Bson, Problem, Vec<String>)>
where
    D: serde::Serialize + serde::de::DeserializeOwned,
{
    let found: Vec<_> = repository.verify().stream().try_collect().await.unwrap();
    let found = found.into_iter();
    let mut found: Vec<_> = found.map(|one| (one.document_id, one.problem, one.fields)).collect();
    found.sort_by_key(|(id, ..)| id.as_i32());
    found
}

#[tokio::test]
async fn each_problem_is_found() {
    testkit::run(async |db| {
        let info = doc! { "cell": "1" };
        let at = |id: i32, version: Bson, mut fields: Document| {
            fields.extend(doc! { "_id": id, "schemaVersion": version });
            fields
        };
        plant(
            db,
            [
                at(1, 3.into(), doc! { "name": "Ann", "contactInfo": info.clone() }),
                at(2, 2.into(), doc! { "name": "Bea", "home": "1" }),
                at(3, "3".into(), doc! {}),
                at(4, 4.into(), doc! {}),
                at(5, 1.into(), doc! { "name": "Cleo" }),
                at(6, 2.into(), doc! { "home": "1" }),
                at(7, 3.into(), doc! { "name": "Dee" }),
                at(
                    8,
                    3.into(),
                    doc! { "name": "Eve", "contactInfo": { "cell": "1", "pager": "9" }, "home": "2", "fax": null, "work": "3" },
                ),
                doc! { "_id": 9, "name": "Fay" },
            ],
        )
        .await;
        let contacts = contacts(db);
        let expected = [
            (3, Problem::InvalidVersion, vec![]),
            (4, Problem::NewerVersion { version: 4 }, vec![]),
            (5, Problem::NoStep { version: 1 }, vec![]),
            (6, Problem::NotConverted { version: 2 }, vec![]),
            (7, Problem::NotDecoded, vec![]),
            (8, Problem::UnknownFields, ["contactInfo.pager", "home", "work"].map(str::to_owned).to_vec()),
            (9, Problem::NoStep { version: 1 }, vec![]),
        ];
        let expected = expected.map(|(id, problem, fields)| (Bson::from(id), problem, fields));
        assert_eq!(found(&contacts).await, expected);
        let mut last = None;
        let verify = contacts.verify().on_progress(|at: Progress| last = Some((at.done, at.total)));
        let found_again: Vec<_> = verify.stream().try_collect().await.unwrap();
        assert_eq!((found_again.len(), last), (7, Some((9, 9))));
        // A type with all fields knows each of them.
        let all = found(&builder::<Document>(db).newest(3).build().unwrap()).await;
        assert!(all.iter().all(|(_, problem, _)| *problem != Problem::UnknownFields));
    })
    .await;
}

#[tokio::test]
async fn the_validator_refuses_what_is_no_version() {
    testkit::run(async |db| {
        let contacts = contacts(db);
        support::common::create_validated(db.database(), &contacts).await;
        let stored = stored(db);
        let valid = [Bson::Null, 1.into(), 2_i64.into(), 3.0.into(), 9.into()];
        let valid = valid.map(|version| doc! { "schemaVersion": version });
        stored.insert_many(valid.into_iter().chain([doc! {}])).await.unwrap();
        for invalid in [
            "2".into(),
            0.into(),
            1.5.into(),
            Bson::Array(vec![2.into()]),
            f64::NAN.into(),
            f64::INFINITY.into(),
        ] {
            stored.insert_one(doc! { "schemaVersion": &invalid }).await.unwrap_err();
        }
        assert_eq!(contacts.validators().len(), 1);
    })
    .await;
}
