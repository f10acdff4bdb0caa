//! Histories of five revisions, each of which insures one more item.

use mongo_patterns::history::{Problem, Unrepaired};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::model::Outcome::{Left, Restored, Values};
use super::model::{Damage, Model, Stored, calls, delete, insert, update};
use support::history::{Policies, judge, policies, policy, push, revisions};

pub(super) struct Histories(Policies);

const CURRENT: &str = "currentPolicies";
const REVISIONS: &str = "policyRevisions";

fn of(id: i32, revision: i32) -> Document {
    doc! { "policyId": id, "revision": revision }
}

/// Returns the items of a revision.
fn items(revision: i32) -> impl Iterator<Item = Bson> {
    (2..=revision).map(|n| n.to_string().into())
}

impl Model for Histories {
    const COLLECTIONS: &'static [Stored] = &[
        [CURRENT, "policyId", "itemsInsured", "_id"],
        [REVISIONS, "policyId", "itemsInsured", "revision"],
    ];
    const IS_ONE_REPAIR: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        let policies = policies(db).await;
        for id in 1..=11 {
            policies.insert(&policy(id)).await.unwrap();
            for revision in 2..=5 {
                policies.update(id, push(&revision.to_string())).await.unwrap();
            }
        }
        policies.delete(9).await.unwrap();
        policies.keep_last(9, 1).await.unwrap();
        policies.keep_last(10, 2).await.unwrap();
        // This is such a deletion too.
        revisions(db).delete_one(of(10, 4)).await.unwrap();
        Self(policies)
    }

    #[rustfmt::skip] // a kind of damage in a line
    fn damages() -> Vec<Damage<Self>> {
        let damage = |id: i32, write, problem, outcome| Damage::<Self> {
            owner: id.into(),
            writes: vec![write],
            problems: vec![(CURRENT, id.into(), problem)],
            related: None,
            outcome,
        };
        let set = |field: &str, value: Bson| doc! { "$set": { field: value } };
        let mut now = push("6");
        now.extend(doc! { "$inc": { "revision": 1 }, "$currentDate": { "dateSet": true } });
        let next = items(6).chain((1..=6).flat_map(items)).collect();
        let joe = || [Bson::from("Joe")];
        let changed = joe().into_iter().chain((1..=5).flat_map(items)).chain(joe()).collect();
        let in_a_minute = DateTime::from_millis(DateTime::now().timestamp_millis() + 60_000);
        let ahead = doc! { "policyId": 6, "revision": 6, "dateSet": in_a_minute, "itemsInsured": ["Joe"] };
        let behind = items(5).chain((1..=5).flat_map(items)).chain(joe()).chain(items(5)).collect();
        let early = update(REVISIONS, of(5, 3), set("dateSet", DateTime::from_millis(5).into()));
        let (unnumbered, is_missing) = (set("revision", "five".into()), Problem::CurrentMissing { revision: 5 });
        vec![
            // The manual's first command, without the second.
            damage(1, update(CURRENT, of(1, 5), now), Problem::Unrecorded { revision: 6 }, Values(next)),
            damage(2, delete(REVISIONS, of(2, 5)), Problem::Unrecorded { revision: 5 }, Restored),
            damage(3, update(CURRENT, of(3, 5), set("itemsInsured", vec!["Joe"].into())),
                Problem::Different { revision: 5 }, Values(changed)),
            damage(4, delete(REVISIONS, of(4, 3)), Problem::Gap { from: 3, to: 3 }, Left(Unrepaired::Unknown)),
            damage(5, early, Problem::TimeReversed { revision: 3 }, Left(Unrepaired::Unknown)),
            damage(6, insert(REVISIONS, ahead), Problem::Ahead { revision: 6 }, Values(behind)),
            damage(7, delete(CURRENT, of(7, 5)), is_missing, Left(Unrepaired::CurrentMissing)),
            damage(8, update(CURRENT, of(8, 5), unnumbered), Problem::Invalid, Left(Unrepaired::Invalid)),
        ]
    }

    async fn judge(db: &TestDatabase) {
        for id in [1, 2, 3, 6, 11] {
            let judged = judge(db, id).await;
            assert_eq!((judged.missing, judged.doubled, judged.different), (0, 0, 0), "{id}");
        }
    }

    async fn write(&self, owner: Bson, n: i32) -> mongo_patterns::Result<()> {
        self.0.update(owner, push(&format!("after{n}"))).await.map(drop)
    }

    calls!();
}
