//! References: the follower.

use futures::future::LocalBoxFuture;
use mongo_patterns::Error;
use mongo_patterns::reference::OnReferences;
use mongodb::bson::doc;

use super::operation::Promise::Steps;
use super::operation::{Model, Of, Operation, Operations, text};
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

    /// A repair corrects what the other program wrote too. The retry is the one to test.
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
    vec![
        Operation::<Followed>::new(Steps, FOLLOW, "for the first time", follow)
            .prepare(written)
            .without_order(),
        Operation::<Followed>::new(Steps, FOLLOW, "four changes behind", follow)
            .prepare(|m| Box::pin(behind(m, written(m))))
            .without_order(),
        Operation::<Followed>::new(Steps, FOLLOW, "a change of a source behind", follow).prepare(|m| {
            Box::pin(behind(m, async move {
                let renamed = m.0.customers.update_one(doc! { "_id": 1 }, rename("Bea"));
                renamed.await.unwrap();
            }))
        }),
        Operation::<Followed>::new(Steps, FOLLOW, "a change of a copy behind", follow).prepare(|m| {
            Box::pin(behind(m, async move {
                let changed = doc! { "$set": { "customer.name": "wrong" } };
                m.0.stored.update_one(doc! { "_id": 1 }, changed).await.unwrap();
            }))
        }),
    ]
}
