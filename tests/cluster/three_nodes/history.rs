//! What was appended to one key and read of it, with begin and end, and what is wrong with that.
//!
//! A history is right when every read is a view of the key at some moment between its begin and its end: it shows what
//! was acknowledged before it began, nothing that was appended after it ended, each item at its place, which never
//! changes, and all that an earlier read showed.

use std::collections::{HashMap, HashSet};

/// Microseconds of a clock that all tasks share and that never goes back.
pub type Moment = u64;

/// How an append ended, as its caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Acknowledged(Moment),
    /// It may be stored, at any time after it began.
    Unknown,
    /// It said that nothing was stored.
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub struct Append {
    pub item: i64,
    pub begun: Moment,
    pub end: End,
    /// The session it ran in.
    pub chain: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Read {
    pub begun: Moment,
    pub ended: Moment,
    pub shown: Shown,
    /// The session it ran in. It is held to what happened in that session alone.
    pub chain: Option<u64>,
}

/// What a read showed, in the order of the key.
#[derive(Clone, Debug)]
pub enum Shown {
    /// All pages.
    Pages(Vec<Vec<i64>>),
    /// All items.
    Items(Vec<i64>),
    /// The last items, so many at most.
    Newest(usize, Vec<i64>),
}

/// Something that a read must not show, or must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wrong {
    /// It shows an item that nobody had begun to append, or whose append said that it is not stored.
    Foreign(i64),
    /// It shows an item twice.
    Doubled(i64),
    /// It lacks an item that was acknowledged before it began.
    Missing(i64),
    /// An acknowledged item is at another place than at the end.
    Moved(i64),
    /// An item that was not acknowledged when the read began is at another place at the end, or at none.
    Vanished(i64),
    /// It lacks an item that an earlier read showed.
    Backwards(i64),
}

impl Wrong {
    /// Its name, to count by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Foreign(_) => "foreign",
            Self::Doubled(_) => "doubled",
            Self::Missing(_) => "missing",
            Self::Moved(_) => "moved",
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

/// What is known of a key when all is over.
struct Known<'a> {
    appends: HashMap<i64, &'a Append>,
    /// The page and the place in it of each item.
    places: HashMap<i64, (usize, usize)>,
    pages: &'a [Vec<i64>],
}

impl Known<'_> {
    fn is_acknowledged_before(&self, item: i64, moment: Moment) -> bool {
        let end = self.appends.get(&item).map(|append| append.end);
        matches!(end, Some(End::Acknowledged(when)) if when < moment)
    }

    /// An item that is not where it is at the end.
    fn displaced(&self, item: i64, read: &Read) -> Wrong {
        if self.is_acknowledged_before(item, read.begun) {
            Wrong::Moved(item)
        } else {
            Wrong::Vanished(item)
        }
    }

    /// Whether a read should show an item that it does not.
    fn is_wanted(&self, item: i64, read: &Read, shown: &[i64]) -> bool {
        let Shown::Newest(limit, _) = read.shown else {
            return true;
        };
        if shown.len() < limit {
            return true;
        }
        // Those before the ones that it shows are not asked for.
        let first = shown.iter().filter_map(|item| self.places.get(item)).min();
        self.places.get(&item) > first
    }

    fn check_places(&self, read: &Read, wrong: &mut Vec<Wrong>) {
        match &read.shown {
            Shown::Pages(pages) => {
                for page in pages {
                    let stored = page.first().and_then(|first| self.places.get(first));
                    let stored = stored.filter(|place| place.1 == 0).map(|place| &self.pages[place.0]);
                    for (index, item) in page.iter().enumerate() {
                        if stored.and_then(|stored| stored.get(index)) != Some(item) {
                            wrong.push(self.displaced(*item, read));
                        }
                    }
                }
            }
            Shown::Items(items) | Shown::Newest(_, items) => {
                let gone = items.iter().filter(|item| !self.places.contains_key(item));
                wrong.extend(gone.map(|item| self.displaced(*item, read)));
            }
        }
        // The order of pages, and of items over all pages.
        let mut last = None;
        for item in read.shown.items() {
            let place = self.places.get(&item);
            if place.is_some() && place < last {
                wrong.push(self.displaced(item, read));
            }
            last = place.max(last);
        }
    }
}

