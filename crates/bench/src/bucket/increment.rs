//! Increments of one item, child or element, by update operators.

use anyhow::Result;
use futures::FutureExt;
use mongo_patterns_bucket::BucketRepository;
use mongo_patterns_core::Repository;
use mongo_patterns_embedded::EmbeddedRepository;
use mongo_patterns_outlier::OutlierRepository;
use mongo_patterns_subset::{Direction, Subset, SubsetRepository};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::Hint;
use mongodb::{Collection, Database};

use super::trade::SECOND;
use crate::alternate::{Alternative, Turns, alternate};
use crate::bench::Bench;
use crate::measure::{Operation, operation};
use crate::report::{Comparison, Section};

/// The documents, and the items of each.
const DOCUMENTS: i32 = 500;
const ITEMS: i32 = 10;

const OURS: &str = "update";
const BY_HAND: &str = "by hand";
const REPEATED: &str = "by hand, repeated";

const TEXT: &str = "\
`$inc` of a field of one item, child or element of 5,000, in 500 documents, by the repository and by the same commands \
with the driver. They alternate after each operation, or after each 64 concurrent ones, on a dedicated thread. CPU is \
the CPU time of that thread, including system time, in the median turn of a round. One form runs twice: the ratio of the \
second to the first is the error of the method. The child of a subset is in the subset, so that by hand the update is \
followed by a find of the first children and an update of the parent, without a check of its version.";

/// What is incremented.
#[derive(Clone, Copy)]
enum Part {
    Item,
    Child,
    Element,
    ChildOfSubset,
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("increment", "Increment of one element", TEXT);
    let single = Turns {
        turns: bench.pick(1000, 16),
        concurrency: 1,
    };
    let concurrent = Turns {
        turns: bench.pick(50, 2),
        concurrency: 64,
    };
    for (title, part) in [
        ("An item of a bucket", Part::Item),
        ("An embedded child", Part::Child),
        ("An element of an outlier's array", Part::Element),
        ("A child of a subset", Part::ChildOfSubset),
    ] {
        for (turns, titled) in [
            (single, title.to_owned()),
            (concurrent, format!("{title}, 64 concurrent")),
        ] {
            let prepare = move |database: Database| alternatives(database, part).boxed();
            let entries = alternate(bench, turns, BY_HAND, prepare).await?;
            section.add(&Comparison::new(titled, "increment", entries));
        }
    }
    Ok(section)
}

async fn alternatives(database: Database, part: Part) -> Result<Vec<Alternative>> {
    let mut alternatives = Vec::new();
    for (number, name) in [OURS, BY_HAND, REPEATED].into_iter().enumerate() {
        let of = |kind: &str| database.collection::<Document>(&format!("increment_{kind}_{number}"));
        let collections = [of("main"), of("other")];
        for collection in &collections {
            super::collection::empty(collection).await?;
        }
        alternatives.push(Alternative {
            name,
            ours: name == OURS,
            operation: part.prepare(collections, name == OURS).await?,
        });
    }
    Ok(alternatives)
}

/// Returns the document and the item of an operation.
fn place(n: u64) -> (i32, i32) {
    let random = super::scatter(n);
    let of = |bits: u64, count: i32| (bits % count as u64) as i32;
    (of(random, DOCUMENTS), of(random >> 32, ITEMS))
}

fn item(id: i32) -> Document {
    doc! { "id": id, "qty": 1, "date": DateTime::from_millis(SECOND * 1000) }
}

fn items() -> Vec<Document> {
    (0..ITEMS).map(item).collect()
}

