//! A call for a key reads and writes no bucket of another key.

use std::collections::BTreeMap;

use futures::{TryStreamExt, stream};
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::key::EncodeKey;
use mongo_patterns::{AsKey, ErrorKind, Key};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, Uuid, doc};
use proptest::prelude::*;

use support::bucket::*;
use support::common::*;
use support::model::check_cases;

fn repository<K: Key>(db: &TestDatabase) -> BucketRepository<K, i32> {
    untimed::<K, i32>(db).page_size(2).build().unwrap()
}

/// Checks that the last read had the bounds of the key, from this tail on.
async fn assert_bounds(db: &TestDatabase, text: &str, bracket: &str, tail: &str) {
    let examined = explain_last(db).await;
    assert_eq!(examined.index, "_id_");
    let bound = examined.bounds.get_array("_id").unwrap()[0].as_str().unwrap();
    let tight = format!("{bracket}\"{text}_{tail}\", \"{text}`\")");
    // The server shortens the text of long bounds.
    assert!(
        bound == tight || text.len() > 100,
        "bounds {bound} of a read of {text:?}"
    );
}

/// Appends to each key, lists the keys, reads every key by every call, and checks that the bounds of the reads are those of the
/// key only.
async fn check<K: Key>(db: &TestDatabase, keys: &[K]) {
    plain(db).drop().await.unwrap();
    let repository = repository::<K>(db);
    repository.ensure_indexes().await.unwrap();
    let mut model: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (n, key) in (0..).zip(keys.iter().chain(keys).chain(keys)) {
        repository.append(key, &n).at(at(SECOND + i64::from(n))).await.unwrap();
        let text = key.encode_key().unwrap().text().to_owned();
        model.entry(text).or_default().push(n);
    }
    let text = |key: &K| key.encode_key().unwrap().text().to_owned();
    let found: Vec<K> = collected(repository.keys().stream()).await;
    let mut texts: Vec<String> = model.keys().cloned().collect();
    texts.sort_by_key(|text| format!("{text}_"));
    assert_eq!(found.iter().map(text).collect::<Vec<_>>(), texts);
    for (position, key) in (1..).zip(&found) {
        let rest: Vec<K> = collected(repository.keys().after(key).stream()).await;
        assert_eq!(rest, found[position..]);
    }
    for key in keys {
        let text = text(key);
        let expected = &model[&text];
        let page = repository.page(key, 1).await.unwrap().unwrap();
        assert_eq!(&page.key, key);
        assert_bounds(db, &text, "[", "").await;
        let token = page.token().clone();
        let after = repository.buckets(key).after(token.clone()).page().await.unwrap();
        assert_bounds(db, &text, "(", &token.to_string()).await;
        assert!(after.items.iter().all(|page| &page.key == key));
        let slice = repository.items(key).limit(1000).page().await.unwrap();
        assert_bounds(db, &text, "[", "").await;
        assert_eq!(&slice.items, expected);
        let slice = repository.buckets(key).limit(1000).page().await.unwrap();
        let items: Vec<i32> = slice.items.into_iter().flat_map(|page| page.items).collect();
        assert_eq!(&items, expected);
        let counts = repository.counts(key).await.unwrap();
        assert_eq!(counts.items, expected.len() as u64);
        assert_eq!(counts.pages, repository.count_pages(key).await.unwrap());
        let examined = explain_last(db).await;
        assert_eq!(examined.documents, 0, "the index has all that is counted");
        let entries = u64::try_from(examined.keys).unwrap();
        assert!(
            entries <= counts.pages + 1,
            "{entries} entries for {} pages",
            counts.pages
        );
        let newest = repository.newest(key, 1).await.unwrap();
        assert_eq!(newest.first(), expected.last());
    }
    assert_eq!(violations(&plain(db), 2).await, []);
}