/// Everything that is wrong with the reads of a key, given all its appends and its pages at the end. Each finding has
/// the index of its read.
pub fn check(appends: &[Append], reads: &[Read], pages: &[Vec<i64>]) -> Vec<(usize, Wrong)> {
    let places = pages.iter().enumerate().flat_map(|(number, page)| {
        let place = move |(index, item): (usize, &i64)| (*item, (number, index));
        page.iter().enumerate().map(place)
    });
    let known = Known {
        appends: appends.iter().map(|append| (append.item, append)).collect(),
        places: places.collect(),
        pages,
    };
    let mut found = Vec::new();
    // For each session, or all reads outside of one: when an item had been shown.
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
            let append = known.appends.get(item);
            if append.is_none_or(|append| append.begun > read.ended || append.end == End::Refused) {
                wrong.push(Wrong::Foreign(*item));
            }
        }
        for append in appends {
            let is_held_to = read.chain.is_none() || read.chain == append.chain;
            if is_held_to
                && known.is_acknowledged_before(append.item, read.begun)
                && !seen.contains(&append.item)
                && known.is_wanted(append.item, read, &shown)
            {
                wrong.push(Wrong::Missing(append.item));
            }
        }
        for (item, ended) in &shown_by[&read.chain] {
            if *ended < read.begun && !seen.contains(item) && known.is_wanted(*item, read, &shown) {
                wrong.push(Wrong::Backwards(*item));
            }
        }
        known.check_places(read, &mut wrong);
        wrong.sort_unstable();
        wrong.dedup();
        found.extend(wrong.into_iter().map(|wrong| (index, wrong)));
    }
    found
}

/// The checker must find what it is there to find.
#[cfg(test)]
mod tests {
    use super::*;

