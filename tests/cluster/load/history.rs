//! The history of one key: its appends and reads, with begin and end, and a checker.
//!
//! A history is correct if every read is a view of the key at some moment between its begin and its end. It has what
//! was acknowledged before it began, nothing whose append began after it ended, each item at its position, which never
//! changes, and all items that an earlier read returned.

use std::collections::{HashMap, HashSet};

/// Microseconds of a monotonic clock that all tasks share.
pub type Moment = u64;

/// The outcome of an append for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Acknowledged(Moment),
    /// It may be stored, at any time after it began.
    Unknown,
    /// It reported that nothing was stored.
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub struct Append {
    pub item: i64,
    pub begun: Moment,
    pub end: End,
    /// Its session.
    pub chain: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Read {
    pub begun: Moment,
    pub ended: Moment,
    pub shown: Shown,
    /// Its session. It is checked against the calls of that session only.
    pub chain: Option<u64>,
}

/// The items that a read returned, in the order of the key.
#[derive(Clone, Debug)]
pub enum Shown {
    /// All pages.
    Pages(Vec<Vec<i64>>),
    /// All items.
    Items(Vec<i64>),
    /// The last items, up to a limit.
    Newest(usize, Vec<i64>),
}

/// An anomaly of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wrong {
    /// It has an item whose append had not begun, or reported that the item is not stored.
    Foreign(i64),
    /// It has an item twice.
    Doubled(i64),
    /// It lacks an item that was acknowledged before it began.
    Missing(i64),
    /// An acknowledged item has another position than at the end.
    Displaced(i64),
    /// An item that was not acknowledged when the read began has another position at the end, or does not exist then.
    Vanished(i64),
    /// It lacks an item that an earlier read returned.
    Backwards(i64),
}

impl Wrong {
    /// Returns the name by which it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Foreign(_) => "foreign",
            Self::Doubled(_) => "doubled",
            Self::Missing(_) => "missing",
            Self::Displaced(_) => "displaced",
            Self::Vanished(_) => "vanished",
            Self::Backwards(_) => "backwards",
        }
    }
}

impl Shown {
    fn items(&self) -> Vec<i64> {
        match self {
            Self::Pages(pages) => pages.concat(),
            Self::Items(items) | Self::Newest(_, items) => items.clone(),
        }
    }
}

/// The appends and the final pages of a key.
struct FinalState<'a> {
    appends: HashMap<i64, &'a Append>,
    /// The page of each item, and its index in the page.
    positions: HashMap<i64, (usize, usize)>,
    pages: &'a [Vec<i64>],
}

impl FinalState<'_> {
    fn is_acknowledged_before(&self, item: i64, moment: Moment) -> bool {
        let end = self.appends.get(&item).map(|append| append.end);
        matches!(end, Some(End::Acknowledged(when)) if when < moment)
    }

    /// Returns the anomaly of an item that is not at its final position.
    fn displaced(&self, item: i64, read: &Read) -> Wrong {
        if self.is_acknowledged_before(item, read.begun) {
            Wrong::Displaced(item)
        } else {
            Wrong::Vanished(item)
        }
    }

    /// Returns whether a read should have an item that it lacks.
    fn is_expected(&self, item: i64, read: &Read, shown: &[i64]) -> bool {
        let Shown::Newest(limit, _) = read.shown else {
            return true;
        };
        if shown.len() < limit {
            return true;
        }
        // The read did not ask for items before the first that it returned.
        let first = shown.iter().filter_map(|item| self.positions.get(item)).min();
        self.positions.get(&item) > first
    }

    fn check_positions(&self, read: &Read, wrong: &mut Vec<Wrong>) {
        match &read.shown {
            Shown::Pages(pages) => {
                for page in pages {
                    let stored = page.first().and_then(|first| self.positions.get(first));
                    let stored = stored.filter(|position| position.1 == 0);
                    let stored = stored.map(|position| &self.pages[position.0]);
                    for (index, item) in page.iter().enumerate() {
                        if stored.and_then(|stored| stored.get(index)) != Some(item) {
                            wrong.push(self.displaced(*item, read));
                        }
                    }
                }
            }
            Shown::Items(items) | Shown::Newest(_, items) => {
                let missing = items.iter().filter(|item| !self.positions.contains_key(item));
                wrong.extend(missing.map(|item| self.displaced(*item, read)));
            }
        }
        // The order of pages, and of items over all pages.
        let mut last = None;
        for item in read.shown.items() {
            let position = self.positions.get(&item);
            if position.is_some() && position < last {
                wrong.push(self.displaced(item, read));
            }
            last = position.max(last);
        }
    }
}

