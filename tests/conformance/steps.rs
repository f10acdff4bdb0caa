//! A step of a migration lists the command that it sends.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{IndexPlan, PlannedIndex, drop_old_index};
use mongo_patterns_core::migration::Step;
use mongo_patterns_testkit as testkit;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{FindOneOptions, FindOptions, Hint};

use support::plans::essence;

/// Returns one step of each kind, all of which succeed in this order.
fn steps(things: &Collection<RawDocumentBuf>) -> Vec<Step> {
    let raw = |document: Document| RawDocumentBuf::try_from(&document).unwrap();
    let alone = || doc! { "_id": 1 };
    let find_one = FindOneOptions::builder().projection(doc! { "n": 1 }).build();
    let find = FindOptions::builder().sort(doc! { "_id": -1 }).limit(2).build();
    let stages = [doc! { "$match": { "n": { "$gte": 0 } } }];
    let copy = [
        doc! { "$limit": 1 },
        doc! { "$merge": { "into": "copies", "on": "_id" } },
    ];
    let hint = Some(Hint::Name("_id_".to_owned()));
    let aggregate = |purpose| Step::aggregate(purpose, things, stages.clone());
    vec![
        Step::insert_many(
            "insert",
            things,
            (0..3).map(|n| raw(doc! { "_id": n, "n": n })).collect(),
        ),
        Step::find_one("find one", things, alone(), find_one),
        Step::find("find", things, doc! { "n": { "$gt": 0 } }, find),
        aggregate("aggregate").hint(hint).comment("a comment".to_owned()),
        aggregate("aggregate with the collation of the collection").own_collation(),
        Step::aggregate("copy", things, copy).acknowledged_by(things),
        Step::estimated_count("count", things),
        Step::update_one("update", things, alone(), doc! { "$inc": { "n": 5 } }),
        Step::update_one(
            "update by a pipeline",
            things,
            alone(),
            vec![doc! { "$set": { "n": "$_id" } }],
        ),
        Step::update_many("update many", things, doc! {}, doc! { "$inc": { "n": 1 } }),
        Step::upsert("upsert", things, doc! { "_id": 9 }, raw(doc! { "_id": 9, "n": 9 })),
        Step::delete_one("delete", things, doc! { "_id": 9 }),
        Step::delete_many("delete many", things, doc! { "n": { "$gt": 2 } }),
        Step::aggregate_on_admin("operations", things, [doc! { "$currentOp": {} }, doc! { "$limit": 1 }]),
    ]
}

#[tokio::test]
async fn every_step_lists_the_command_that_it_sends() {
    testkit::run(async |db| {
        let things = db.collection::<RawDocumentBuf>("things");
        let mut plan = Conn::plan();
        for step in steps(&things) {
            assert!(plan.write(step).await.unwrap().is_none());
        }
        assert_eq!(db.recorder().round_trips(), 0, "a plan sends nothing that writes");
        let planned = plan.into_commands();
        let mut run = Conn::new();
        for (step, planned) in steps(&things).into_iter().zip(&planned) {
            db.recorder().clear();
            run.write(step).await.unwrap().unwrap();
            let sent = db.recorder().commands();
            assert_eq!(sent.len(), 1, "{planned:?}");
            assert_eq!(essence(&sent[0].essence()), essence(&planned.command), "{planned:?}");
            assert!(planned.writes, "{planned:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn indexes_are_planned_as_they_are_created_and_dropped() {
    testkit::run(async |db| {
        let things = db.collection::<RawDocumentBuf>("things");
        let index = || PlannedIndex::new("n_1", doc! { "n": 1 }).unique();
        let indexes = IndexPlan::new(&things, vec![index()]);
        for is_drop in [false, true] {
            let mut plan = Conn::plan();
            let mut run = Conn::new();
            db.recorder().clear();
            if is_drop {
                assert!(drop_old_index(&mut plan, &things, &index()).await.unwrap());
                db.recorder().clear();
                assert!(drop_old_index(&mut run, &things, &index()).await.unwrap());
            } else {
                indexes.ensure(&mut plan).await.unwrap();
                db.recorder().clear();
                indexes.ensure(&mut run).await.unwrap();
            }
            let planned = plan.into_commands();
            let sent: Vec<Document> = db
                .recorder()
                .commands()
                .iter()
                .map(|sent| essence(&sent.essence()))
                .collect();
            let listed: Vec<Document> = planned.iter().map(|planned| essence(&planned.command)).collect();
            assert_eq!(sent, listed);
            assert_eq!(planned.iter().filter(|planned| planned.writes).count(), 1);
        }
    })
    .await;
}
