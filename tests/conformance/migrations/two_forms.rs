//! Writers of the old and of the new form, beside a migration from one to the other.
//!
//! The other migrations have their writers where their documents are: `outlier::migrate_existing`,
//! `subset::migrate_layout`, `subset::migration_live`, `bucket::page_size`, `reference::migrate_live`, `schema::releases`.

mod buckets;
mod children;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use mongo_patterns::{Error, ErrorKind};
use tokio::task::JoinHandle;

use support::common::pause;
use support::pace::Pace;
use support::random::random;

/// The values of items, by the key that they belong to and their id.
type Items = BTreeMap<(i32, i32), i32>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Add,
    Change,
    Remove,
}

/// A write to one item, which sets its value.
#[derive(Clone, Copy, Debug)]
struct Write {
    key: i32,
    id: i32,
    op: Op,
    value: i32,
}

/// How one form is written, and the errors of its writes while the documents have the other one.
#[derive(Clone)]
struct Form {
    write: Arc<dyn Fn(Write) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>,
    refusals: &'static [ErrorKind],
}

impl Form {
    fn new<F>(refusals: &'static [ErrorKind], write: impl Fn(Write) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let write = Arc::new(move |item| -> BoxFuture<'static, Result<(), Error>> { Box::pin(write(item)) });
        Self { write, refusals }
    }
}

/// Writers that have begun.
struct Writers {
    pace: Pace,
    tasks: Vec<JoinHandle<(Items, Vec<u32>)>>,
}

/// What the writers acknowledged, and how many writes each form refused.
struct Acknowledged {
    items: Items,
    refused: Vec<u32>,
}

impl Writers {
    const NUMBER: i32 = 8;

    /// Starts writers, each of which has some of the items, and writes each time in one of the forms.
    fn start(items: &Items, keys: i32, forms: &[Form], ops: &'static [Op], pace: &Pace) -> Self {
        let tasks = (0..Self::NUMBER).map(|writer| {
            let own = items.iter().filter(|((_, id), _)| id % Self::NUMBER == writer);
            let own = own.map(|(item, value)| (*item, *value)).collect();
            tokio::spawn(write(writer, own, keys, forms.to_vec(), ops, pace.clone()))
        });
        Self {
            tasks: tasks.collect(),
            pace: pace.clone(),
        }
    }

    /// Ends them, after some more writes.
    async fn end(self) -> Acknowledged {
        self.pace.end();
        let mut all = Acknowledged {
            items: Items::new(),
            refused: Vec::new(),
        };
        for written in join_all(self.tasks).await {
            let (items, refused) = written.unwrap();
            all.items.extend(items);
            all.refused.resize(refused.len(), 0);
            let sums = all.refused.iter().zip(&refused);
            all.refused = sums.map(|(sum, refused)| sum + refused).collect();
        }
        all
    }
}

async fn write(
    writer: i32,
    mut items: Items,
    keys: i32,
    forms: Vec<Form>,
    ops: &[Op],
    pace: Pace,
) -> (Items, Vec<u32>) {
    let mut refused = vec![0; forms.len()];
    let mut random = random(writer);
    let (mut n, mut more) = (0, 10);
    while more > 0 {
        more -= u32::from(!pace.next().await);
        n += 1;
        let key = random.i32(1..=keys);
        let of_key: Vec<i32> = items.keys().filter(|item| item.0 == key).map(|item| item.1).collect();
        let op = match random.choice(ops) {
            Some(op) if !of_key.is_empty() => *op,
            _ => Op::Add,
        };
        let id = match op {
            Op::Add => 1000 + n * Writers::NUMBER + writer,
            _ => *random.choice(&of_key).unwrap(),
        };
        let number = random.usize(..forms.len());
        let item = Write { key, id, op, value: n };
        match ((forms[number].write)(item).await, op) {
            (Ok(()), Op::Remove) => drop(items.remove(&(key, id))),
            (Ok(()), _) => drop(items.insert((key, id), n)),
            (Err(error), _) => {
                let is_expected = forms[number].refusals.contains(&error.kind());
                assert!(is_expected, "{item:?} in form {number}: {error:?}");
                refused[number] += 1;
                pause().await;
            }
        }
    }
    (items, refused)
}

/// Returns the items of some documents, each of which is stored once.
fn items_of(documents: impl IntoIterator<Item = ((i32, i32), i32)>) -> Items {
    let mut items = Items::new();
    for (item, value) in documents {
        assert_eq!(items.insert(item, value), None, "{item:?} is stored twice");
    }
    items
}
