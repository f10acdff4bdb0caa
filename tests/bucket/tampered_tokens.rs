//! Tampered tokens: they are refused, or are another position of the same key, and never lead to items of another
//! key.

use std::collections::BTreeSet;

use mongo_patterns::bucket::{BucketRepository, ItemToken, PageToken};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document};
use serde::{Deserialize, Serialize};

use support::bucket::tampered_tokens::*;
use support::common::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    owner: String,
    n: i64,
    date: DateTime,
}

type Notes = BucketRepository<String, Note>;

/// Keys whose encoded forms look like prefixes of others.
const KEYS: [&str; 5] = ["12", "12_3", "123", "12%5F3", ""];

async fn notes(db: &TestDatabase, name: &str, page_size: u32) -> Notes {
    let notes = Notes::builder(db.collection::<Document>(name))
        .key_field("owner")
        .items_field("notes")
        .time_field("date")
        .page_size(page_size)
        .build()
        .unwrap();
    notes.ensure_indexes().await.unwrap();
    notes
}

/// Seven notes of each key, half of them in one second.
async fn fill(notes: &Notes) {
    for owner in KEYS {
        for n in 0..7 {
            let date = at(SECOND + (n / 4) * 100);
            let owner = owner.to_owned();
            notes.append(&owner.clone(), &Note { owner, n, date }).await.unwrap();
        }
    }
}

fn of_owner(owner: &str, notes: &[Note]) {
    assert!(notes.iter().all(|note| note.owner == owner), "{owner}: {notes:?}");
}

/// All items that a page token reads.
async fn pages_at(notes: &Notes, owner: &str, token: &PageToken) -> usize {
    let mut read = 0;
    for newest_first in [false, true] {
        for before in [false, true] {
            let pages = notes.buckets(owner).limit(100);
            let pages = if newest_first { pages.newest_first() } else { pages };
            let pages = if before {
                pages.before(token.clone())
            } else {
                pages.after(token.clone())
            };
            for page in pages.page().await.unwrap().items {
                assert_eq!(page.key, owner);
                of_owner(owner, &page.items);
                read += page.items.len();
            }
        }
    }
    assert!(read <= 2 * 7, "each direction, at most all of them");
    read
}

/// All items that an item token reads.
async fn items_at(notes: &Notes, owner: &str, token: &ItemToken) {
    for newest_first in [false, true] {
        for from in [None, Some(at(SECOND + 50))] {
            let items = notes.items(owner).limit(100);
            let items = if newest_first { items.newest_first() } else { items };
            let items = match from {
                Some(from) => items.from(from),
                None => items,
            };
            let read = items.after(token.clone()).page().await.unwrap();
            of_owner(owner, &read.items);
            assert!(read.items.len() <= 7);
        }
    }
}

#[tokio::test]
async fn a_page_token_reads_its_key_only() {
    testkit::run(async |db| {
        let notes = notes(db, "notes", 2).await;
        fill(&notes).await;
        let genuine = notes.buckets("12").limit(100).page().await.unwrap().items;
        let tokens: Vec<String> = genuine.iter().map(|page| page.token().to_string()).collect();
        assert_eq!(tokens.len(), 4, "{tokens:?}");
        let (mut refused, mut read) = (0, 0);
        // One with a suffix, and one without.
        let two = [true, false].map(|suffix| tokens.iter().find(|token| token.contains('_') == suffix).unwrap());
        for text in two
            .into_iter()
            .flat_map(|token| changes(token))
            .collect::<BTreeSet<_>>()
        {
            match text.parse::<PageToken>() {
                Ok(token) => read += pages_at(&notes, "12", &token).await,
                Err(error) => {
                    is_refused(&error);
                    refused += 1;
                }
            }
        }
        assert!(refused > 100 && read > 100, "{refused} {read}");
    })
    .await;
}

#[tokio::test]
async fn an_item_token_reads_its_key_only() {
    testkit::run(async |db| {
        let notes = notes(db, "notes", 2).await;
        fill(&notes).await;
        let first = notes.items("12").limit(3).page().await.unwrap();
        let token = first.next.unwrap().to_string();
        assert!(token.contains('_') && token.contains('.'), "{token}");
        let (mut refused, mut read) = (0, 0);
        for text in changes(&token) {
            match text.parse::<ItemToken>() {
                Ok(token) => {
                    items_at(&notes, "12", &token).await;
                    read += 1;
                }
                Err(error) => {
                    is_refused(&error);
                    refused += 1;
                }
            }
        }
        assert!(refused > 100 && read > 20, "{refused} {read}");
    })
    .await;
}

#[tokio::test]
async fn a_token_of_another_key_collection_or_page_size_stays_within_the_key() {
    testkit::run(async |db| {
        let here = notes(db, "notes", 2).await;
        let elsewhere = notes(db, "others", 3).await;
        for owner in &KEYS[1..] {
            let (owner, date) = ((*owner).to_owned(), at(SECOND));
            let note = |n| Note {
                owner: owner.clone(),
                n,
                date,
            };
            elsewhere
                .append_many(&owner, &(0..9).map(note).collect::<Vec<_>>())
                .await
                .unwrap();
        }
        fill(&here).await;
        for (foreign, owner) in [(&here, "12_3"), (&here, ""), (&elsewhere, "123")] {
            for page in foreign.buckets(owner).limit(100).page().await.unwrap().items {
                pages_at(&here, "12", page.token()).await;
            }
            for items in 1..7 {
                let page = foreign.items(owner).limit(items).page().await.unwrap();
                items_at(&here, "12", &page.next.unwrap()).await;
            }
        }
        // A token of one kind is not valid as one of the other kind.
        let page = here.page("12", 1).await.unwrap().unwrap();
        is_refused(&page.token().to_string().parse::<ItemToken>().unwrap_err());
        let item = here.items("12").limit(1).page().await.unwrap().next.unwrap();
        is_refused(&item.to_string().parse::<PageToken>().unwrap_err());
    })
    .await;
}
