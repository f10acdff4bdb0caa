//! The batching of appends that many tasks make to one key.

use std::marker::PhantomData;
use std::sync::Arc;

use mongo_patterns_core::batching::{Queues, Stored, Target};

use crate::form::item::{Item, check_sizes};
use crate::prelude::*;
use crate::repository::Shared;
use crate::results::Appended;
use crate::write::batch::StoreBatch;
use crate::write::key_write::KeyWrite;

/// Appends for many tasks of a process, in batches.
///
/// Items that arrive for a key while a command for that key is running are sent together in the next command. Every
/// caller gets its own result.
///
/// [`batching_writer`](crate::BucketRepository::batching_writer) creates it. A clone is cheap, and shares the queues.
pub struct BatchingWriter<K, T> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queues: Arc<Queues<History>>,
    pub(crate) types: PhantomData<fn() -> (K, T)>,
}

mongo_patterns_core::clone_fields!(BatchingWriter<K, T>, shared, queues, types);
mongo_patterns_core::redacted_debug!(BatchingWriter<K, T>, |writer| "collection" = writer.shared.collection.namespace());

/// Appends an item in a batch with those of other tasks.
pub(crate) async fn append(
    shared: &Arc<Shared>,
    queues: &Arc<Queues<History>>,
    key: &EncodedKey,
    item: Item,
    span: Span,
) -> Result<Appended> {
    check_sizes(&shared.settings, std::slice::from_ref(&item))?;
    let history = || History {
        shared: Arc::clone(shared),
        key: key.clone(),
        span,
    };
    queues.store(key.text().as_bytes(), item, history).await
}

/// The history of one key.
pub(crate) struct History {
    shared: Arc<Shared>,
    key: EncodedKey,
    /// The span of the append that started the task.
    span: Span,
}

impl Target for History {
    type Item = Item;
    type Output = Appended;

    const INTERRUPTED: &'static str =
        "the tokio runtime of the writer ended, the item may or may not be stored: append it again";

    fn bytes(item: &Item) -> usize {
        item.bytes()
    }

    async fn store(&self, items: &[Item]) -> Stored<Appended> {
        if let Err(error) = check_sizes(&self.shared.settings, items) {
            return Stored {
                results: Vec::new(),
                error: Some(error),
            };
        }
        let (shared, key) = (&*self.shared, &self.key);
        let mut store = StoreBatch::new(KeyWrite { shared, key }, &self.span, items);
        let error = store.run(None).await.err();
        let appended = |position| {
            Ok(Appended {
                opened: None,
                already_there: store.repeated.contains(&position),
            })
        };
        Stored {
            results: (0..store.stored()).map(appended).collect(),
            error,
        }
    }
}
