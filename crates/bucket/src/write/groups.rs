//! Groups the items of a stream by key, until they go out together.

use std::collections::{HashMap, HashSet, VecDeque};

use mongo_patterns_core::EncodedKey;

use crate::form::item::Item;
use crate::write::batch::{BUCKETS, BYTES};

/// So many pages of a key are worth a command: it takes about as long as it takes to read and encode them, so that the
/// next ones are there when it is done. With fewer, what a command costs by itself is more than that gains.
const EARLY: usize = 300;

/// Items of a key that go out together.
pub(crate) struct Group {
    pub(crate) key: EncodedKey,
    pub(crate) items: Vec<Item>,
    /// Where in the stream each of them was, from 0.
    pub(crate) places: Vec<u64>,
    pub(crate) bytes: usize,
    /// Whether what does not fill a page waits for more of its key.
    pub(crate) whole_pages: bool,
    /// Whether the items of this key that went out before ended with a page: then they left no open bucket.
    pub(crate) after_a_page: bool,
}

impl Group {
    fn new(key: EncodedKey) -> Self {
        Self {
            key,
            items: Vec::new(),
            places: Vec::new(),
            bytes: 0,
            whole_pages: false,
            after_a_page: false,
        }
    }

    fn push(&mut self, item: Item, place: u64) {
        self.bytes += item.bytes();
        self.items.push(item);
        self.places.push(place);
    }

    /// Takes the items from this one on out of the group.
    fn split_off(&mut self, first: usize) -> Self {
        let items = self.items.split_off(first);
        let bytes = items.iter().map(Item::bytes).sum();
        self.bytes -= bytes;
        Self {
            items,
            places: self.places.split_off(first),
            bytes,
            ..Self::new(self.key.clone())
        }
    }

    /// Puts earlier items of the same key before those of this group.
    fn put_before(&mut self, earlier: Self) {
        self.bytes += earlier.bytes;
        self.items.splice(0..0, earlier.items);
        self.places.splice(0..0, earlier.places);
    }
}

/// The items that were read and are not stored yet.
pub(crate) struct Groups {
    page_size: usize,
    /// Groups that still grow.
    growing: HashMap<String, Group>,
    /// The bytes of what grows.
    bytes: usize,
    /// The keys of those that are worth a command by now.
    large: Vec<String>,
    /// Groups that go out as soon as their keys are free, those of a key in order.
    ready: VecDeque<Group>,
    /// The keys that are being written. One command at a time, so that their items stay in order.
    busy: HashSet<String>,
}

impl Groups {
    pub(crate) fn new(page_size: u32) -> Self {
        Self {
            page_size: page_size as usize,
            growing: HashMap::new(),
            bytes: 0,
            large: Vec::new(),
            ready: VecDeque::new(),
            busy: HashSet::new(),
        }
    }