fn hostile() -> impl Strategy<Value = Vec<String>> {
    let text = prop_oneof![
        4 => r"[12_%.*+|(\\^$\[\]a\x00]{0,4}",
        1 => "\\PC{0,6}",
        1 => any::<String>(),
        1 => "[a_]{300,341}",
    ];
    prop::collection::vec(text, 1..12)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_hostile_strings() {
    testkit::run(async |db| {
        check_cases(24, &hostile(), async |keys| check(db, &keys).await);
    })
    .await;
}

#[tokio::test]
async fn chosen_hostile_strings() {
    let long = "k".repeat(1024);
    let short = [
        "", "_", "__", "12", "12_3", "12_", "_12", "%", "%5F", "%255F", "a.b", "a.*", "a|b", "|", "\\|", "\\\\|",
        "|\\", "(", "[", "\\", "\\E", "\\Q", "^", "$", "$where", "{2}", "a\nb", "a\0b", "\0", "日本", "é", "e\u{301}",
        "\u{feff}", " ", "A", "a", "`", "#", "(?i)a", "a`b", "~", "a b", "a_", "a_3", "a%",
    ];
    let long = ["12_1698335223", "\u{10FFFF}", long.as_str()];
    let texts = short.iter().chain(&long).map(|text| (*text).to_owned());
    let texts: Vec<String> = texts.collect();
    testkit::run(async |db| check(db, &texts).await).await;
}

#[tokio::test]
async fn keys_of_every_type() {
    testkit::run(async |db| {
        check(db, &[0, 12, 123, -1, -12, i32::MAX, i32::MIN]).await;
        check(db, &[0, 1, 1 << 40, i64::MAX, i64::MIN]).await;
        check(db, &[0, 1, u32::MAX]).await;
        check(db, &[0, 1, (1 << 63) - 1_u64]).await;
        check(db, &[(); 3].map(|()| ObjectId::new())).await;
        check(db, &[(); 3].map(|()| Uuid::new())).await;
        let stored = all(&plain(db)).await;
        assert_eq!(stored[0].get("customerId").unwrap().element_type() as u8, 5, "binary");
        check(db, &[0, 1, 12, 123, u32::MAX].map(CustomerId)).await;
        check(db, &["", "12_3", "%5F", "a|b"].map(|text| UserName(text.to_owned()))).await;
        check(db, &[1, 2, 3].map(|n| OrderId(Uuid::from_bytes([n; 16])))).await;
    })
    .await;
}

macro_rules! newtype {
    ($name:ident, $of:ty) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        struct $name($of);

        impl AsKey for $name {
            type Key = $of;

            fn to_key(&self) -> $of {
                self.0.clone()
            }

            fn from_key(key: $of) -> Option<Self> {
                // The key that no user has.
                (key.encode_key().ok()?.text() != "nobody").then_some(Self(key))
            }
        }
    };
}

newtype!(CustomerId, u32);
newtype!(UserName, String);
newtype!(OrderId, Uuid);

#[tokio::test]
async fn user_types_are_keys_of_every_call() {
    testkit::run(async |db| {
        let users = repository::<UserName>(db);
        users.ensure_indexes().await.unwrap();
        let name = |n: i32| UserName(format!("user_{n}"));
        let items = stream::iter((0..30).map(|n| (name(n % 3), n)));
        users.append_stream(items).await.unwrap();
        users.append(&name(0), &30).await.unwrap();
        let of_user: Vec<i32> = collected(users.items(&name(0)).stream()).await;
        assert_eq!(of_user, (0..=30).step_by(3).collect::<Vec<_>>());
        let findings = collected(users.verify().stream()).await;
        assert!(findings.is_empty(), "{findings:?}");
        assert!(collected(users.verify_key(&name(1)).stream()).await.is_empty());

        // Into a flat collection and back, with the same keys.
        let flat = db.collection::<Document>("flat");
        let before = users.items(&name(1)).page().await.unwrap().items;
        let documents = untimed::<UserName, Document>(db).page_size(2).build().unwrap();
        let as_documents: Vec<(UserName, Document)> = (0..9).map(|n| (name(n % 3), doc! { "n": n })).collect();
        plain(db).delete_many(doc! {}).await.unwrap();
        documents.append_stream(stream::iter(as_documents)).await.unwrap();
        assert_eq!(documents.migrate_to_flat(&flat).await.unwrap().items, 9);
        assert_eq!(before.len(), 10);

        // A bucket whose key the type refuses is corrupt.
        let strings = repository::<String>(db);
        strings.append("nobody", &1).await.unwrap();
        let nobody = UserName("nobody".to_owned());
        assert!(users.page(&nobody, 1).await.unwrap_err().is_corrupt());
        let findings = collected(documents.verify().stream()).await;
        let ids = findings.iter().map(|finding| finding.document_id.as_str());
        let of_nobody = ids.map(|id| id.is_some_and(|id| id.starts_with("nobody_")));
        assert_eq!(of_nobody.collect::<Vec<_>>(), [true; 2], "{findings:?}");
    })
    .await;
}

