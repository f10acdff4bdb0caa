//! Groups the items of a stream by key, until they are sent.
//!
//! # Design
//!
//! ## Why is a key sent before the buffer is full only in full commands?
//!
//! While a full command is running, the items of the next one are read and encoded. A smaller command would start this
//! sooner, but costs as much as it gains, because encoding is fast and a command has a fixed cost. A full command has whole
//! pages. The items that do not fill a page are put before the key's next items, so no open bucket is left in between.

use std::collections::{HashMap, HashSet, VecDeque};

use mongo_patterns_core::EncodedKey;

use crate::form::item::Item;
use crate::write::batch::{BUCKETS, BYTES};

/// Items of a key that are sent together.
pub(crate) struct Group {
    pub(crate) key: EncodedKey,
    pub(crate) items: Vec<Item>,
    /// The position of each item in the stream, from 0.
    pub(crate) positions: Vec<u64>,
    pub(crate) bytes: usize,
    /// Whether items that do not fill a page wait for more of their key.
    pub(crate) whole_pages: bool,
    /// Whether the previous items of this key ended with a full page, so that they left no open bucket.
    pub(crate) after_full_page: bool,
}

impl Group {
    fn new(key: EncodedKey) -> Self {
        Self {
            key,
            items: Vec::new(),
            positions: Vec::new(),
            bytes: 0,
            whole_pages: false,
            after_full_page: false,
        }
    }

    fn push(&mut self, item: Item, position: u64) {
        self.bytes += item.bytes();
        self.items.push(item);
        self.positions.push(position);
    }

    /// Splits the items from this one on off the group.
    fn split_off(&mut self, first: usize) -> Self {
        let items = self.items.split_off(first);
        let bytes = items.iter().map(Item::bytes).sum();
        self.bytes -= bytes;
        Self {
            items,
            positions: self.positions.split_off(first),
            bytes,
            ..Self::new(self.key.clone())
        }
    }

    /// Puts earlier items of the same key before the items of this group.
    fn put_before(&mut self, earlier: Self) {
        self.bytes += earlier.bytes;
        self.items.splice(0..0, earlier.items);
        self.positions.splice(0..0, earlier.positions);
    }
}

/// The items that were read and are not stored yet.
#[derive(Default)]
pub(crate) struct Groups {
    page_size: usize,
    /// The groups that still grow.
    growing: HashMap<String, Group>,
    /// The bytes of the growing groups.
    bytes: usize,
    /// The groups that are sent as soon as their keys are free, in order for each key.
    ready: VecDeque<Group>,
    /// The keys with a running command. Each key has one at most, so that its items stay in order.
    busy: HashSet<String>,
}

impl Groups {
    pub(crate) fn new(page_size: u32) -> Self {
        Self {
            page_size: page_size as usize,
            ..Self::default()
        }
    }

    /// Adds consecutive items of one key, from this position in the stream on.
    pub(crate) fn add(&mut self, key: &EncodedKey, mut items: impl ExactSizeIterator<Item = Item>, mut position: u64) {
        while items.len() > 0 {
            let group = match self.growing.get_mut(key.text()) {
                Some(group) => group,
                None => {
                    let text = key.text().to_owned();
                    self.growing.entry(text).or_insert(Group::new(key.clone()))
                }
            };
            for item in items.by_ref() {
                self.bytes += item.bytes();
                group.push(item, position);
                position += 1;
                let count = group.items.len();
                if count >= self.page_size && (group.bytes >= BYTES || count >= BUCKETS * self.page_size) {
                    // The command is full. With less than a page nothing would be sent.
                    let full = self.take(key.text());
                    self.ready.extend(full);
                    break;
                }
            }
        }
    }

    /// Makes all growing groups ready, once they have this many bytes and no other group is ready.
    pub(crate) fn release_from(&mut self, bytes: usize) {
        if self.ready.is_empty() && self.bytes >= bytes {
            self.ready = self.growing.drain().map(|(_, group)| group).collect();
            self.bytes = 0;
        }
    }

    /// Returns the next group to send.
    pub(crate) fn next(&mut self) -> Option<Group> {
        let is_free = |group: &Group| !self.busy.contains(group.key.text());
        let free = self.ready.iter().position(is_free)?;
        let group = self.ready.remove(free)?;
        self.busy.insert(group.key.text().to_owned());
        Some(group)
    }