impl Part {
    /// Stores the documents, and returns the operation that increments a part of one of them.
    async fn prepare(self, [main, other]: [Collection<Document>; 2], ours: bool) -> Result<Operation> {
        let increment = |path: &str| doc! { "$inc": { path: 1 } };
        match self {
            Self::Item => {
                let buckets = BucketRepository::<i32, Document>::builder(main.clone())
                    .key_field("customerId")
                    .items_field("history")
                    .time_field("date")
                    .item_id_field("id")
                    .page_size(ITEMS as u32)
                    .build()?;
                buckets.ensure_indexes().replace_settings().await?;
                for key in 0..DOCUMENTS {
                    buckets.append_many(&key, &items()).await?;
                }
                Ok(operation(move |n| {
                    let ((key, id), buckets, main) = (place(n), buckets.clone(), main.clone());
                    async move {
                        if ours {
                            buckets.update_item(&key, id, increment("qty")).await?;
                            return Ok(());
                        }
                        let filter = doc! { "customerId": key, "history.id": id };
                        let index = Hint::Name("customerId_1_history.id_1".to_owned());
                        main.update_one(filter, increment("history.$.qty")).hint(index).await?;
                        Ok(())
                    }
                }))
            }
            Self::Child => {
                let parents = EmbeddedRepository::<Document, Document>::builder(main.clone())
                    .children_field("children")
                    .child_id_field("id")
                    .build()?;
                let documents = (0..DOCUMENTS).map(|id| doc! { "_id": id, "children": items() });
                main.insert_many(documents).await?;
                Ok(operation(move |n| {
                    let ((parent, id), parents, main) = (place(n), parents.clone(), main.clone());
                    async move {
                        if ours {
                            parents.update_child(parent, id, increment("qty")).await?;
                            return Ok(());
                        }
                        let filter = doc! { "_id": parent, "children": { "$elemMatch": { "id": id } } };
                        main.update_one(filter, increment("children.$.qty")).await?;
                        Ok(())
                    }
                }))
            }
            Self::Element => {
                let lists = OutlierRepository::<Document, Document>::builder(main.clone(), other)
                    .array_field("elements")
                    .parent_field("list_id")
                    .build()?;
                let documents = (0..DOCUMENTS).map(|id| doc! { "_id": id, "elements": items() });
                main.insert_many(documents).await?;
                Ok(operation(move |n| {
                    let ((list, id), lists, main) = (place(n), lists.clone(), main.clone());
                    async move {
                        if ours {
                            lists.update_element(list, doc! { "id": id }, increment("qty")).await?;
                            return Ok(());
                        }
                        let filter = doc! { "_id": list, "elements": { "$elemMatch": { "id": id } } };
                        main.update_one(filter, increment("elements.$.qty")).await?;
                        Ok(())
                    }
                }))
            }
            Self::ChildOfSubset => child_of_subset(main, other, ours).await,
        }
    }
}

async fn child_of_subset(main: Collection<Document>, other: Collection<Document>, ours: bool) -> Result<Operation> {
    let parents = SubsetRepository::<Document, Document>::builder(main.clone(), other.clone())
        .parent_field("parent")
        .child_id_field("id")
        .subset(
            Subset::new("children")
                .order_by("qty", Direction::Descending)
                .size(ITEMS as u32),
        )
        .build()?;
    parents.ensure_indexes().replace_settings().await?;
    main.insert_many((0..DOCUMENTS).map(|id| doc! { "_id": id })).await?;
    let children = (0..DOCUMENTS).flat_map(|parent| {
        items().into_iter().map(move |mut child| {
            child.insert("parent", parent);
            child
        })
    });
    other.insert_many(children).await?;
    parents.rebuild_all().await?;
    Ok(operation(move |n| {
        let ((parent, id), parents, main, other) = (place(n), parents.clone(), main.clone(), other.clone());
        async move {
            if ours {
                parents.update(parent, id, doc! { "$inc": { "qty": 1 } }).await?;
                return Ok(());
            }
            let filter = doc! { "parent": parent, "id": id };
            other.update_one(filter, doc! { "$inc": { "qty": 1 } }).await?;
            let first = other.find(doc! { "parent": parent }).sort(doc! { "qty": -1, "id": -1 });
            let first = first
                .limit(ITEMS.into())
                .projection(doc! { "parent": 0, "_id": 0 })
                .await?;
            let first: Vec<Document> = futures::TryStreamExt::try_collect(first).await?;
            let set = doc! { "$set": { "children": first } };
            main.update_one(doc! { "_id": parent }, set).await?;
            Ok(())
        }
    }))
}
