//! Appends to one key: alone, or together with those of other calls that wait.

use std::collections::HashMap;
use std::sync::Arc;

use mongo_patterns_core::lanes::{Lane, Stored, Target, Turn};

use crate::form::item::{Item, check_sizes};
use crate::prelude::*;
use crate::repository::{History, Shared};
use crate::results::Appended;
use crate::write::batch::StoreBatch;
use crate::write::key_write::KeyWrite;
use crate::write::store::Store;

/// Appends an item in the lane of its key.
pub(crate) async fn append(shared: &Arc<Shared>, key: &EncodedKey, item: Item, span: Span) -> Result<Appended> {
    let queue = || key.text().as_bytes().to_owned();
    let history = || History {
        shared: Arc::clone(shared),
        key: key.clone(),
        span: span.clone(),
    };
    match shared.appends.enter(key.text(), queue, item, history).await {
        Turn::Alone(lane, item) => append_alone(shared, key, &item, &span, &mut Conn::in_lane(lane)).await,
        Turn::Joined(appended) => appended,
    }
}

/// Appends an item by itself.
pub(crate) async fn append_alone(
    shared: &Shared,
    key: &EncodedKey,
    item: &Item,
    span: &Span,
    conn: &mut Conn<'_>,
) -> Result<Appended> {
    let write = KeyWrite { shared, key };
    let items = &[item];
    let store = Store {
        write,
        span,
        items,
        closes: false,
    };
    Ok(store.run(conn).await?.into())
}

impl Target for History {
    type Item = Item;
    type Output = Appended;

    const INTERRUPTED: &'static str = "the tokio runtime of a call that appends for this one ended, the item may or may not be stored: append it again";

    fn bytes(item: &Item) -> usize {
        item.bytes()
    }

    async fn store(&self, items: &[Item], lane: Lane) -> Stored<Appended> {
        if let Err(error) = check_sizes(&self.shared.settings, items) {
            return Stored {
                results: Vec::new(),
                error: Some(error),
            };
        }
        let (shared, key) = (&*self.shared, &self.key);
        let mut store = StoreBatch::new(KeyWrite { shared, key }, &self.span, items);
        store.opened_by = Some(HashMap::new());
        let error = store.run(&mut Conn::in_lane(lane)).await.err();
        let mut opened_by = store.opened_by.take().unwrap_or_default();
        let appended = |position| {
            Ok(Appended {
                opened: opened_by.remove(&position),
                already_there: store.repeated.contains(&position),
            })
        };
        Stored {
            results: (0..store.stored()).map(appended).collect(),
            error,
        }
    }
}