    /// Adds items of one key that follow each other in the stream, from this place on.
    pub(crate) fn add(&mut self, key: &EncodedKey, items: impl Iterator<Item = Item>, mut place: u64) {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let group = match self.growing.get_mut(key.text()) {
                Some(group) => group,
                None => {
                    let text = key.text().to_owned();
                    self.growing.entry(text).or_insert(Group::new(key.clone()))
                }
            };
            for item in items.by_ref() {
                self.bytes += item.bytes();
                group.push(item, place);
                place += 1;
                let count = group.items.len();
                if count == EARLY * self.page_size {
                    self.large.push(key.text().to_owned());
                } else if count >= self.page_size && (group.bytes >= BYTES || count >= BUCKETS * self.page_size) {
                    // It would not go out with more in any case. With less than a page nothing would go out.
                    let full = self.take(key.text());
                    self.ready.extend(full);
                    break;
                }
            }
        }
    }

    /// Lets all groups go out that grow, once this many bytes do, and what was ready has gone.
    pub(crate) fn release_from(&mut self, bytes: usize) {
        if self.ready.is_empty() && self.bytes >= bytes {
            self.ready = self.growing.drain().map(|(_, group)| group).collect();
            self.large.clear();
            self.bytes = 0;
        }
    }

    /// What goes out next. A key of many items does not wait until the buffer is full: while one of its commands is
    /// under way, the items of the next one come in.
    pub(crate) fn next(&mut self) -> Option<Group> {
        let is_free = |key: &str| !self.busy.contains(key);
        let group = match self.ready.iter().position(|group| is_free(group.key.text())) {
            Some(free) => self.ready.remove(free),
            None => {
                let free = self.large.iter().position(|key| is_free(key))?;
                let key = self.large.swap_remove(free);
                self.take(&key)
            }
        }?;
        self.busy.insert(group.key.text().to_owned());
        Some(group)
    }

    /// A group that has gone out, and of which so many items are stored. The others are kept for the next one.
    pub(crate) fn done(&mut self, group: &mut Group, stored: usize, ended_with_a_page: bool) {
        self.busy.remove(group.key.text());
        // With many keys, all groups end here. What follows looks through those that are ready.
        if stored == group.items.len() && !(ended_with_a_page && group.whole_pages) {
            return;
        }
        let mut kept = group.split_off(stored);
        kept.after_a_page = ended_with_a_page;
        let key = group.key.text();
        if let Some(next) = self.ready.iter_mut().find(|next| next.key.text() == key) {
            next.after_a_page = ended_with_a_page;
            next.put_before(kept);
            return;
        }
        self.bytes += kept.bytes;
        let Some(later) = self.growing.get_mut(key) else {
            if !kept.items.is_empty() {
                self.growing.insert(key.to_owned(), kept);
            }
            return;
        };
        later.after_a_page = ended_with_a_page;
        let enough = EARLY * self.page_size;
        let was_large = later.items.len() >= enough;
        later.put_before(kept);
        if !was_large && later.items.len() >= enough {
            self.large.push(key.to_owned());
        }
    }

    /// A growing group, which more of its key may come after.
    fn take(&mut self, key: &str) -> Option<Group> {
        let mut group = self.growing.remove(key)?;
        self.large.retain(|large| large != key);
        self.bytes -= group.bytes;
        group.whole_pages = true;
        Some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use mongo_patterns_core::EncodeKey;

    /// Pages of 2, so that 600 items are worth a command.
    fn groups() -> Groups {
        Groups::new(2)
    }

    fn add(groups: &mut Groups, key: u32, places: std::ops::Range<u64>) {
        let settings = Settings {
            time: None,
            ..Settings::example()
        };
        let first = places.start;
        let items = places.map(|place| Item::encode(&settings, &place, None).unwrap());
        groups.add(&key.encode_key().unwrap(), items, first);
    }

    fn places(group: &Group) -> (u64, u64) {
        (group.places[0], *group.places.last().unwrap())
    }

    #[test]
    fn a_key_of_many_items_goes_out_as_soon_as_it_is_free() {
        let mut groups = groups();
        add(&mut groups, 1, 0..599);
        add(&mut groups, 2, 599..600);
        assert!(groups.next().is_none());
        add(&mut groups, 1, 600..601);
        let mut first = groups.next().unwrap();
        assert!(first.whole_pages);
        assert_eq!(places(&first), (0, 600));
        add(&mut groups, 1, 601..1400);
        assert!(groups.next().is_none());
        groups.done(&mut first, 600, true);
        let second = groups.next().unwrap();
        assert_eq!(places(&second), (601, 1399));
        groups.release_from(0);
        let last = groups.next().unwrap();
        assert!(!last.whole_pages);
        assert_eq!(places(&last), (599, 599));
        assert_eq!(groups.bytes, 0);
    }

    #[test]
    fn what_is_kept_back_comes_first() {
        let mut groups = groups();
        add(&mut groups, 1, 0..601);
        let mut first = groups.next().unwrap();
        add(&mut groups, 1, 601..1200);
        groups.done(&mut first, 600, true);
        assert_eq!(first.items.len(), 600);
        assert!(!first.after_a_page);
        let mut second = groups.next().unwrap();
        assert_eq!((places(&second), second.items.len()), ((600, 1199), 600));
        groups.done(&mut second, 600, true);
        groups.release_from(0);
        assert!(groups.next().is_none());
    }

    #[test]
    fn what_is_kept_back_comes_before_what_is_ready() {
        let mut groups = groups();
        add(&mut groups, 1, 0..601);
        let mut first = groups.next().unwrap();
        add(&mut groups, 1, 601..610);
        groups.release_from(0);
        groups.done(&mut first, 600, true);
        let last = groups.next().unwrap();
        assert_eq!((places(&last), last.items.len()), ((600, 609), 10));
        assert!(!last.whole_pages && last.after_a_page);
    }

    #[test]
    fn a_full_command_waits_for_its_key_and_keeps_its_place() {
        let mut groups = groups();
        add(&mut groups, 1, 0..600);
        let mut first = groups.next().unwrap();
        add(&mut groups, 1, 600..2700);
        groups.release_from(0);
        assert!(groups.next().is_none());
        groups.done(&mut first, 600, true);
        let mut second = groups.next().unwrap();
        assert_eq!(places(&second), (600, 2599));
        groups.done(&mut second, 2000, true);
        groups.release_from(0);
        assert_eq!(places(&groups.next().unwrap()), (2600, 2699));
    }

    #[test]
    fn less_than_a_page_does_not_go_out_for_its_bytes() {
        let settings = Settings {
            time: None,
            ..Settings::example()
        };
        let large = "x".repeat(BYTES / 2);
        let mut groups = Groups::new(3);
        for place in 0..3 {
            assert!(groups.next().is_none(), "{place} items");
            let item = Item::encode(&settings, &large, None).unwrap();
            groups.add(&1.encode_key().unwrap(), [item].into_iter(), place);
        }
        assert_eq!(groups.next().unwrap().items.len(), 3);
    }
}
