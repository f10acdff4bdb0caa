//! Another program writes policies by the driver, and a follower stores its writes as revisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::history::Followed;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};
use tokio::sync::watch;

use support::common::{all, pause, until};
use support::history::follow::*;
use support::history::*;

/// The numbers and the names in the revisions of a policy; no name for a deletion.
async fn names(db: &TestDatabase, id: i32) -> Vec<(i64, Option<String>)> {
    let copies = copies(db, id).await;
    let name = |copy: &Document| copy.get_str("customerName").ok().map(str::to_owned);
    let is_deleted = |copy: &Document| copy.get_bool("deleted").unwrap_or(false);
    assert!(copies.iter().all(|copy| is_deleted(copy) == name(copy).is_none()));
    copies
        .iter()
        .map(|copy| (number(copy, "revision"), name(copy)))
        .collect()
}

/// The numbers of insured items in the revisions of a policy.
async fn lengths(db: &TestDatabase, id: i32) -> Vec<usize> {
    copies(db, id).await.iter().map(|copy| items(copy).len()).collect()
}

fn expected(names: &[Option<&str>]) -> Vec<(i64, Option<String>)> {
    (1..).zip(names.iter().map(|name| name.map(str::to_owned))).collect()
}

#[tokio::test]
async fn each_write_of_another_program_is_a_revision() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        policies.insert(&policy(1)).await.unwrap();
        assert_eq!(follow(&policies).await.written, 0);
        let of = |id: i32| doc! { "policyId": id };
        let named = |id: i32, name: &str| doc! { "policyId": id, "customerName": name };
        let rename = |name: &str| doc! { "$set": { "customerName": name } };
        let other = current(db);
        other.update_one(of(1), rename("updated")).await.unwrap();
        // Without a number and a time, which the follower sets.
        other.replace_one(of(1), named(1, "replaced")).await.unwrap();
        other.update_one(of(1), rename("updated again")).await.unwrap();
        // With those of an old copy.
        let mut old = named(1, "old");
        old.extend(doc! { "revision": 1, "dateSet": DateTime::from_millis(5) });
        other.replace_one(of(1), old).await.unwrap();
        other.delete_one(of(1)).await.unwrap();
        other.insert_one(named(1, "inserted again")).await.unwrap();
        other.insert_one(named(2, "new")).await.unwrap();
        let mut numbered = named(3, "numbered");
        numbered.extend(doc! { "revision": 17, "dateSet": DateTime::from_millis(5) });
        other.insert_one(numbered).await.unwrap();
        let to_4 = doc! { "$set": { "policyId": 4 } };
        other.update_one(of(2), to_4).await.unwrap();
        let before = DateTime::now();
        let followed = follow(&policies).await;
        assert_eq!((followed.written, followed.repaired), (10, 0));
        assert!(followed.changes >= 9, "{followed:?}");
        let of_1 = [
            Some("Michelle"),
            Some("updated"),
            Some("replaced"),
            Some("updated again"),
            Some("old"),
            None,
            Some("inserted again"),
        ];
        assert_eq!(names(db, 1).await, expected(&of_1));
        assert_eq!(names(db, 2).await, expected(&[Some("new"), None]));
        assert_eq!(names(db, 3).await, expected(&[Some("numbered")]));
        assert_eq!(names(db, 4).await, expected(&[Some("new")]));
        assert_recorded(db, &policies, "after all writes").await;
        // By the times of the writes.
        let valid = policies.as_of(1, before).await.unwrap().unwrap();
        assert!(valid.revision >= 6, "{valid:?}");
        // Its own writes are no writes of another program.
        assert_eq!(follow(&policies).await.written, 0);
        let missing = policies.update(2, push("a")).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(policies.update(3, push("a")).await.unwrap().revision, 2);
        other.delete_one(of(3)).await.unwrap();
        assert_eq!(follow(&policies).await.written, 1);
        assert_eq!(policies.insert(&policy(3)).await.unwrap().revision, 4);
        assert_eq!(follow(&policies).await.written, 0);
        assert_recorded(db, &policies, "after further writes").await;
    })
    .await;
}

/// Also if it sees them late.
#[tokio::test]
async fn writes_of_repositories_have_no_second_revision() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        policies.insert(&policy(1)).await.unwrap();
        policies.delete(1).await.unwrap();
        assert_eq!(follow(&policies).await.written, 0);
        policies.insert_many(&[1, 2, 3].map(policy)).await.unwrap();
        for id in 1..=3 {
            policies.update(id, push("a")).await.unwrap();
            policies.replace(id, &policy(id)).await.unwrap();
            policies.restore(id, 3).await.unwrap();
            policies.upsert(&policy(id)).await.unwrap();
        }
        policies.delete(1).await.unwrap();
        policies.insert(&policy(1)).await.unwrap();
        policies.delete(2).await.unwrap();
        let before = all(&revisions(db)).await;
        db.recorder().clear();
        let followed = follow(&policies).await;
        assert!(followed.changes >= 18, "{followed:?}");
        assert_eq!(followed.written, 0);
        assert_eq!(all(&revisions(db)).await, before);
        let sent = db.recorder().names();
        let is_write = |name: &String| name == "findAndModify" || name == "insert";
        assert!(!sent.iter().any(is_write), "{sent:?}");
        assert_recorded(db, &policies, "").await;
    })
    .await;
}

