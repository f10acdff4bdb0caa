//! Stores a batch of rows, and finds the rows that the server refuses.

use std::collections::HashMap;

use mongo_patterns_core::{Error, ErrorKind, document_id};

use super::item::Item;
use super::problem::Problem;
use crate::failure::Failure;

/// What a batch did.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The number of rows that were stored now.
    pub(super) items: u64,
    /// The number of rows that were stored before.
    pub(super) stored_before: u64,
    /// The number of documents that were opened or written for them, as the target counts them.
    pub(super) written: u64,
    /// The positions of refused rows.
    pub(super) refused: Vec<(usize, Problem)>,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.stored_before += other.stored_before;
        self.written += other.written;
    }

    /// Returns the tally of one row.
    pub(super) fn of_row(is_new: bool) -> Self {
        Self {
            items: u64::from(is_new),
            stored_before: u64::from(!is_new),
            ..Self::default()
        }
    }

    /// Returns the number of rows that are stored or refused.
    pub(super) fn rows(&self) -> u64 {
        self.items + self.stored_before + self.refused.len() as u64
    }
}

/// The target of a load.
pub(crate) trait Store {
    /// The command, such as `bucket load`, and the same with `--dry-run`.
    const COMMANDS: [&'static str; 2];
    /// The name of the summary's row of [`Tally::written`].
    const WRITTEN: Option<&'static str> = None;

    fn namespace(&self) -> String;

    /// Returns what to do so that rows without an id get one.
    fn advice(&self) -> &'static str;

    /// Creates the indexes, and checks what the target needs.
    async fn begin(&self) -> Result<(), Failure>;

    /// Splits rows into batches, which are stored concurrently.
    fn batches(&self, items: Vec<Item>) -> Vec<Vec<Item>> {
        by_owner(items)
    }

    /// Stores a batch, or a prefix of it that ends with a refused row. After an error a prefix is stored, whose length is
    /// the error's number of stored items.
    async fn store(&self, items: &[Item]) -> Result<Tally, Error>;
}

/// Groups rows by their owner, in order.
pub(super) fn by_owner(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut groups: Vec<Vec<Item>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for item in items {
        let group = *known.entry(document_id::text(&item.owner)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(item);
    }
    groups
}

/// A batch after it was stored: its tally, and the error that ended it.
pub(super) struct Stored {
    pub(super) items: Vec<Item>,
    pub(super) tally: Tally,
    pub(super) error: Option<Error>,
}

/// Stores rows with a call each, up to the first refused one. One that exists already is one that was stored before.
pub(super) async fn one_by_one(
    items: &[Item],
    store: impl AsyncFn(&Item) -> Result<Tally, Error>,
) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    for (position, item) in items.iter().enumerate() {
        match store(item).await {
            Ok(one) => tally.add(&one),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => tally.stored_before += 1,
            Err(error) => match Problem::of_row(&error) {
                Some(problem) => {
                    tally.refused.push((position, problem));
                    break;
                }
                None => return Err(error.with_stored(tally.items + tally.stored_before)),
            },
        }
    }
    Ok(tally)
}

/// Stores a batch. If the server refuses one of its rows, the rows after the stored ones are stored in smaller parts, down
/// to one row: all of them, or up to the first refused one.
pub(super) async fn store_batch<S: Store>(store: &S, items: Vec<Item>, skips: bool) -> Stored {
    let (mut tally, mut error) = (Tally::default(), None);
    let (mut from, mut size) = (0, items.len());
    while from < items.len() && (skips || tally.refused.is_empty()) {
        let part = &items[from..items.len().min(from.saturating_add(size))];
        match store.store(part).await {
            Ok(stored) => {
                let refused = stored.refused.iter().cloned();
                tally
                    .refused
                    .extend(refused.map(|(position, problem)| (from + position, problem)));
                tally.add(&stored);
                from += usize::try_from(stored.rows()).unwrap_or(usize::MAX).max(1);
                size = size.saturating_mul(2);
            }
            Err(failed) => {
                let is_one = part.len() == 1;
                let stored = failed.stored_count().filter(|_| !is_one).unwrap_or(0);
                tally.items += stored;
                from += usize::try_from(stored).unwrap_or(usize::MAX);
                match Problem::of_row(&failed) {
                    None => {
                        error = Some(failed);
                        break;
                    }
                    Some(problem) if is_one => {
                        tally.refused.push((from, problem));
                        from += 1;
                    }
                    Some(_) => size = part.len() / 2,
                }
            }
        }
    }
    Stored { items, tally, error }
}
