//! Patterns that change, keep or move the whole document: a history, intervals, a trash, an archive.

use std::time::Duration;

use futures::future::BoxFuture;
use mongo_patterns::archive::{Archive, Trash};
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::intervals::IntervalRepository;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::{Error, ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::{Acknowledged, IDS, Role, World, finds_nothing, numbers};
use support::common::{all, integer, patient};

/// The documents are the current ones of a history.
pub(super) struct History {
    orders: HistoryRepository<Document>,
    acknowledged: Acknowledged,
}

impl History {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let orders = HistoryRepository::builder(
            db.collection::<Document>("orders"),
            db.collection::<Document>("revisions"),
        );
        Self {
            orders: orders.id_field("_id").retry(patient()).build().unwrap(),
            acknowledged: Acknowledged::default(),
        }
    }
}

impl Role for History {
    fn name(&self) -> &'static str {
        "history"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.orders]
    }

    fn fields(&self) -> Document {
        doc! { "log": [] }
    }

    fn begin<'a>(&'a self, _world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move { drop(self.orders.migrate_existing().await.unwrap()) })
    }

    fn write<'a>(&'a self, world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _content = world.content_of(id).await;
            if n % 3 == 0 {
                self.orders.update(id, doc! { "$push": { "log": n } }).await?;
            } else {
                let Some(mut order) = self.orders.get(id).await? else {
                    return Err(Error::new(ErrorKind::NotFound, "the document is away"));
                };
                order.document.get_array_mut("log").unwrap().push(n.into());
                self.orders.replace(id, &order.document).await?;
            }
            self.acknowledged.add(id, n);
            Ok(())
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                // What others have written is a revision with the next write.
                self.orders
                    .update(id, doc! { "$set": { "checked": true } })
                    .await
                    .unwrap();
                let order = world.order(id).await;
                self.acknowledged.check(id, numbers(&order, "log", ""), self.name());
                let revisions = all(&world.stored("revisions")).await;
                let of_order = revisions
                    .iter()
                    .filter(|revision| revision.get("documentId") == Some(&Bson::from(id)));
                let mut stored: Vec<i64> = of_order.map(|one| integer(one.get("revision").unwrap())).collect();
                stored.sort_unstable();
                assert_eq!(stored, Vec::from_iter(1..=stored.len() as i64), "the revisions of {id}");
                assert_eq!(order.get("revision").map(integer), stored.last().copied());
            }
            finds_nothing(self.name(), self.orders.verify().stream()).await;
        })
    }
}

/// The documents are the current intervals of their items.
pub(super) struct Intervals {
    items: IntervalRepository<Document>,
    acknowledged: Acknowledged,
}

impl Intervals {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let items = IntervalRepository::builder(db.collection::<Document>("orders")).id_field("item");
        Self {
            items: items.retry(patient()).build().unwrap(),
            acknowledged: Acknowledged::default(),
        }
    }
}

impl Role for Intervals {
    fn name(&self) -> &'static str {
        "intervals"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.items]
    }

    fn copies(&self) -> bool {
        true
    }

    fn fields(&self) -> Document {
        let end = DateTime::parse_rfc3339_str("9999-01-01T00:00:00Z").unwrap();
        doc! { "validFrom": DateTime::from_millis(0), "validTo": end, "isValid": true, "prices": [] }
    }

    fn write<'a>(&'a self, world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _content = world.content_of(id).await;
            if n % 3 == 0 {
                self.items.update(id, doc! { "$push": { "prices": n } }).await?;
            } else {
                let Some(mut item) = self.items.get(id).await? else {
                    return Err(Error::new(ErrorKind::NotFound, "the document is away"));
                };
                item.document.get_array_mut("prices").unwrap().push(n.into());
                self.items.replace(id, &item.document).await?;
            }
            self.acknowledged.add(id, n);
            Ok(())
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                self.acknowledged
                    .check(id, numbers(&world.order(id).await, "prices", ""), self.name());
            }
            finds_nothing(self.name(), self.items.verify().stream()).await;
        })
    }
}

/// Deleted documents are in a trash.
pub(super) struct Trashed(Trash<Document>);

impl Trashed {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let collection = |name: &str| db.collection::<Document>(name);
        let trash = Trash::builder(collection("orders"), collection("deleted_orders"))
            .related(collection("more_lines"), "order")
            .related(collection("notes"), "order")
            .related(collection("revisions"), "documentId");
        Self(trash.retry(patient()).build().unwrap())
    }
}

impl Role for Trashed {
    fn name(&self) -> &'static str {
        "trash"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.0]
    }

    fn moves(&self) -> bool {
        true
    }

    fn write<'a>(&'a self, world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let found = match world.references {
                None => self.0.delete(id).by(n).await?.found,
                Some(references) => {
                    let deletion = references.delete_source(id).on_references(OnReferences::KeepCopy);
                    deletion.through(&self.0).await?.found
                }
            };
            if found {
                assert!(!self.0.restore(id).await.unwrap().already_there);
            }
            Ok(())
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                world.order(id).await;
            }
            assert_eq!(all(&world.stored("deleted_orders")).await, []);
        })
    }
}

/// Old documents are in an archive.
pub(super) struct Archived(Archive<Document>);

impl Archived {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let collection = |name: &str| db.collection::<Document>(name);
        let archive = Archive::builder(collection("orders"), collection("old_orders")).age_field("at");
        let archive = archive
            .older_than(Duration::from_secs(60))
            .related(collection("more_lines"), collection("old_more_lines"), "order")
            .related(collection("notes"), collection("old_notes"), "order")
            .related(collection("revisions"), collection("old_revisions"), "documentId");
        Self(archive.retry(patient()).build().unwrap())
    }
}

impl Role for Archived {
    fn name(&self) -> &'static str {
        "archive"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.0]
    }

    fn moves(&self) -> bool {
        true
    }

    fn write<'a>(&'a self, _world: &'a World<'_>, _id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if n % 4 == 0 {
                self.0.run().await?;
                self.0.restore_many(doc! {}).await?;
            }
            Ok(())
        })
    }

    fn end<'a>(&'a self, _world: &'a World<'_>) -> BoxFuture<'a, ()> {
        // What another run has moved in the meantime.
        Box::pin(async move {
            self.0.restore_many(doc! {}).await.unwrap();
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                world.order(id).await;
            }
            for moved in ["old_orders", "old_more_lines", "old_notes", "old_revisions"] {
                assert_eq!(all(&world.stored(moved)).await, [], "{moved}");
            }
            finds_nothing(self.name(), self.0.verify().stream()).await;
        })
    }
}
