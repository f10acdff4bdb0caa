//! The reads of a key in the models: each agrees with the pages of the key.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use proptest::prelude::*;

use crate::bucket::across;
use support::bucket::*;
use support::common::*;

#[derive(Clone, Debug)]
pub enum Read {
    /// The item of this rank, or one that never existed.
    Item(usize),
    Page(u64),
    Pages(u32, bool),
    PagesBack(u32),
    Newest(u32),
    Items {
        skip: u64,
        limit: u32,
        newest_first: bool,
    },
    PagesOfItems(u32, bool),
    Range {
        from: i64,
        length: i64,
        newest_first: bool,
    },
    Counts,
    Verify,
}

/// Returns reads of items of this many seconds.
pub fn reads(seconds: i64) -> impl Strategy<Value = Read> {
    prop_oneof![
        1 => (0..30_usize).prop_map(Read::Item),
        1 => (1..8_u64).prop_map(Read::Page),
        1 => (1..4_u32, any::<bool>()).prop_map(|(limit, newest_first)| Read::Pages(limit, newest_first)),
        1 => (1..4_u32).prop_map(Read::PagesBack),
        1 => (1..20_u32).prop_map(Read::Newest),
        2 => (0..20_u64, 1..20_u32, any::<bool>())
            .prop_map(|(skip, limit, newest_first)| Read::Items { skip, limit, newest_first }),
        1 => (1..7_u32, any::<bool>()).prop_map(|(limit, newest_first)| Read::PagesOfItems(limit, newest_first)),
        2 => (0..seconds, -1..seconds / 2 + 2, any::<bool>())
            .prop_map(|(from, length, newest_first)| Read::Range { from, length, newest_first }),
        1 => Just(Read::Counts),
        1 => Just(Read::Verify),
    ]
}

/// Checks a read of a key with these pages, each with its `_id`.
pub async fn check(trades: &Trades, key: u32, pages: &[(String, Vec<Trade>)], read: Read) {
    let items: Vec<Trade> = pages.iter().flat_map(|(_, items)| items.clone()).collect();
    let in_order = |newest_first: bool| {
        let mut items = items.clone();
        if newest_first {
            items.reverse();
        }
        items
    };
    let asked = |newest_first: bool| {
        let asked = trades.items(&key);
        if newest_first { asked.newest_first() } else { asked }
    };
    match read {
        Read::Item(rank) => {
            let item = items.get(rank % items.len().max(1));
            let n = item.map_or(-1, |item| item.n);
            assert_eq!(trades.item(&key, n).await.unwrap().as_ref(), item);
        }
        Read::Page(number) => {
            let expected = pages.get(usize::try_from(number).unwrap() - 1);
            let page = trades.page(&key, number).await.unwrap();
            assert_eq!(page.map(|page| (page.id, page.items)).as_ref(), expected);
            let total = pages.len() as u64;
            if number <= total {
                let page = trades.page(&key, number).of(total).await.unwrap();
                assert_eq!(page.map(|page| (page.id, page.items)).as_ref(), expected);
            }
        }
        Read::Pages(limit, newest_first) => {
            let (mut walked, mut token) = (Vec::new(), None);
            loop {
                let slice = trades.buckets(&key).limit(limit).after(token);
                let slice = if newest_first { slice.newest_first() } else { slice };
                let slice = slice.page().await.unwrap();
                walked.extend(slice.items.into_iter().map(|page| (page.id, page.items)));
                token = slice.next;
                if token.is_none() {
                    break;
                }
            }
            if newest_first {
                walked.reverse();
            }
            assert_eq!(walked, pages);
        }
        Read::PagesBack(limit) => {
            let slice = trades.buckets(&key).newest_first().limit(1).page().await.unwrap();
            let mut walked: Vec<Trade> = slice.items.into_iter().flat_map(|page| page.items).collect();
            let mut token = slice.next;
            while let Some(place) = token {
                let slice = trades.buckets(&key).before(place).limit(limit).page().await.unwrap();
                let before = slice.items.into_iter().flat_map(|page| page.items);
                walked = before.chain(walked).collect();
                token = slice.previous;
            }
            assert_eq!(walked, items);
        }
        Read::Newest(count) => {
            let mut expected = in_order(true);
            expected.truncate(count as usize);
            assert_eq!(trades.newest(&key, count).await.unwrap(), expected);
        }
        Read::Items {
            skip,
            limit,
            newest_first,
        } => {
            let read = asked(newest_first).skip(skip).limit(limit).page().await.unwrap().items;
            let (skip, limit) = (usize::try_from(skip).unwrap(), limit as usize);
            let expected = in_order(newest_first).into_iter().skip(skip).take(limit);
            assert_eq!(read, expected.collect::<Vec<_>>());
        }
        Read::PagesOfItems(limit, newest_first) => {
            let (mut read, mut token) = (Vec::new(), None);
            loop {
                let slice = asked(newest_first).limit(limit).after(token).page().await.unwrap();
                read.extend(slice.items);
                token = slice.next;
                if token.is_none() {
                    break;
                }
            }
            assert_eq!(read, in_order(newest_first));
        }
        Read::Range {
            from,
            length,
            newest_first,
        } => {
            let (from, until) = (at(SECOND + from), at(SECOND + from + length));
            let read = asked(newest_first).from(from).until(until).stream();
            let read: mongo_patterns::Result<Vec<Trade>> = read.try_collect().await;
            if length <= 0 {
                assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidArgument);
                return;
            }
            let mut expected = in_order(newest_first);
            expected.retain(|item| (from..until).contains(&item.date));
            assert_eq!(read.unwrap(), expected);
            across::compare(trades, key, from..until, &expected).await;
        }
        Read::Counts => {
            let counts = trades.counts(&key).await.unwrap();
            assert_eq!((counts.items, counts.pages), (items.len() as u64, pages.len() as u64));
            assert_eq!(trades.count_pages(&key).await.unwrap(), counts.pages);
        }
        Read::Verify => {
            assert_eq!(collected(trades.verify_key(&key).stream()).await, []);
            let repaired = collected(trades.repair_key(&key).stream()).await;
            assert!(repaired.is_empty(), "{repaired:?}");
        }
    }
}
