//! A batch of items of one key.

use std::sync::Arc;

use anyhow::{Result, ensure};
use futures::{FutureExt, stream};
use mongodb::Collection;
use mongodb::bson::{Document, doc, serialize_to_bson};

use super::by_hand;
use super::trade::{FlatTrade, Trade};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Variant, Work, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const KEY: u32 = 123;

const TEXT: &str = "\
10,000 items of one key are stored in a new collection, and 1000 of them if they are sent one by one. All rows are \
compared with single appends. The raw `update` command has 1000 of the same upserts, written by hand. The finished \
buckets are built by hand from the same structs and sent in one `insert_many`, as a program can do if it is the only \
writer.";

#[derive(Clone, Copy, Debug)]
enum Form {
    Single,
    Update,
    Many,
    Stream,
    Buckets,
    Flat,
}

impl Form {
    const ALL: [Self; 6] = [
        Self::Single,
        Self::Update,
        Self::Many,
        Self::Stream,
        Self::Buckets,
        Self::Flat,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Single => "append, one by one",
            Self::Update => "update with 1000 statements",
            Self::Many => "append_many",
            Self::Stream => "append_stream",
            Self::Buckets => "insert_many of finished buckets",
            Self::Flat => "insert_many, one document per item",
        }
    }

    fn is_ours(self) -> bool {
        matches!(self, Self::Single | Self::Many | Self::Stream)
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let all = Trade::spread(bench.pick(10_000, 2000));
    let some = Trade::spread(bench.pick(1000, 200));
    let items = |form: Form| Arc::clone(if matches!(form, Form::Single) { &some } else { &all });
    let variants = Form::ALL.map(|form| {
        let (items, collection) = (items(form), bench.collection("batches"));
        let passes = match form {
            _ if bench.quick => 1,
            Form::Single | Form::Update => 1,
            _ => 10,
        };
        let variant = Variant::new(form.name(), items.len() as u64, move || {
            prepare(form, collection.clone(), Arc::clone(&items))
        });
        let variant = variant.against(Form::Single.name()).passes(passes);
        if form.is_ours() { variant.ours() } else { variant }
    });
    let title = format!("{} items of one key", number(all.len() as f64));
    let entries = compare(bench, &title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "item", entries);
    comparison.also_against(Form::Buckets.name(), "rate ratio to finished buckets");
    for form in Form::ALL {
        let items = items(form);
        let work = prepare(form, bench.recorded("batches"), Arc::clone(&items)).await?;
        let trips = round_trips(bench, 1, work).await?;
        comparison.figure(form.name(), "total round trips", trips);
        comparison.figure(form.name(), "items", items.len() as f64);
    }
    let mut section = Section::new("batches", "Batches", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn prepare(form: Form, collection: Collection<Document>, items: Arc<[Trade]>) -> Result<Work> {
    if matches!(form, Form::Flat) {
        by_hand::flat(&collection).await?;
        let collection = collection.clone_with_type::<FlatTrade>();
        return Ok(async move {
            collection
                .insert_many(items.iter().map(|item| FlatTrade::new(KEY, item)))
                .await?;
            Ok(())
        }
        .boxed());
    }
    let trades = super::collection::fresh(&collection).await?;
    let count = items.len() as u64;
    Ok(match form {
        Form::Single => {
            let append = move |n: u64| {
                let (trades, items) = (trades.clone(), Arc::clone(&items));
                async move {
                    trades.append(&KEY, &items[n as usize]).await?;
                    Ok(())
                }
                .boxed()
            };
            in_tasks(1, count, Arc::new(append))
        }
        Form::Many => async move {
            let appended = trades.append_many(&KEY, &items).await?;
            ensure!(appended.items == count, "items are missing");
            Ok(())
        }
        .boxed(),
        Form::Stream => {
            // A stream owns its items. Cloning them is not part of the measurement.
            let items: Vec<(u32, Trade)> = items.iter().map(|item| (KEY, item.clone())).collect();
            async move {
                let appended = trades.append_stream(stream::iter(items)).await?;
                ensure!(appended.items == count, "items are missing");
                Ok(())
            }
            .boxed()
        }
        Form::Buckets => async move { insert_buckets(&collection, &items).await }.boxed(),
        _ => async move { update(&collection, &items).await }.boxed(),
    })
}

async fn insert_buckets(collection: &Collection<Document>, items: &[Trade]) -> Result<()> {
    let buckets = items
        .chunks(super::collection::PAGE_SIZE as usize)
        .map(|page| by_hand::Bucket {
            id: format!("{KEY}_{}", page[0].second()),
            customer: KEY,
            count: page.len() as i32,
            history: page,
        });
    let collection = collection.clone_with_type::<by_hand::Bucket<&[Trade]>>();
    collection.insert_many(buckets).await?;
    Ok(())
}

async fn update(collection: &Collection<Document>, items: &[Trade]) -> Result<()> {
    for items in items.chunks(1000) {
        let statements: Result<Vec<Document>> = items
            .iter()
            .map(|item| {
                Ok(doc! {
                    "q": { "_id": by_hand::ids_of(KEY)?, "customerId": i32::try_from(KEY)?, "count": { "$lt": 10 } },
                    "u": by_hand::update(KEY, item, serialize_to_bson(item)?)?,
                    "upsert": true,
                    "hint": by_hand::OPEN_INDEX,
                })
            })
            .collect();
        let command = doc! { "update": collection.name(), "updates": statements? };
        let reply = by_hand::database(collection).run_command(command).await?;
        ensure!(!reply.contains_key("writeErrors"), "an update failed");
    }
    Ok(())
}