/// In a transaction of the caller each write has its revision. Outside of one, a revision of a repository has also the result of a
/// write that the follower has not seen yet.
#[tokio::test]
async fn writes_of_both_kinds_to_one_policy_are_followed() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        policies.insert_many(&[policy(1), policy(2)]).await.unwrap();
        let mut session = db.database().client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let plain = db.database().collection::<Document>("currentPolicies");
        policies.update(1, push("a")).session(&mut session).await.unwrap();
        for item in ["b", "c"] {
            let update = plain.update_one(doc! { "policyId": 1 }, push(item));
            update.session(&mut session).await.unwrap();
        }
        session.commit_transaction().await.unwrap();
        push_plainly(db, 2, "a").await;
        assert_eq!(policies.update(2, push("b")).await.unwrap().revision, 2);
        push_plainly(db, 2, "c").await;
        assert_eq!(follow(&policies).await.written, 3);
        assert_eq!(lengths(db, 1).await, [0, 1, 2, 3]);
        assert_eq!(lengths(db, 2).await, [0, 2, 3]);
        assert_recorded(db, &policies, "").await;
    })
    .await;
}

/// One program writes one policy as fast as it can while the follower runs: each write has its revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn writes_that_are_faster_than_the_follower_have_each_a_revision() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let (report, mut reached) = watch::channel(Followed::default());
        let follower = tokio::spawn({
            let policies = restarted(db);
            async move {
                let report = |at| {
                    report.send_replace(at);
                };
                policies.follow(NAME).on_progress(report).await
            }
        });
        for n in 0..100 {
            push_plainly(db, 1, &n.to_string()).await;
        }
        let all = reached.wait_for(|at| at.written >= 100);
        let all = tokio::time::timeout(Duration::from_secs(120), all).await;
        assert!(all.is_ok_and(|all| all.is_ok()), "{:?}", reached.borrow());
        follower.abort();
        assert_eq!(lengths(db, 1).await, (0..=100).collect::<Vec<_>>());
        assert_recorded(db, &policies, "").await;
    })
    .await;
}

/// The follower was off: every state is stored, with the time of its write.
#[tokio::test]
async fn writes_while_the_follower_was_off_have_each_a_revision() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        for id in 1..=2 {
            policies.insert(&policy(id)).await.unwrap();
        }
        let mut times = Vec::new();
        for n in 0..6 {
            push_plainly(db, 1, &n.to_string()).await;
            push_plainly(db, 2, &n.to_string()).await;
            // There and back: the follower finds the content of the newest revision, and stores both.
            let pull = doc! { "$pull": { "itemsInsured": n.to_string() } };
            current(db).update_one(doc! { "policyId": 2 }, pull).await.unwrap();
            tick().await;
            times.push(DateTime::now());
            tick().await;
        }
        let followed = follow(&policies).await;
        assert_eq!(followed.written, 18);
        for (n, time) in (2..).zip(times) {
            let valid = policies.as_of(1, time).await.unwrap().unwrap();
            assert_eq!(
                (valid.revision, items(&valid.document.unwrap()).len()),
                (n, n as usize - 1)
            );
        }
        assert_eq!(numbers(db, 2).await.len(), 13);
        assert_recorded(db, &policies, "").await;
        assert_eq!(follow(&policies).await.written, 0);
    })
    .await;
}

