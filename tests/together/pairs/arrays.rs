//! Patterns with an array in the document: a list, a subset of children, embedded children.

use futures::TryStreamExt;
use futures::future::BoxFuture;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::{Acknowledged, IDS, Role, World, finds_nothing, numbers};
use support::common::{all, patient};

pub(super) struct List {
    lines: OutlierRepository<Document, i32>,
    acknowledged: Acknowledged,
}

impl List {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let lines = OutlierRepository::builder(
            db.collection::<Document>("orders"),
            db.collection::<Document>("more_lines"),
        );
        let lines = lines
            .array_field("lines")
            .parent_field("order")
            .threshold(5)
            .max_overflow_elements(10);
        Self {
            lines: lines.retry(patient()).build().unwrap(),
            acknowledged: Acknowledged::default(),
        }
    }
}

impl Role for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.lines]
    }

    fn write<'a>(&'a self, _world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.lines.push(id, &n).await?;
            self.acknowledged.add(id, n);
            if n % 4 == 0 {
                self.lines.remove(id, &n).await?;
                self.acknowledged.remove(id, n);
            }
            Ok(())
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let more = all(&world.stored("more_lines")).await;
            for id in IDS {
                let mut stored = numbers(&world.order(id).await, "lines", "");
                let of_order = more.iter().filter(|more| more.get("order") == Some(&Bson::from(id)));
                stored.extend(of_order.flat_map(|more| numbers(more, "lines_extra", "")));
                self.acknowledged.check(id, stored, self.name());
            }
            if world.moves {
                // The document can be away after a push has set the flag, and before it stores the element.
                self.lines.repair().stream().try_collect::<Vec<_>>().await.unwrap();
            }
            finds_nothing(self.name(), self.lines.verify().stream()).await;
        })
    }
}

pub(super) struct Children {
    notes: SubsetRepository<Document, Document>,
    acknowledged: Acknowledged,
}

impl Children {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let notes = SubsetRepository::builder(db.collection::<Document>("orders"), db.collection::<Document>("notes"));
        let notes = notes.parent_field("order").child_id_field("id");
        let notes = notes.subset(Subset::new("notes").sort(doc! { "at": -1 }).size(3));
        Self {
            notes: notes
                .total_field("note_count")
                .sum("n", "note_sum")
                .retry(patient())
                .build()
                .unwrap(),
            acknowledged: Acknowledged::default(),
        }
    }
}

impl Role for Children {
    fn name(&self) -> &'static str {
        "subset"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.notes]
    }

    fn write<'a>(&'a self, _world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let note = doc! { "order": id, "id": n, "at": DateTime::from_millis(n.into()), "n": n };
            self.notes.insert(&note).await?;
            self.acknowledged.add(id, n);
            if n % 4 == 0 {
                self.notes.delete(id, n).await?;
                self.acknowledged.remove(id, n);
            }
            Ok(())
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let notes = all(&world.stored("notes")).await;
            for id in IDS {
                let of_order = notes.iter().filter(|note| note.get("order") == Some(&Bson::from(id)));
                let mut stored: Vec<i32> = of_order.map(|note| note.get_i32("id").unwrap()).collect();
                self.acknowledged.check(id, stored.clone(), self.name());
                let order = world.order(id).await;
                stored.sort_unstable_by(|one, other| other.cmp(one));
                let sum = stored.iter().map(|n| i64::from(*n)).sum::<i64>();
                assert_eq!(
                    support::common::integer(order.get("note_count").unwrap()),
                    stored.len() as i64
                );
                assert_eq!(support::common::integer(order.get("note_sum").unwrap()), sum);
                stored.truncate(3);
                assert_eq!(numbers(&order, "notes", "id"), stored);
            }
            finds_nothing(self.name(), self.notes.verify().stream()).await;
        })
    }
}

pub(super) struct Embedded {
    positions: EmbeddedRepository<Document, Document>,
    acknowledged: Acknowledged,
}

impl Embedded {
    pub(super) fn new(db: &TestDatabase) -> Self {
        let positions = EmbeddedRepository::builder(db.collection::<Document>("orders")).children_field("positions");
        Self {
            positions: positions.max_children(100).retry(patient()).build().unwrap(),
            acknowledged: Acknowledged::default(),
        }
    }
}

impl Role for Embedded {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn repositories(&self) -> Vec<&dyn Repository> {
        vec![&self.positions]
    }

    fn write<'a>(&'a self, _world: &'a World<'_>, id: i32, n: i32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.positions.add_child(id, &doc! { "_id": n, "count": 0 }).await?;
            self.acknowledged.add(id, n);
            match n % 4 {
                0 => {
                    self.positions.remove_child(id, n).await?;
                    self.acknowledged.remove(id, n);
                }
                1 => drop(
                    self.positions
                        .update_child(id, n, doc! { "$inc": { "count": 1 } })
                        .await?,
                ),
                _ => {}
            }
            Ok(())
        })
    }

    fn check<'a>(&'a self, world: &'a World<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for id in IDS {
                self.acknowledged
                    .check(id, numbers(&world.order(id).await, "positions", "_id"), self.name());
            }
            finds_nothing(self.name(), self.positions.verify().stream()).await;
        })
    }
}