    /// Items 0 to 4 in pages of two, each appended in the ten microseconds from ten times its number on.
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
        check(appends, reads, &pages())
            .into_iter()
            .map(|found| found.1)
            .collect()
    }

    fn wrong_pages(begun: Moment, ended: Moment, pages: &[&[i64]]) -> Vec<Wrong> {
        let pages = pages.iter().map(|page| page.to_vec()).collect();
        wrong(&appends(), &[read(begun, ended, Shown::Pages(pages))])
    }

    #[test]
    fn right_histories_are_right() {
        assert_eq!(wrong_pages(0, 5, &[]), []);
        assert_eq!(wrong_pages(0, 5, &[&[0]]), []);
        assert_eq!(
            wrong_pages(15, 25, &[&[0, 1], &[2]]),
            [],
            "what is under way may be shown"
        );
        assert_eq!(wrong_pages(15, 25, &[&[0]]), [], "or not");
        assert_eq!(wrong_pages(100, 110, &[&[0, 1], &[2, 3], &[4]]), []);
        let items = read(100, 110, Shown::Items(vec![0, 1, 2, 3, 4]));
        let newest = read(100, 110, Shown::Newest(3, vec![2, 3, 4]));
        assert_eq!(wrong(&appends(), &[items, newest]), []);
        // Two reads at the same time may see different moments.
        let (more, less) = (vec![vec![0, 1], vec![2]], vec![vec![0]]);
        let reads = [read(10, 30, Shown::Pages(more)), read(11, 31, Shown::Pages(less))];
        let mut slow = appends();
        slow[1].end = End::Acknowledged(40);
        slow[2].end = End::Unknown;
        assert_eq!(wrong(&slow, &reads), []);
    }

    #[test]
    fn a_lost_item_is_found() {
        assert_eq!(wrong_pages(20, 25, &[&[0]]), [Wrong::Missing(1)]);
        assert_eq!(wrong_pages(100, 110, &[&[0, 1], &[2, 3]]), [Wrong::Missing(4)]);
        let newest = |limit, items| wrong(&appends(), &[read(100, 110, Shown::Newest(limit, items))]);
        assert_eq!(newest(2, vec![3, 4]), []);
        assert_eq!(newest(2, vec![2, 4]), [Wrong::Missing(3)]);
        assert_eq!(newest(6, vec![1, 2, 3, 4]), [Wrong::Missing(0)]);
        // A hole is found even where its item was never acknowledged: those behind it are not at their places.
        let mut unknown = appends();
        unknown[2].end = End::Unknown;
        let hole = read(100, 110, Shown::Pages(vec![vec![0, 1], vec![3], vec![4]]));
        assert_eq!(wrong(&unknown, &[hole]), [Wrong::Moved(3)]);
    }

    #[test]
    fn what_was_never_appended_is_found() {
        assert_eq!(
            wrong_pages(100, 110, &[&[0, 1], &[2, 3], &[4, 77]]),
            [Wrong::Foreign(77), Wrong::Vanished(77)]
        );
        assert_eq!(
            wrong_pages(0, 5, &[&[0, 1]]),
            [Wrong::Foreign(1)],
            "shown before its append began"
        );
        let mut refused = appends();
        refused[4].end = End::Refused;
        let all = read(100, 110, Shown::Items(vec![0, 1, 2, 3, 4]));
        assert_eq!(wrong(&refused, &[all]), [Wrong::Foreign(4)]);
    }

    #[test]
    fn a_doubled_item_is_found() {
        let twice = read(100, 110, Shown::Items(vec![0, 1, 2, 3, 3, 4]));
        assert_eq!(wrong(&appends(), &[twice]), [Wrong::Doubled(3)]);
    }

    #[test]
    fn a_page_that_changes_is_found() {
        assert_eq!(
            wrong_pages(100, 110, &[&[1, 0], &[2, 3], &[4]]),
            [Wrong::Moved(0), Wrong::Moved(1)],
            "another order in a full page"
        );
        assert_eq!(
            wrong_pages(100, 110, &[&[0, 1, 2], &[3], &[4]]),
            [Wrong::Moved(2), Wrong::Moved(3)],
            "another size"
        );
        assert_eq!(
            wrong_pages(100, 110, &[&[2, 3], &[0, 1], &[4]]),
            [Wrong::Moved(0), Wrong::Moved(1)],
            "another order of pages"
        );
        let turned = read(100, 110, Shown::Items(vec![0, 1, 3, 2, 4]));
        assert_eq!(wrong(&appends(), &[turned]), [Wrong::Moved(2)]);
    }

    #[test]
    fn what_is_taken_back_is_found() {
        let mut unknown = appends();
        unknown.push(Append {
            item: 5,
            begun: 50,
            end: End::Unknown,
            chain: None,
        });
        let before = read(60, 70, Shown::Pages(vec![vec![0, 1], vec![2, 3], vec![4, 5]]));
        let after = read(80, 90, Shown::Pages(pages()));
        assert_eq!(
            check(&unknown, &[before, after], &pages()),
            [(0, Wrong::Vanished(5)), (1, Wrong::Backwards(5))]
        );
    }

    #[test]
    fn a_read_that_goes_back_is_found() {
        let mut slow = appends();
        slow[4].end = End::Acknowledged(1000);
        let before = read(60, 70, Shown::Items(vec![0, 1, 2, 3, 4]));
        let less = Shown::Items(vec![0, 1, 2, 3]);
        let after = read(71, 80, less.clone());
        assert_eq!(wrong(&slow, &[before.clone(), after]), [Wrong::Backwards(4)]);
        let at_once = read(69, 80, less);
        assert_eq!(wrong(&slow, &[before, at_once]), []);
    }

    #[test]
    fn a_session_is_held_to_its_own() {
        let mut appends = appends();
        appends[4].chain = Some(1);
        let mut old = read(100, 110, Shown::Items(vec![0, 1, 2, 3]));
        old.chain = Some(2);
        assert_eq!(wrong(&appends, std::slice::from_ref(&old)), []);
        old.chain = Some(1);
        assert_eq!(wrong(&appends, &[old]), [Wrong::Missing(4)]);
    }
}
