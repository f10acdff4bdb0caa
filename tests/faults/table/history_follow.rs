//! Histories: the follower.

use futures::future::LocalBoxFuture;
use mongo_patterns::Error;
use mongodb::bson::doc;

use super::history::Office;
use super::operation::Promise::Steps;
use super::operation::{Model, Of, Operation, Operations, text};
use support::history::push;

const FOLLOWER: &str = "policies";

/// Policies that another program writes too.
pub(super) struct Followed(Office);

impl Model for Followed {
    const PATTERN: &'static str = Office::<false>::PATTERN;
    /// With the position of the follower: it would record that the documents of the last case were removed.
    const COLLECTIONS: &'static [&'static str] = &["currentPolicies", "policyRevisions", "mongo_patterns"];

    fn new(of: Of<'_>) -> Self {
        Self(Office::<false>::new(of))
    }

    async fn fill(&self) {
        self.0.fill().await;
    }

    async fn facts(&self) -> Vec<String> {
        self.0.facts().await
    }

    async fn read(&self) -> Option<Vec<String>> {
        self.0.read().await
    }

    async fn damage(&self) -> Vec<String> {
        self.0.damage().await
    }

    async fn found(&self) -> Vec<String> {
        self.0.found().await
    }

    /// A repair records the other program's writes too. The retry is the one to test.
    async fn repair(&self) {}
}

impl Operations for Followed {
    fn operations() -> Vec<Operation<Self>> {
        follows()
    }
}

fn follows() -> Vec<Operation<Followed>> {
    fn follow(m: &Followed) -> LocalBoxFuture<'_, Result<String, Error>> {
        Box::pin(async move {
            let follow = m.0.policies.follow(FOLLOWER).enable_pre_images().run_until_current();
            // The number of commands depends on timing.
            text(follow.max_retry_time(std::time::Duration::from_secs(2)).await.map(drop))
        })
    }
    /// What another program writes.
    fn written(m: &Followed) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            for id in 1..=2 {
                let pushed = m.0.current.update_one(doc! { "policyId": id }, push("boat")).await;
                assert_eq!(pushed.unwrap().modified_count, 1);
            }
        })
    }
    fn behind(m: &Followed) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            let follow = m.0.policies.follow(FOLLOWER).enable_pre_images().run_until_current();
            follow.await.unwrap();
            written(m).await;
        })
    }
    vec![
        Operation::<Followed>::new(Steps, "HistoryRepository::follow", "for the first time", follow).prepare(written),
        Operation::<Followed>::new(Steps, "HistoryRepository::follow", "two changes behind", follow).prepare(behind),
    ]
}