/// Returns all anomalies in the reads of a key, given all its appends and its final pages. Each has the index of its
/// read.
pub fn check(appends: &[Append], reads: &[Read], pages: &[Vec<i64>]) -> Vec<(usize, Wrong)> {
    let positions = pages.iter().enumerate().flat_map(|(number, page)| {
        let position = move |(index, item): (usize, &i64)| (*item, (number, index));
        page.iter().enumerate().map(position)
    });
    let final_state = FinalState {
        appends: appends.iter().map(|append| (append.item, append)).collect(),
        positions: positions.collect(),
        pages,
    };
    let mut found = Vec::new();
    // For each session, and for all reads outside of one: when an item was first returned.
    let mut shown_by: HashMap<Option<u64>, HashMap<i64, Moment>> = HashMap::new();
    for read in reads {
        let by_item = shown_by.entry(read.chain).or_default();
        for item in read.shown.items() {
            let first = by_item.entry(item).or_insert(read.ended);
            *first = read.ended.min(*first);
        }
    }
    for (index, read) in reads.iter().enumerate() {
        let shown = read.shown.items();
        let mut wrong = Vec::new();
        let mut seen = HashSet::new();
        for item in &shown {
            if !seen.insert(*item) {
                wrong.push(Wrong::Doubled(*item));
            }
            let append = final_state.appends.get(item);
            if append.is_none_or(|append| append.begun > read.ended || append.end == End::Refused) {
                wrong.push(Wrong::Foreign(*item));
            }
        }
        for append in appends {
            let is_in_scope = read.chain.is_none() || read.chain == append.chain;
            if is_in_scope
                && final_state.is_acknowledged_before(append.item, read.begun)
                && !seen.contains(&append.item)
                && final_state.is_expected(append.item, read, &shown)
            {
                wrong.push(Wrong::Missing(append.item));
            }
        }
        for (item, ended) in &shown_by[&read.chain] {
            if *ended < read.begun && !seen.contains(item) && final_state.is_expected(*item, read, &shown) {
                wrong.push(Wrong::Backwards(*item));
            }
        }
        final_state.check_positions(read, &mut wrong);
        wrong.sort_unstable();
        wrong.dedup();
        found.extend(wrong.into_iter().map(|wrong| (index, wrong)));
    }
    found
}

/// Tests that the checker finds each anomaly.
#[cfg(test)]
mod tests {
    use super::Wrong::{Backwards, Displaced, Doubled, Foreign, Missing, Vanished};
    use super::*;

    /// Returns items 0 to 4 in pages of two. The append of each takes ten microseconds, and begins at ten times its
    /// number.
    fn appends() -> Vec<Append> {
        let append = |item: i64| Append {
            item,
            begun: item as u64 * 10,
            end: End::Acknowledged(item as u64 * 10 + 9),
            chain: None,
        };
        (0..5).map(append).collect()
    }

    fn pages() -> Vec<Vec<i64>> {
        vec![vec![0, 1], vec![2, 3], vec![4]]
    }

    fn read(begun: Moment, ended: Moment, shown: Shown) -> Read {
        Read {
            begun,
            ended,
            shown,
            chain: None,
        }
    }

    fn wrong(appends: &[Append], reads: &[Read]) -> Vec<Wrong> {
        let found = check(appends, reads, &pages()).into_iter();
        found.map(|found| found.1).collect()
    }

    #[test]
    fn anomalies_of_pages_are_found() {
        type Case<'a> = (Moment, Moment, &'a [&'a [i64]], &'a [Wrong]);
        let cases: &[Case<'_>] = &[
            (0, 5, &[], &[]),
            (0, 5, &[&[0]], &[]),
            // A read may return an item whose append has not ended, or not.
            (15, 25, &[&[0, 1], &[2]], &[]),
            (15, 25, &[&[0]], &[]),
            (100, 110, &[&[0, 1], &[2, 3], &[4]], &[]),
            // A lost item.
            (20, 25, &[&[0]], &[Missing(1)]),
            (100, 110, &[&[0, 1], &[2, 3]], &[Missing(4)]),
            // One that was never appended, and one whose append had not begun.
            (100, 110, &[&[0, 1], &[2, 3], &[4, 77]], &[Foreign(77), Vanished(77)]),
            (0, 5, &[&[0, 1]], &[Foreign(1)]),
            // Another order in a full page, another size, and another order of pages.
            (100, 110, &[&[1, 0], &[2, 3], &[4]], &[Displaced(0), Displaced(1)]),
            (100, 110, &[&[0, 1, 2], &[3], &[4]], &[Displaced(2), Displaced(3)]),
            (100, 110, &[&[2, 3], &[0, 1], &[4]], &[Displaced(0), Displaced(1)]),
        ];
        for (begun, ended, pages, expected) in cases {
            let shown = Shown::Pages(pages.iter().map(|page| page.to_vec()).collect());
            let found = wrong(&appends(), &[read(*begun, *ended, shown)]);
            assert_eq!(found, *expected, "{pages:?}, {begun}");
        }
    }