    /// Records that a group was sent, and that this many of its items are stored. The others are kept.
    pub(crate) fn done(&mut self, group: &mut Group, stored: usize, ended_with_full_page: bool) {
        self.busy.remove(group.key.text());
        // With many keys, all groups end here: the search below takes time proportional to the ready groups.
        if stored == group.items.len() && !(ended_with_full_page && group.whole_pages) {
            return;
        }
        let mut kept = group.split_off(stored);
        kept.after_full_page = ended_with_full_page;
        let key = group.key.text();
        if let Some(next) = self.ready.iter_mut().find(|next| next.key.text() == key) {
            next.after_full_page = ended_with_full_page;
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
        later.after_full_page = ended_with_full_page;
        later.put_before(kept);
    }

    /// Takes a growing group, which more items of its key can follow.
    fn take(&mut self, key: &str) -> Option<Group> {
        let mut group = self.growing.remove(key)?;
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

    /// Pages of 2, so that 2000 items are a full command.
    fn groups() -> Groups {
        Groups::new(2)
    }

    fn add(groups: &mut Groups, key: u32, positions: std::ops::Range<u64>) {
        let settings = Settings {
            time: None,
            ..Settings::example()
        };
        let first = positions.start;
        let items: Vec<Item> = positions
            .map(|position| Item::encode(&settings, &position).unwrap())
            .collect();
        groups.add(&key.encode_key().unwrap(), items.into_iter(), first);
    }

    fn positions(group: &Group) -> (u64, u64) {
        (group.positions[0], *group.positions.last().unwrap())
    }

    #[test]
    fn a_full_command_is_sent_as_soon_as_its_key_is_free() {
        let mut groups = groups();
        add(&mut groups, 1, 0..1999);
        add(&mut groups, 2, 1999..2000);
        assert!(groups.next().is_none());
        add(&mut groups, 1, 2000..2001);
        let mut first = groups.next().unwrap();
        assert!(first.whole_pages);
        assert_eq!((positions(&first), first.items.len()), ((0, 2000), 2000));
        add(&mut groups, 1, 2001..4001);
        assert!(groups.next().is_none());
        groups.done(&mut first, 2000, true);
        let second = groups.next().unwrap();
        assert_eq!(positions(&second), (2001, 4000));
        groups.release_from(0);
        let last = groups.next().unwrap();
        assert!(!last.whole_pages);
        assert_eq!(positions(&last), (1999, 1999));
        assert_eq!(groups.bytes, 0);
    }

    #[test]
    fn kept_items_come_first() {
        let mut groups = groups();
        add(&mut groups, 1, 0..2000);
        let mut first = groups.next().unwrap();
        assert!(!first.after_full_page);
        add(&mut groups, 1, 2000..3999);
        // One item filled the open bucket, so the last one does not fill a page.
        groups.done(&mut first, 1999, true);
        assert_eq!(first.items.len(), 1999);
        groups.release_from(0);
        let mut second = groups.next().unwrap();
        assert_eq!((positions(&second), second.items.len()), ((1999, 3998), 2000));
        assert!(second.after_full_page);
        groups.done(&mut second, 2000, true);
        groups.release_from(0);
        assert!(groups.next().is_none());
    }

    #[test]
    fn kept_items_come_before_ready_ones() {
        let mut groups = groups();
        add(&mut groups, 1, 0..2000);
        let mut first = groups.next().unwrap();
        add(&mut groups, 1, 2000..2010);
        groups.release_from(0);
        groups.done(&mut first, 1999, true);
        let last = groups.next().unwrap();
        assert_eq!((positions(&last), last.items.len()), ((1999, 2009), 11));
        assert!(!last.whole_pages && last.after_full_page);
    }

    #[test]
    fn a_full_command_waits_for_its_key_and_keeps_its_position() {
        let mut groups = groups();
        add(&mut groups, 1, 0..2000);
        let mut first = groups.next().unwrap();
        add(&mut groups, 1, 2000..4100);
        groups.release_from(0);
        assert!(groups.next().is_none());
        groups.done(&mut first, 2000, true);
        let mut second = groups.next().unwrap();
        assert_eq!(positions(&second), (2000, 3999));
        groups.done(&mut second, 2000, true);
        groups.release_from(0);
        assert_eq!(positions(&groups.next().unwrap()), (4000, 4099));
    }

    #[test]
    fn less_than_a_page_is_not_sent_for_its_bytes() {
        let settings = Settings {
            time: None,
            ..Settings::example()
        };
        let large = "x".repeat(BYTES / 2);
        let mut groups = Groups::new(3);
        for position in 0..3 {
            assert!(groups.next().is_none(), "{position} items");
            let item = Item::encode(&settings, &large).unwrap();
            groups.add(&1.encode_key().unwrap(), [item].into_iter(), position);
        }
        assert_eq!(groups.next().unwrap().items.len(), 3);
    }
}
