//! Documents of several versions in the repositories of other patterns.

use std::sync::LazyLock;
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::archive::{Archive, Trash};
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::pages::Pages;
use mongo_patterns::schema::{HasVersions, SchemaRepository, Versioned, Versions};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit};
use mongodb::bson::{self, Bson, DateTime, Document, doc};
use serde::{Deserialize, Serialize};

use super::repositories::of;

/// The type of the first release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PatientV1 {
    #[serde(rename = "_id")]
    id: i32,
    name: String,
}

/// That of the second one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Patient {
    #[serde(rename = "_id")]
    id: i32,
    names: Vec<String>,
}

static FIRST: LazyLock<Versions<PatientV1>> =
    LazyLock::new(|| Versions::builder("schemaVersion").newest(1).build().unwrap());

static SECOND: LazyLock<Versions<Patient>> = LazyLock::new(|| {
    let convert = |old: PatientV1| {
        Ok(Patient {
            id: old.id,
            names: vec![old.name],
        })
    };
    Versions::builder("schemaVersion").step(1, convert).build().unwrap()
});

impl HasVersions for PatientV1 {
    fn versions() -> &'static Versions<Self> {
        &FIRST
    }
}

impl HasVersions for Patient {
    fn versions() -> &'static Versions<Self> {
        &SECOND
    }
}

fn first(id: i32) -> Versioned<PatientV1> {
    Versioned(PatientV1 { id, name: "Ann".into() })
}

fn second(id: i32, names: &[&str]) -> Versioned<Patient> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Versioned(Patient { id, names })
}

