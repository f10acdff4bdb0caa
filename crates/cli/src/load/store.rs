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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use mongodb::bson::{Bson, RawBson};

    use super::*;

    /// A target that refuses some lines.
    struct Picky {
        refused: Vec<u64>,
        stores_prefix: bool,
        stored: Mutex<Vec<u64>>,
        calls: Mutex<usize>,
    }

    impl Store for Picky {
        const COMMANDS: [&'static str; 2] = ["load", "load --dry-run"];

        fn namespace(&self) -> String {
            String::new()
        }

        fn advice(&self) -> &'static str {
            ""
        }

        async fn begin(&self) -> Result<(), Failure> {
            Ok(())
        }

        async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
            *self.calls.lock().unwrap() += 1;
            let refused = items.iter().position(|item| self.refused.contains(&item.line));
            let prefix = if self.stores_prefix { refused.unwrap_or(0) } else { 0 };
            let stored = if refused.is_some() { prefix } else { items.len() };
            let lines = items[..stored].iter().map(|item| item.line);
            self.stored.lock().unwrap().extend(lines);
            match refused {
                Some(_) => Err(Error::new(ErrorKind::NotFound, "refused").with_stored(prefix as u64)),
                None => Ok(Tally {
                    items: stored as u64,
                    ..Tally::default()
                }),
            }
        }
    }

    fn items(lines: u64) -> Vec<Item> {
        let item = |line| Item {
            line,
            owner: Bson::Null,
            body: RawBson::Null,
            has_id: false,
            raw: None,
        };
        (0..lines).map(item).collect()
    }

    #[tokio::test]
    async fn refused_rows_are_found_and_all_others_stored_once() {
        for refused in [vec![], vec![0], vec![99], vec![5, 6, 50], (0..100).collect()] {
            for stores_prefix in [false, true] {
                let store = Picky {
                    refused: refused.clone(),
                    stores_prefix,
                    stored: Mutex::default(),
                    calls: Mutex::default(),
                };
                let stored = store_batch(&store, items(100), true).await;
                let positions: Vec<u64> = stored.tally.refused.iter().map(|(at, _)| *at as u64).collect();
                assert_eq!(positions, refused);
                let others: Vec<u64> = (0..100).filter(|line| !refused.contains(line)).collect();
                assert_eq!(*store.stored.lock().unwrap(), others);
                assert_eq!(
                    (stored.tally.items, stored.error.is_none()),
                    (others.len() as u64, true)
                );
                let calls = *store.calls.lock().unwrap();
                assert!(
                    calls <= 1 + 14 * refused.len(),
                    "{calls} calls for {} rows",
                    refused.len()
                );
            }
        }
    }

    #[tokio::test]
    async fn the_first_refused_row_ends_a_batch_that_skips_none() {
        let store = Picky {
            refused: vec![7, 9],
            stores_prefix: false,
            stored: Mutex::default(),
            calls: Mutex::default(),
        };
        let stored = store_batch(&store, items(100), false).await;
        assert_eq!(stored.tally.refused.len(), 1);
        assert_eq!(stored.tally.refused[0].0, 7);
        assert_eq!(*store.stored.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn rows_of_an_owner_are_together_in_order() {
        let mut rows = items(6);
        let owners = [1, 2, 1, 3, 2, 1];
        rows.iter_mut()
            .zip(owners)
            .for_each(|(row, owner)| row.owner = owner.into());
        let groups: Vec<Vec<u64>> = by_owner(rows)
            .iter()
            .map(|group| group.iter().map(|item| item.line).collect())
            .collect();
        assert_eq!(groups, [vec![0, 2, 5], vec![1, 4], vec![3]]);
    }
}
