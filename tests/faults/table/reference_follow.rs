//! References: the follower.

use futures::future::LocalBoxFuture;
use mongo_patterns::Error;
use mongo_patterns::reference::OnReferences;
use mongodb::bson::doc;

use super::operation::Promise::Steps;
use super::operation::{Call, Model, Of, Operations, calls, delegate, text};
use super::reference::Sales;
use support::reference::{customer, rename};

const FOLLOWER: &str = "orders";

/// Orders and customers that another program writes too.
pub(super) struct Followed(Sales);

impl Model for Followed {
    const PATTERN: &'static str = Sales::PATTERN;
    /// With the position of the follower: it would record that the documents of the last case were removed.
    const COLLECTIONS: &'static [&'static str] = &["orders", "customers", "mongo_patterns"];

    fn new(of: Of<'_>) -> Self {
        Self(Sales::new(of))
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
            let follow = m.0.orders.follow(FOLLOWER).on_missing(OnReferences::KeepCopy);
            // The number of commands depends on timing.
            let follow = follow
                .run_until_current()
                .max_retry_time(std::time::Duration::from_secs(2));
            text(follow.await.map(drop))
        })
    }
    /// What another program writes.
    fn written(m: &Followed) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            let (orders, customers) = (&m.0.stored, &m.0.customers);
            customers.update_one(doc! { "_id": 1 }, rename("Bea")).await.unwrap();
            customers.delete_one(doc! { "_id": 2 }).await.unwrap();
            customers.insert_one(customer(5, "Cas")).await.unwrap();
            let copy = doc! { "_id": 4, "name": "wrong", "v": 0 };
            let order = doc! { "customer": copy };
            orders.replace_one(doc! { "_id": 1 }, order).await.unwrap();
        })
    }
    /// Follows, and lets another program write. An older server cannot, and the call itself must report it.
    async fn behind<'a>(m: &'a Followed, written: impl Future<Output = ()> + 'a) {
        if m.0.orders.follow(FOLLOWER).run_until_current().await.is_ok() {
            written.await;
        }
    }
    const FOLLOW: &str = "ReferenceRepository::follow";
    calls! { Followed;
        Steps, FOLLOW, "for the first time", |m| follow(m).await => prepare(written), without_order();
        Steps, FOLLOW, "four changes behind", |m|
            follow(m).await => prepare(|m| behind(m, written(m)).await), without_order();
        Steps, FOLLOW, "a change of a source behind", |m|
            follow(m).await
            => prepare(|m| behind(m, async {
                m.0.customers.update_one(doc! { "_id": 1 }, rename("Bea")).await.unwrap();
            }).await);
        Steps, FOLLOW, "a change of a copy behind", |m|
            follow(m).await
            => prepare(|m| behind(m, async {
                let changed = doc! { "$set": { "customer.name": "wrong" } };
                m.0.stored.update_one(doc! { "_id": 1 }, changed).await.unwrap();
            }).await);
    }
}
