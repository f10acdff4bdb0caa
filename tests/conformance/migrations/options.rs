//! The options `chunk`, `rate`, `on_progress` and `filter`.

use std::time::{Duration, Instant};

use mongo_patterns::{ErrorKind, Progress};
use mongo_patterns_core::migration::MigrateOptions;
use mongodb::bson::{Document, doc};

use super::for_each;
use super::model::{Call, Case};

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_number_of_0_is_refused_and_nothing_is_sent() {
    for_each(async |db, migration| {
        let case = Case { db, migration };
        case.begin().await;
        if !migration.is_paced() {
            return;
        }
        for (chunk, rate) in [(Some(0), None), (None, Some(0))] {
            let options = || MigrateOptions {
                chunk,
                rate,
                ..MigrateOptions::default()
            };
            case.refused(options, ErrorKind::InvalidArgument).await;
            assert_eq!(db.recorder().round_trips(), 0, "{}", migration.name());
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn small_chunks_and_a_second_run_have_the_same_result() {
    for_each(async |db, migration| {
        let case = Case { db, migration };
        let (migrated, documents) = case.undisturbed(MigrateOptions::default()).await;
        case.run(MigrateOptions::default()).await.unwrap();
        assert!(case.documents().await == documents, "{}", migration.name());
        let one = MigrateOptions {
            chunk: Some(1),
            concurrency: Some(1),
            ..MigrateOptions::default()
        };
        assert_eq!(
            case.undisturbed(one).await,
            (migrated, documents),
            "{}",
            migration.name()
        );
    })
    .await;
}

/// The time is a lower bound, which no load of the machine can break.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_rate_is_kept_and_the_progress_grows_to_its_total() {
    for_each(async |db, migration| {
        if !migration.is_paced() {
            return;
        }
        let case = Case { db, migration };
        let (_, documents) = case.undisturbed(MigrateOptions::default()).await;
        let reported = async |rate: Option<u64>| {
            case.begin().await;
            let mut progress: Vec<Progress> = Vec::new();
            let call = Call {
                options: MigrateOptions {
                    rate,
                    ..MigrateOptions::default()
                },
                report: Some(Box::new(|at| progress.push(at))),
                ..Call::default()
            };
            migration.call(db, call).await.unwrap();
            assert!(case.documents().await == documents, "{}", migration.name());
            let last = progress.last().copied().unwrap();
            let grows = progress.windows(2).all(|pair| pair[0].done <= pair[1].done);
            assert!(grows && last.done == last.total, "{}: {progress:?}", migration.name());
            last.total
        };
        let rate = migration.rated(reported(None).await).div_ceil(2);
        let started = Instant::now();
        reported(Some(rate)).await;
        assert!(started.elapsed() >= Duration::from_secs(1), "{}", migration.name());
    })
    .await;
}

fn filtered(filter: &Document) -> impl Fn() -> MigrateOptions {
    move || MigrateOptions {
        filter: filter.clone(),
        ..MigrateOptions::default()
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_filter_selects_documents() {
    for_each(async |db, migration| {
        let (case, name) = (Case { db, migration }, migration.name());
        let Some(selected) = migration.selected() else {
            return;
        };
        let (all_migrated, all) = case.undisturbed(MigrateOptions::default()).await;
        case.begin().await;
        for illegal in [
            doc! { "_id": { "$noSuch": "s3cret" } },
            doc! { "$where": "s3cret" },
            doc! { "$text": { "$search": "s3cret" } },
        ] {
            let refused = case.refused(filtered(&illegal), ErrorKind::InvalidArgument).await;
            assert!(!format!("{refused:?} {refused}").contains("s3cret"), "{refused:?}");
        }
        let some = filtered(&selected.some);
        let before = case.documents().await;
        let migrated = case.run(some()).await.unwrap();
        assert_ne!(migrated, all_migrated, "{name}");
        let then = case.documents().await;
        assert!(then != before && then != all, "{name}");
        case.run(some()).await.unwrap();
        assert!(case.documents().await == then, "{name}");
        match selected.others {
            Ok(()) => {
                case.run(MigrateOptions::default()).await.unwrap();
                assert!(case.documents().await == all, "{name}");
            }
            Err(kind) => drop(case.refused(MigrateOptions::default, kind).await),
        }
    })
    .await;
}
