//! Histories: the follower.

use futures::future::LocalBoxFuture;
use mongo_patterns::Error;
use mongodb::bson::doc;

use super::history::Office;
use super::operation::Promise::Steps;
use super::operation::{Call, Model, Of, Operations, calls, delegate, text};
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

    delegate! { fill -> (), facts -> Vec<String>, read -> Option<Vec<String>>, damage -> Vec<String>, found -> Vec<String> }
}

impl Operations for Followed {
    fn operations() -> Vec<Call<Self>> {
        follows()
    }
}

fn follows() -> Vec<Call<Followed>> {
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
    calls! { Followed;
        Steps, "HistoryRepository::follow", "for the first time", |m| follow(m).await => prepare(written);
        Steps, "HistoryRepository::follow", "two changes behind", |m| follow(m).await => prepare(behind);
    }
}