/// Three followers of two names, repositories of both forms, and programs that use the driver, on four policies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_repositories_and_other_programs_run_concurrently() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        for id in 1..=4 {
            policies.insert(&policy(id)).await.unwrap();
        }
        let (stop, stopped) = watch::channel(false);
        let has_written = Arc::new(AtomicBool::new(false));
        let followers = (0..3).map(|n| {
            let (policies, mut stopped) = (restarted(db), stopped.clone());
            let has_written = Arc::clone(&has_written);
            tokio::spawn(async move {
                let end = async { drop(stopped.wait_for(|stopped| *stopped).await) };
                let report = |at: Followed| _ = has_written.fetch_or(at.written > 0, Ordering::Relaxed);
                let follow = policies.follow(if n < 2 { NAME } else { "others" });
                follow.until(end).on_progress(report).await.unwrap()
            })
        });
        let followers: Vec<_> = followers.collect();
        let database = db.plain_client().database(db.database().name());
        let writers = (0..4).map(|writer| {
            let policies = builder(&database).build().unwrap();
            tokio::spawn(async move {
                let mut recorded = Vec::new();
                for n in 0..16 {
                    let id = (n + writer) % 4 + 1;
                    let item = format!("r{writer}-{n}");
                    recorded.push((id, policies.update(id, push(&item)).await.unwrap().revision, item));
                }
                recorded
            })
        });
        let writers: Vec<_> = writers.collect();
        let plain = (0..2).map(|writer| async move {
            for n in 0..32 {
                push_plainly(db, n % 4 + 1, &format!("p{writer}-{n}")).await;
            }
        });
        join_all(plain).await;
        let mut acknowledged = Vec::new();
        for written in join_all(writers).await {
            acknowledged.extend(written.unwrap());
        }
        // The repositories may have recorded all writes of the programs with their own.
        let mut more = 0;
        while !has_written.load(Ordering::Relaxed) {
            push_plainly(db, 1, &format!("more {more}")).await;
            more += 1;
            pause().await;
        }
        stop.send_replace(true);
        for follower in followers {
            follower.await.unwrap();
        }
        follow(&policies).await;
        assert_recorded(db, &policies, "after all have ended").await;
        for now in all(&current(db)).await {
            let pushed = if number(&now, "policyId") == 1 { 32 + more } else { 32 };
            assert_eq!(items(&now).len(), pushed, "{now}");
        }
        for (id, revision, item) in acknowledged {
            let at = policies.at(id, revision).await.unwrap().unwrap().document.unwrap();
            assert!(items(&at).contains(&item), "the revision of a write has its result");
        }
        assert_eq!(records(db).await.len(), 2);
    })
    .await;
}

/// What another program wrote before the first follower is repaired, also documents without a number and deletions.
#[tokio::test]
async fn the_first_follower_repairs_what_was_written_before() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        for id in 1..=3 {
            policies.insert(&policy(id)).await.unwrap();
        }
        push_plainly(db, 1, "a").await;
        current(db).delete_one(doc! { "policyId": 2 }).await.unwrap();
        let of_3 = doc! { "policyId": 3 };
        current(db).replace_one(of_3, policy(3)).await.unwrap();
        current(db).insert_one(policy(4)).await.unwrap();
        let first = policies.follow("first").run_until_current().await.unwrap();
        assert_eq!((first.repaired, first.written), (1, 4));
        for (id, last) in [(1, 2), (2, 2), (3, 2), (4, 1)] {
            assert_eq!(numbers(db, id).await, (1..=last).collect::<Vec<_>>(), "{id}");
        }
        assert_recorded(db, &policies, "").await;
        // The other follower finds all stored.
        assert_eq!(follow(&policies).await.written, 0);
    })
    .await;
}

/// A process that is killed in a transaction leaves it open: its documents are locked until the server ends it.
#[tokio::test]
async fn the_transaction_of_a_killed_process_is_waited_for() {
    wait_for_a_killed_process(async |db, killed| {
        // As after 60 seconds, when the follower has met it.
        until("the follower", async || has_met(db)).await;
        let admin = db.plain_client().database("admin");
        admin.run_command(doc! { "killSessions": [killed] }).await.unwrap();
    })
    .await;
}

/// The same, until the server ends it by itself.
#[tokio::test]
#[ignore = "long: cargo xtask ci --full"]
async fn the_transaction_of_a_killed_process_is_waited_for_until_the_server_ends_it() {
    wait_for_a_killed_process(async |_, _| {}).await;
}

fn has_met(db: &TestDatabase) -> bool {
    db.recorder().names().contains(&"abortTransaction".to_owned())
}

async fn wait_for_a_killed_process(end: impl AsyncFnOnce(&TestDatabase, Document)) {
    testkit::run(async |db| {
        let policies = followed(db).await;
        policies.insert(&policy(1)).await.unwrap();
        follow(&policies).await;
        push_plainly(db, 1, "a").await;
        let current = current(db);
        let mut killed = current.client().start_session().await.unwrap();
        killed.start_transaction().await.unwrap();
        let locked = current.update_one(doc! { "policyId": 1 }, push("b"));
        locked.session(&mut killed).await.unwrap();
        let next = restarted(db);
        let (followed, ()) = tokio::join!(follow(&next), end(db, killed.id().clone()));
        assert_eq!((followed.written, followed.repaired), (1, 0));
        assert!(has_met(db), "it has met the other transaction");
        assert!(killed.commit_transaction().await.is_err(), "the server has ended it");
        assert_recorded(db, &policies, "after it").await;
    })
    .await;
}
