//! The option `skip_invalid`.

use std::collections::BTreeMap;

use mongo_patterns::ErrorKind;
use mongo_patterns_core::migration::MigrateOptions;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::for_each_selected;
use super::model::{Case, Selected};
use support::common::{all, integer};

fn skipping(list: &Collection<RawDocumentBuf>) -> impl Fn() -> MigrateOptions + use<> {
    let list = list.clone();
    move || MigrateOptions {
        chunk: Some(3),
        skipped: Some(list.clone()),
        ..MigrateOptions::default()
    }
}

/// The numbers of the skipped documents, by reason.
fn counts(migrated: &Document) -> BTreeMap<String, i64> {
    let skipped = migrated.get_document("skipped").unwrap();
    let counts = skipped.iter().map(|(reason, number)| (reason.clone(), integer(number)));
    counts.filter(|(_, number)| *number > 0).collect()
}

impl Selected {
    /// The documents of the list, but the id of the run.
    pub(super) fn listed(&self) -> Vec<Document> {
        let (source, target) = (self.source, self.target);
        let listed = self.invalid.iter().map(|(document, reason)| {
            doc! { "_id": document.get("_id"), "reason": reason, "source": source, "target": target }
        });
        listed.collect()
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn invalid_documents_are_skipped_listed_and_counted() {
    for_each_selected(async |db, migration, selected| {
        let (case, name) = (Case::new(db, migration), migration.name);
        let (of_valid, valid) = case.undisturbed(MigrateOptions::default()).await;
        case.begin().await;
        let source = db.plain_collection::<Document>(selected.source);
        let invalid: Vec<Document> = selected.invalid.iter().map(|(document, _)| document.clone()).collect();
        source.insert_many(&invalid).await.unwrap();
        let is_invalid = |document: &Document| invalid.iter().any(|bad| bad.get("_id") == document.get("_id"));

        let before = case.everything().await;
        let refused = case.run(MigrateOptions::default()).await.unwrap_err();
        assert_eq!(refused.kind(), selected.refusal, "{name}: {refused:?}");
        match selected.refuses_first {
            true => assert!(case.everything().await == before, "{name}: {refused:?}"),
            false => {
                case.begin().await;
                source.insert_many(&invalid).await.unwrap();
            }
        }
        for wrong in [selected.source, selected.target, "mongo_patterns"] {
            case.refused(skipping(&db.collection(wrong)), ErrorKind::InvalidArgument)
                .await;
        }

        let list = db.collection::<RawDocumentBuf>("skipped");
        let with_list = skipping(&list);
        let listed = async || {
            let mut listed = all(&list.clone_with_type::<Document>()).await;
            assert!(
                listed.iter_mut().all(|document| document.remove("run").is_some()),
                "{name}"
            );
            listed
        };
        let planned = case.plan(with_list()).await.unwrap().migrated;
        assert!(listed().await.is_empty(), "{name}");
        let migrated = case.run(with_list()).await.unwrap();
        assert_eq!(counts(&planned), counts(&migrated), "{name}");
        let mut expected = BTreeMap::new();
        for (_, reason) in &selected.invalid {
            *expected.entry((*reason).to_owned()).or_default() += 1;
        }
        assert_eq!(counts(&migrated), expected, "{name}");
        assert_eq!(listed().await, selected.listed(), "{name}");
        let left = all(&source).await.into_iter().filter(is_invalid);
        // As text, in which NaN is equal.
        let left: Vec<Document> = left.collect();
        assert_eq!(format!("{left:?}"), format!("{invalid:?}"), "{name}");
        // The others are migrated as if these were not there.
        let others = async || {
            let invalid: Vec<String> = invalid
                .iter()
                .map(|document| format!("{} {document:?}", selected.source))
                .collect();
            let documents = case.documents().await.into_iter();
            let others = documents.filter(|text| !text.starts_with("skipped ") && !invalid.contains(text));
            others.collect::<Vec<_>>()
        };
        assert!(others().await == valid, "{name}");
        for (field, value) in &migrated {
            assert!(
                field == "skipped" || of_valid.get(field) == Some(value),
                "{name}: {field} {value}"
            );
        }

        // Again; and with a document that was corrected, which leaves the list.
        case.run(with_list()).await.unwrap();
        assert!(others().await == valid && listed().await == selected.listed(), "{name}");
        let first = doc! { "_id": invalid[0].get("_id") };
        source.update_one(first, selected.correction.clone()).await.unwrap();
        if selected.others.is_ok() {
            case.run(with_list()).await.unwrap();
            assert_eq!(listed().await, selected.listed()[1..], "{name}");
        }
        // A collection with other documents is not the list.
        list.clone_with_type().insert_one(doc! { "_id": "mine" }).await.unwrap();
        let refused = case.refused(with_list, ErrorKind::TargetNotEmpty).await;
        assert!(
            refused.to_string().contains("another collection for the skipped"),
            "{name}: {refused}"
        );
    })
    .await;
}

/// As with a wrong setting.
#[tokio::test]
async fn a_migration_in_which_every_document_is_invalid_is_refused() {
    for_each_selected(async |db, migration, selected| {
        if !selected.refuses_first {
            return;
        }
        let case = Case::new(db, migration);
        case.begin().await;
        let source = db.plain_collection::<Document>(selected.source);
        source.delete_many(doc! {}).await.unwrap();
        let invalid = selected.invalid.iter().map(|(document, _)| document);
        source.insert_many(invalid).await.unwrap();
        let list = skipping(&db.collection("skipped"));
        case.refused(list, ErrorKind::InvalidArgument).await;
    })
    .await;
}