#[tokio::test]
async fn keys_out_of_range_are_refused_by_every_call() {
    testkit::run(async |db| {
        let strings = repository::<String>(db);
        strings.ensure_indexes().await.unwrap();
        db.recorder().clear();
        let long = "k".repeat(1025);
        for (refused, operation) in [
            (strings.append(&long, &1).await.map(drop), "append"),
            (strings.page(&long, 1).await.map(drop), "page"),
            (strings.buckets(&long).page().await.map(drop), "buckets"),
            (strings.newest(&long, 1).await.map(drop), "newest"),
            (strings.counts(&long).await.map(drop), "counts"),
            (strings.count_pages(&long).await.map(drop), "count_pages"),
            (strings.items(&long).stream().try_next().await.map(drop), "items"),
            (strings.keys().after(&long).stream().try_next().await.map(drop), "keys"),
            (strings.delete_key(&long).await.map(drop), "delete_key"),
            (strings.verify_key(&long).stream().try_next().await.map(drop), "verify"),
            (strings.repair_key(&long).stream().try_next().await.map(drop), "repair"),
            (repository::<u64>(db).append(&u64::MAX, &1).await.map(drop), "append"),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidKey, "{operation}");
            assert_eq!(error.operation(), Some(operation));
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

/// The number 123 and the string "123" have the same text. In one collection they stay separate, except for
/// `page`, which reports it.
#[tokio::test]
async fn keys_of_two_types_in_one_collection_do_not_mix() {
    testkit::run(async |db| {
        let numbers = repository::<u32>(db);
        let strings = repository::<String>(db);
        numbers.ensure_indexes().await.unwrap();
        for n in 0..6 {
            numbers.append(&123, &n).at(at(SECOND)).await.unwrap();
            strings.append("123", &(100 + n)).at(at(SECOND)).await.unwrap();
        }
        let all_of_number = numbers.newest(&123, 10).await.unwrap();
        assert_eq!(all_of_number, [5, 4, 3, 2, 1, 0]);
        let all_of_string = strings.newest("123", 10).await.unwrap();
        assert_eq!(all_of_string, [105, 104, 103, 102, 101, 100]);
        let other_type = numbers.page(&123, 2).await.unwrap_err();
        assert!(other_type.is_corrupt());
        assert_eq!(other_type.field(), Some("customerId"));
        plain(db).delete_many(doc! {}).await.unwrap();
    })
    .await;
}

/// For a key with an underscore, the manual's command writes an `_id` that this crate does not give such a key. It must
/// neither be read as one of another key, nor be ignored silently.
#[tokio::test]
async fn an_open_bucket_with_an_unescaped_id_is_reported() {
    testkit::run(async |db| {
        let strings = repository::<String>(db);
        strings.ensure_indexes().await.unwrap();
        let id = format!("12_3_{SECOND}");
        let bucket = doc! { "_id": &id, "customerId": "12_3", "count": 1, "history": [0] };
        plain(db).insert_one(&bucket).await.unwrap();
        let error = strings.append("12_3", &1).await.unwrap_err();
        assert!(error.is_corrupt(), "{error:?}");
        assert_eq!(error.document_id().and_then(|id| id.as_str()), Some(id.as_str()));
        assert!(strings.page("12", 1).await.unwrap_err().is_corrupt());
        let of_another = strings.newest("12", 5).await.unwrap();
        assert!(of_another.is_empty(), "{of_another:?}");
        assert_eq!(all(&plain(db)).await, [bucket]);
    })
    .await;
}