#[test]
fn a_document_of_any_version_is_decoded_and_the_newest_one_is_written() {
    let decoded = |stored: Document| bson::deserialize_from_document::<Versioned<Patient>>(stored);
    for stored in [
        doc! { "_id": 1, "name": "Ann" },
        doc! { "_id": 1, "schemaVersion": 1_i64, "name": "Ann" },
        doc! { "_id": 1, "schemaVersion": null, "name": "Ann" },
        doc! { "names": ["Ann"], "schemaVersion": 2, "_id": 1 },
    ] {
        assert_eq!(decoded(stored.clone()).unwrap(), second(1, &["Ann"]), "{stored}");
    }
    for (version, reason) in [
        (Bson::from(3), "version 3"),
        ("2".into(), "no version"),
        (2.5.into(), "no version"),
    ] {
        let error = decoded(doc! { "_id": 1, "schemaVersion": version, "names": [] }).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    let written = doc! { "_id": 1, "schemaVersion": 2, "names": ["Ann"] };
    assert_eq!(bson::serialize_to_document(&second(1, &["Ann"])).unwrap(), written);
    let json = serde_json::json!({ "_id": 1, "schemaVersion": 2, "names": ["Ann"] });
    assert_eq!(serde_json::to_value(second(1, &["Ann"])).unwrap(), json);
    // In a field of another document.
    let inner: Vec<Versioned<Patient>> =
        bson::deserialize_from_bson(bson::bson!([{ "_id": 1, "name": "Ann" }, written])).unwrap();
    assert_eq!(inner, [second(1, &["Ann"]), second(1, &["Ann"])]);
}

#[test]
fn steps_with_a_gap_are_refused() {
    let versions = Versions::<Patient>::builder("v")
        .step(1, |old: Document| Ok(old))
        .step(3, |old: Document| Ok(old));
    assert_eq!(versions.build().unwrap_err().kind(), ErrorKind::Configuration);
    let path = Versions::<Patient>::builder("a.b").build();
    assert_eq!(path.unwrap_err().kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn a_history_has_documents_and_revisions_of_two_versions() {
    testkit::run(async |db| {
        let builder = || (of(db, "patients"), of(db, "revisions"));
        let (current, revisions) = builder();
        let old = HistoryRepository::<Versioned<PatientV1>>::builder(current, revisions)
            .id_field("_id")
            .build()
            .unwrap();
        let (current, revisions) = builder();
        let new = HistoryRepository::<Versioned<Patient>>::builder(current, revisions)
            .id_field("_id")
            .build()
            .unwrap();
        let typed = SchemaRepository::<Patient>::builder(of(db, "patients"))
            .versions(Patient::versions())
            .build()
            .unwrap();
        for one in [&old as &dyn Repository, &new, &typed] {
            one.ensure_indexes().await.unwrap();
        }
        old.insert(&first(1)).await.unwrap();
        assert_eq!(new.get(1).await.unwrap().unwrap().document, second(1, &["Ann"]));
        assert_eq!(typed.get(1).await.unwrap().unwrap(), second(1, &["Ann"]).0);

        let current = new.get(1).await.unwrap().unwrap();
        let replaced = new
            .replace(1, &second(1, &["Ann", "Bea"]))
            .expecting(current.revision)
            .await
            .unwrap();
        assert_eq!(replaced.revision, 2);
        let stored = async || of(db, "patients").find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
        assert_eq!(stored().await.get("schemaVersion"), Some(&Bson::from(2)));
        assert_eq!(new.at(1, 1).await.unwrap().unwrap().document, Some(second(1, &["Ann"])));

        // The old release neither reads it nor takes it for its version.
        let refused = old.get(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Decode, "{refused:?}");
        let listed: Result<Vec<_>, _> = old.revisions(1).stream().try_collect().await;
        assert_eq!(listed.unwrap_err().kind(), ErrorKind::Decode);

        // A restored revision has its own version.
        new.restore(1, 1).await.unwrap();
        assert_eq!(stored().await.get("schemaVersion"), Some(&Bson::from(1)));
        assert_eq!(new.get(1).await.unwrap().unwrap().document, second(1, &["Ann"]));
        assert_eq!(old.get(1).await.unwrap().unwrap().document, first(1));
        assert_eq!(typed.migrate().await.unwrap().documents, 1);
        assert_eq!(stored().await.get("schemaVersion"), Some(&Bson::from(2)));
    })
    .await;
}

#[tokio::test]
async fn pages_buckets_a_trash_and_an_archive_have_documents_of_two_versions() {
    testkit::run(async |db| {
        let old = [doc! { "_id": 1, "at": DateTime::from_millis(1), "name": "Ann" }];
        let new = [doc! { "_id": 2, "at": DateTime::from_millis(2), "schemaVersion": 2, "names": ["Bea"] }];
        let both = [second(1, &["Ann"]), second(2, &["Bea"])];
        let patients = of(db, "patients");
        patients.insert_many(old.iter().chain(&new)).await.unwrap();
        let pages = Pages::<Versioned<Patient>>::over(of(db, "patients"))
            .sort(doc! { "_id": 1 })
            .build()
            .unwrap();
        assert_eq!(pages.list().page().await.unwrap().items, both);

        let buckets = BucketRepository::<i32, Versioned<Patient>>::builder(of(db, "pages")).key_field("ward");
        let buckets = buckets.items_field("patients").page_size(5).build().unwrap();
        buckets.ensure_indexes().await.unwrap();
        let first_release = BucketRepository::<i32, Versioned<PatientV1>>::builder(of(db, "pages")).key_field("ward");
        let first_release = first_release.items_field("patients").page_size(5).build().unwrap();
        first_release.append(&7, &first(1)).await.unwrap();
        buckets.append(&7, &both[1]).await.unwrap();
        assert_eq!(buckets.items(&7).page().await.unwrap().items, both);
        assert_eq!(first_release.newest(&7, 5).await.unwrap_err().kind(), ErrorKind::Decode);

        let trash = Trash::<Versioned<Patient>>::builder(of(db, "patients"), of(db, "deleted_patients"))
            .build()
            .unwrap();
        trash.ensure_indexes().await.unwrap();
        trash.delete(1).await.unwrap();
        assert_eq!(trash.list().page().await.unwrap().items[0].document, both[0]);
        trash.restore(1).await.unwrap();

        let archive =
            Archive::<Versioned<Patient>>::builder(of(db, "patients"), of(db, "old_patients")).age_field("at");
        let archive = archive.older_than(Duration::from_secs(60)).build().unwrap();
        archive.ensure_indexes().await.unwrap();
        archive.run().await.unwrap();
        for patient in both {
            let found = archive.get(patient.0.id).await.unwrap().unwrap();
            assert!(found.is_archived);
            assert_eq!(found.document, patient);
        }
        let archived = SchemaRepository::<Document>::builder(of(db, "old_patients")).version_field("schemaVersion");
        let archived = archived.newest(2).build().unwrap();
        archived.ensure_indexes().await.unwrap();
        let counts = archived.versions().await.unwrap();
        assert_eq!(counts.iter().map(|count| count.documents).sum::<u64>(), 2, "{counts:?}");
    })
    .await;
}
