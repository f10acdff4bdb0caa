//! The options `chunk`, `rate`, `on_progress` and `filter`.

use std::time::{Duration, Instant};

use mongo_patterns::{ErrorKind, Progress};
use mongo_patterns_core::migration::MigrateOptions;
use mongodb::bson::{Document, doc};

use super::model::{Call, Case};
use super::{for_each, for_each_selected};

impl Case<'_> {
    /// Runs it, and checks that the progress grows to its total, which is returned.
    async fn run_and_report(&self, options: MigrateOptions) -> (Document, u64) {
        let mut progress: Vec<Progress> = Vec::new();
        let call = Call {
            options,
            report: Some(Box::new(|at| progress.push(at))),
            ..Call::default()
        };
        let migrated = (self.migration.call)(self.db, call).await.unwrap().migrated;
        let last = progress.last().copied().unwrap();
        let grows = progress.windows(2).all(|pair| pair[0].done <= pair[1].done);
        assert!(
            grows && last.done == last.total,
            "{}: {progress:?}",
            self.migration.name
        );
        (migrated, last.total)
    }

    /// Checks that a number of 0 is refused, and nothing is sent.
    async fn refuses_0(&self) {
        for (chunk, rate) in [(Some(0), None), (None, Some(0))] {
            let options = || MigrateOptions {
                chunk,
                rate,
                ..MigrateOptions::default()
            };
            self.refused(options, ErrorKind::InvalidArgument).await;
            assert_eq!(self.db.recorder().round_trips(), 0, "{}", self.migration.name);
        }
    }
}

/// The time is a lower bound, which no load of the machine can break.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn small_chunks_a_rate_a_report_and_a_second_run_have_the_same_result() {
    for_each(async |db, migration| {
        let (case, name) = (Case::new(db, migration), migration.name);
        case.begin().await;
        let (migrated, total) = match migration.is_paced {
            true => {
                case.refuses_0().await;
                case.run_and_report(MigrateOptions::default()).await
            }
            false => (case.run(MigrateOptions::default()).await.unwrap(), 0),
        };
        let documents = case.documents().await;
        case.run(MigrateOptions::default()).await.unwrap();
        assert!(case.documents().await == documents, "{name}");
        let one = MigrateOptions {
            chunk: Some(1),
            concurrency: Some(1),
            ..MigrateOptions::default()
        };
        let (of_one, documents_of_one) = case.undisturbed(one).await;
        assert_eq!(of_one, migrated, "{name}");
        assert!(documents_of_one == documents, "{name}");

        if migration.is_paced {
            case.begin().await;
            let rate = MigrateOptions {
                rate: Some((migration.rated)(total).div_ceil(2)),
                ..MigrateOptions::default()
            };
            let started = Instant::now();
            case.run_and_report(rate).await;
            assert!(started.elapsed() >= Duration::from_secs(1), "{name}");
            assert!(case.documents().await == documents, "{name}");
        }
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
    for_each_selected(async |db, migration, selected| {
        let (case, name) = (Case::new(db, migration), migration.name);
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
