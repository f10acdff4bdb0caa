//! Patterns with fields of their own in the document: a source, a reference, a version, a count.

use futures::future::BoxFuture;
use mongo_patterns::counters::Counters;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{Error, ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};
use tokio::sync::Mutex;

use super::{Acknowledged, IDS, References, Role, World, finds_nothing, numbers};
use support::common::{all, integer, patient};

/// The documents are sources of deliveries.
pub(super) struct Source(References);

impl Source {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let deliveries = References::builder(
            db.collection::<Document>("deliveries"),
            db.collection::<Document>("orders"),
        );
        let deliveries = deliveries.reference_field("order").copied_fields(["title"]);
        Self(deliveries.retry(patient()).build().unwrap())
    }
}

impl Role for Source {
    fn name(&self) -> &'static str {
        "source"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.0]
    }

    fn references(&self) -> Option<&References> {
        Some(&self.0)
    }

    fn write<'a>(&'a self, world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if n % 3 == 0 {
                return self
                    .0
                    .insert(&doc! { "_id": n, "order": { "_id": id } })
                    .await
                    .map(drop);
            }
            let _content = world.content_of(id).await;
            self.0
                .update_source(id, doc! { "$set": { "title": n.to_string() } })
                .await
                .map(drop)
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                // Another pattern may have replaced the title.
                self.0.refresh_copies(id).await.unwrap();
                let order = world.order(id).await;
                let deliveries = all(&world.stored("deliveries")).await;
                for copy in deliveries
                    .iter()
                    .map(|delivery| delivery.get_document("order").unwrap())
                {
                    let is_own = copy.get("_id") == Some(&Bson::from(id));
                    assert!(!is_own || copy.get("title") == order.get("title"), "{copy} {order}");
                }
            }
            finds_nothing(self.name(), self.0.verify().stream()).await;
        })
    }
}

/// The documents refer to customers.
pub(super) struct Referring(References);

impl Referring {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let orders = References::builder(
            db.collection::<Document>("orders"),
            db.collection::<Document>("customers"),
        );
        let orders = orders.reference_field("customer").copied_fields(["name"]);
        Self(orders.retry(patient()).build().unwrap())
    }
}

impl Role for Referring {
    fn name(&self) -> &'static str {
        "referring"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.0]
    }

    fn begin<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let customers = IDS.map(|id| doc! { "_id": id, "name": "new" });
            world.stored("customers").insert_many(customers).await.unwrap();
        })
    }

    fn write<'a>(&'a self, _world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let customer = IDS[usize::try_from(n / 3).unwrap() % IDS.len()];
            match n % 4 {
                0 => self
                    .0
                    .update_source(customer, doc! { "$set": { "name": n.to_string() } })
                    .await
                    .map(drop),
                _ => self.0.set_reference(id, customer).await.map(drop),
            }
        })
    }

    fn end<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for customer in IDS.into_iter().filter(|_| world.copies) {
                self.0.refresh_copies(customer).await.unwrap();
            }
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let customers = all(&world.stored("customers")).await;
            for id in IDS {
                if world.moves {
                    // A restored document has its copy from before.
                    self.0.set_reference(id, id).await.unwrap();
                }
                let order = world.order(id).await;
                let copy = order.get_document("customer").unwrap();
                let source = customers.iter().find(|customer| customer.get("_id") == copy.get("_id"));
                assert_eq!(copy.get("name"), source.unwrap().get("name"), "{copy}");
            }
            finds_nothing(self.name(), self.0.verify().stream()).await;
        })
    }
}

/// The documents have versions.
pub(super) struct Versioned {
    orders: SchemaRepository<Document>,
    acknowledged: Acknowledged,
}

impl Versioned {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let orders = SchemaRepository::builder(db.collection::<Document>("orders"));
        let orders = orders.pipeline_step(1, vec![doc! { "$set": { "changes": [] } }]);
        Self {
            orders: orders.retry(patient()).build().unwrap(),
            acknowledged: Acknowledged::default(),
        }
    }
}

impl Role for Versioned {
    fn name(&self) -> &'static str {
        "versioned"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.orders]
    }

    fn write<'a>(&'a self, world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _content = world.content_of(id).await;
            if n % 3 == 0 {
                self.orders.update(id, doc! { "$push": { "changes": n } }).await?;
            } else {
                let Some(mut order) = self.orders.get(id).await? else {
                    return Err(Error::new(ErrorKind::NotFound, "the document is away"));
                };
                order.get_array_mut("changes").unwrap().push(n.into());
                self.orders.replace(id, &order).await?;
            }
            self.acknowledged.add(id, n);
            Ok(())
        })
    }

    fn end<'a>(&'a self, _world: &'a World<'_>) -> BoxFuture<'a, ()> {
        // A document that was away at each of its writes.
        Box::pin(async move {
            self.orders.migrate().await.unwrap();
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                let order = world.order(id).await;
                self.acknowledged.check(id, numbers(&order, "changes", ""), self.name());
                assert_eq!(order.get("schemaVersion"), Some(&Bson::from(2)), "{order}");
            }
            finds_nothing(self.name(), self.orders.verify().stream()).await;
        })
    }
}

/// The documents have a count.
pub(super) struct Counted {
    views: Mutex<Counters>,
    repository: Counters,
    acknowledged: Acknowledged,
}

impl Counted {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let views = Counters::builder(db.collection::<Document>("orders")).field("views");
        let views = views.retry(patient()).build().unwrap();
        Self {
            views: Mutex::new(views.clone()),
            repository: views,
            acknowledged: Acknowledged::default(),
        }
    }
}

impl Role for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.repository]
    }

    fn write<'a>(&'a self, _world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // One at a time, to know whose count a missing document has refused.
            let views = self.views.lock().await;
            views.add(id, 1)?;
            let flushed = views.flush().await?;
            assert_eq!(flushed.documents + flushed.missing, 1);
            if flushed.missing == 1 {
                return Err(Error::new(ErrorKind::NotFound, "the document is away"));
            }
            self.acknowledged.add(id, n);
            Ok(())
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                let order = world.order(id).await;
                let views = order.get("views").map_or(0, integer);
                assert_eq!(views, self.acknowledged.count(id) as i64, "the views of {id}");
            }
        })
    }
}