    #[test]
    fn anomalies_of_items_are_found() {
        let cases = [
            (Shown::Items(vec![0, 1, 2, 3, 4]), vec![]),
            (Shown::Newest(3, vec![2, 3, 4]), vec![]),
            (Shown::Newest(2, vec![3, 4]), vec![]),
            (Shown::Newest(2, vec![2, 4]), vec![Missing(3)]),
            (Shown::Newest(6, vec![1, 2, 3, 4]), vec![Missing(0)]),
            (Shown::Items(vec![0, 1, 2, 3, 3, 4]), vec![Doubled(3)]),
            (Shown::Items(vec![0, 1, 3, 2, 4]), vec![Displaced(2)]),
        ];
        for (shown, expected) in cases {
            let found = wrong(&appends(), &[read(100, 110, shown.clone())]);
            assert_eq!(found, expected, "{shown:?}");
        }
    }

    /// Two concurrent reads may return views of different moments.
    #[test]
    fn concurrent_reads_have_no_anomalies() {
        let (more, less) = (vec![vec![0, 1], vec![2]], vec![vec![0]]);
        let reads = [read(10, 30, Shown::Pages(more)), read(11, 31, Shown::Pages(less))];
        let mut slow = appends();
        slow[1].end = End::Acknowledged(40);
        slow[2].end = End::Unknown;
        assert_eq!(wrong(&slow, &reads), []);
    }

    /// A hole is found even if its item was never acknowledged, because the items behind it are not at their positions.
    #[test]
    fn unknown_and_refused_items_are_checked() {
        let mut unknown = appends();
        unknown[2].end = End::Unknown;
        let hole = read(100, 110, Shown::Pages(vec![vec![0, 1], vec![3], vec![4]]));
        assert_eq!(wrong(&unknown, &[hole]), [Displaced(3)]);
        let mut refused = appends();
        refused[4].end = End::Refused;
        let all = read(100, 110, Shown::Items(vec![0, 1, 2, 3, 4]));
        assert_eq!(wrong(&refused, &[all]), [Foreign(4)]);
    }

    #[test]
    fn a_rolled_back_item_is_found() {
        let mut unknown = appends();
        unknown.push(Append {
            item: 5,
            begun: 50,
            end: End::Unknown,
            chain: None,
        });
        let before = read(60, 70, Shown::Pages(vec![vec![0, 1], vec![2, 3], vec![4, 5]]));
        let after = read(80, 90, Shown::Pages(pages()));
        let found = check(&unknown, &[before, after], &pages());
        assert_eq!(found, [(0, Vanished(5)), (1, Backwards(5))]);
    }

    #[test]
    fn a_read_of_an_older_state_is_found() {
        let mut slow = appends();
        slow[4].end = End::Acknowledged(1000);
        let before = read(60, 70, Shown::Items(vec![0, 1, 2, 3, 4]));
        let less = Shown::Items(vec![0, 1, 2, 3]);
        let after = read(71, 80, less.clone());
        assert_eq!(wrong(&slow, &[before.clone(), after]), [Backwards(4)]);
        let at_once = read(69, 80, less);
        assert_eq!(wrong(&slow, &[before, at_once]), []);
    }

    #[test]
    fn a_session_is_checked_against_its_own_calls() {
        let mut appends = appends();
        appends[4].chain = Some(1);
        let mut old = read(100, 110, Shown::Items(vec![0, 1, 2, 3]));
        old.chain = Some(2);
        assert_eq!(wrong(&appends, std::slice::from_ref(&old)), []);
        old.chain = Some(1);
        assert_eq!(wrong(&appends, &[old]), [Missing(4)]);
    }
}
