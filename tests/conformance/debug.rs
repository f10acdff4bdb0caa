//! The `Debug` output of repositories, builders and actions: no keys, ids, items or elements, and nothing of the
//! driver's client, because the output ends up in logs.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use mongo_patterns::Repository;
use mongo_patterns::bucket::{BucketRepository, TimeUnit};
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::history::{HistoryRepository, RevisionToken};
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::subset::{ChildToken, Subset, SubsetRepository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use support::intervals;
use support::{
    embedded as embedded_support, history as history_support, outlier as outlier_support,
    reference as reference_support, subset as subset_support,
};

/// Part of each value that a user passes.
const MARKER: &str = "qq_user_value_qq";

struct Seen<'a> {
    db: &'a TestDatabase,
    names: BTreeSet<String>,
}

impl Seen<'_> {
    fn add(&mut self, pattern: &str, shown: &dyn Debug) {
        let text = format!("{shown:?} {shown:#?}");
        assert!(!text.contains(MARKER), "{text}");
        // The client's options may contain a password.
        assert!(!text.contains("Session") && !text.contains("Client"), "{text}");
        let name = text.chars().take_while(|character| character.is_alphanumeric());
        self.names.insert(format!("{pattern} {}", name.collect::<String>()));
    }
}

#[tokio::test]
async fn debug_output_of_actions_has_no_user_values() {
    testkit::run(async |db| {
        let mut seen = Seen {
            db,
            names: BTreeSet::new(),
        };
        buckets(&mut seen).await;
        lists(&mut seen).await;
        children(&mut seen).await;
        embedded(&mut seen).await;
        histories(&mut seen).await;
        intervals(&mut seen).await;
        references(&mut seen).await;
        let missing: Vec<String> = actions().difference(&seen.names).cloned().collect();
        assert!(missing.is_empty(), "not formatted by this test: {missing:#?}");
    })
    .await;
}

fn marked() -> Document {
    doc! { "id": MARKER, "review_id": MARKER, "product_id": MARKER, "_id": MARKER, "text": MARKER }
}

async fn buckets(seen: &mut Seen<'_>) {
    let builder = BucketRepository::<String, Document>::builder(seen.db.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .item_id_field("id");
    seen.add("bucket", &builder);
    let trades = builder.build().unwrap();
    let flat = seen.db.collection::<Document>("flat");
    let (item, items, key) = (marked(), [marked()], MARKER);
    let mut session = trades.collection().client().start_session().await.unwrap();
    let actions: [&dyn Debug; 30] = [
        &trades,
        &trades.keys().after(key),
        &trades.delete_key(key),
        &trades.totals(key),
        &trades.totals(key).by(TimeUnit::Day),
        &trades.refresh_figures(),
        &trades.delete_key_before(key, DateTime::now()),
        &trades.delete_before(DateTime::now()),
        &trades.append(key, &item).session(&mut session),
        &trades.append_many(key, &items),
        &trades.append_stream(futures::stream::iter([(MARKER.to_owned(), marked())])),
        &trades.migrate_page_size_from(5),
        &trades.counts(key),
        &trades.count_pages(key),
        &trades.find_items(doc! { MARKER: MARKER }).sort(doc! { MARKER: 1 }),
        &trades.ensure_indexes(),
        &trades.ensure_sharded(),
        &trades.verify_shard_keys(),
        &trades.item(key, MARKER),
        &trades.items(key),
        &trades.migrate_from_flat(&flat),
        &trades.migrate_to_flat(&flat),
        &trades.newest(key, 5),
        &trades.page(key, 5),
        &trades.buckets(key),
        &trades.remove_item(key, MARKER),
        &trades.repair_key(key),
        &trades.replace_item(key, &item),
        &trades.update_item(key, MARKER, doc! { "$set": marked(), "$unset": { MARKER: "" } }),
        &trades.verify_key(key),
    ];
    actions.into_iter().for_each(|action| seen.add("bucket", action));
}

async fn lists(seen: &mut Seen<'_>) {
    let builder = outlier_support::builder::<Document, Document>(seen.db);
    seen.add("outlier", &builder);
    let books: OutlierRepository<Document, Document> = builder.build().unwrap();
    let (element, elements) = (marked(), [marked()]);
    let mut session = books.collection().client().start_session().await.unwrap();
    let actions: [&dyn Debug; 20] = [
        &books,
        &books.migrate_existing(),
        &books.contains(MARKER, &element),
        &books.count(MARKER),
        &books.delete(MARKER),
        &books.elements(MARKER),
        &books.ensure_indexes(),
        &books.ensure_sharded(),
        &books.verify_shard_keys(),
        &books.get(MARKER),
        &books.get_full(MARKER),
        &books.insert(&element).session(&mut session),
        &books.push(MARKER, &element),
        &books.push_many(MARKER, &elements),
        &books.push_unique(MARKER, &element),
        &books.refresh(MARKER),
        &books.remove(MARKER, &element),
        &books.repair(),
        &books.update_element(MARKER, marked(), doc! { "$set": marked() }),
        &books.verify(),
    ];
    actions.into_iter().for_each(|action| seen.add("outlier", action));
}

async fn children(seen: &mut Seen<'_>) {
    let newest = Subset::new("newest").sort(doc! { "review_id": -1 });
    let newest = newest.filter(doc! { "text": { "$ne": MARKER } });
    seen.add("subset", &newest);
    let builder = subset_support::builder::<Document, Document>(seen.db.database()).subset(newest);
    seen.add("subset", &builder);
    let products: SubsetRepository<Document, Document> = subset_support::ready(seen.db, builder).await;
    for text in [MARKER, "another"] {
        let child = doc! { "review_id": text, "product_id": 1, "published_date": MARKER };
        products.insert(&child).await.unwrap();
    }
    let page = products.children(1).limit(1).page().await.unwrap();
    let token: ChildToken = page.next.unwrap();
    let (child, children) = (marked(), [marked()]);
    let mut session = products.collection().client().start_session().await.unwrap();
    let actions: [&dyn Debug; 23] = [
        &products,
        &token,
        &products.migrate_existing(),
        &products.migrate_layout_from(&products),
        &products.child(MARKER, MARKER),
        &products.children(MARKER).after(token.clone()),
        &products.delete(MARKER, MARKER),
        &products.delete_parent(MARKER),
        &products.ensure_indexes(),
        &products.ensure_sharded(),
        &products.verify_shard_keys(),
        &products.follow("reviews"),
        &products.get(MARKER),
        &products.insert(&child).session(&mut session),
        &products.insert_many(&children),
        &products.migrate_from_embedded(),
        &products.refresh(MARKER),
        &products.refresh_all(),
        &products.repair(),
        &products.replace(&child),
        &products.update(MARKER, MARKER, doc! { "$set": marked(), "$unset": { MARKER: "" } }),
        &products.verify(),
        &products.children(MARKER).before(token.clone()),
    ];
    actions.into_iter().for_each(|action| seen.add("subset", action));
}

async fn embedded(seen: &mut Seen<'_>) {
    let builder = embedded_support::builder(seen.db).max_children(5);
    seen.add("embedded", &builder);
    let patrons: EmbeddedRepository<Document, Document> = builder.build().unwrap();
    let other = seen.db.collection::<Document>("address");
    let child = marked();
    let mut session = patrons.collection().client().start_session().await.unwrap();
    let actions: [&dyn Debug; 17] = [
        &patrons,
        &patrons.add_child(MARKER, &child).session(&mut session),
        &patrons.child(MARKER, MARKER),
        &patrons.ensure_indexes(),
        &patrons.ensure_sharded(),
        &patrons.verify_shard_keys(),
        &patrons.get(MARKER),
        &patrons.insert(&child),
        &patrons.migrate_from_references(&other, "patron_id"),
        &patrons.orphans(&other, "patron_id"),
        &patrons.remove_child(MARKER, MARKER),
        &patrons.reorder_children(MARKER, [MARKER]),
        &patrons.replace_child(MARKER, &child),
        &patrons.upsert_child(MARKER, &child),
        &patrons.update_grandchild(MARKER, MARKER, MARKER, (MARKER, MARKER), doc! { "$set": marked() }),
        &patrons.update_child(MARKER, MARKER, doc! { "$set": marked(), "$unset": { MARKER: "" } }),
        &patrons.verify(),
    ];
    actions.into_iter().for_each(|action| seen.add("embedded", action));
}

async fn histories(seen: &mut Seen<'_>) {
    let builder = history_support::builder(seen.db.database());
    seen.add("history", &builder);
    let policies: HistoryRepository<Document> = builder.build().unwrap();
    policies.ensure_indexes().await.unwrap();
    let new = doc! { "policyId": MARKER, "text": MARKER };
    policies.insert(&new).await.unwrap();
    let set = doc! { "$set": { "text": "another" } };
    policies.update(MARKER, set).await.unwrap();
    let page = policies.revisions(MARKER).limit(1).page().await.unwrap();
    let token: RevisionToken = page.next.unwrap();
    let diff = policies.diff(MARKER, 1, 2).await.unwrap();
    let mut session = policies.collection().client().start_session().await.unwrap();
    let actions: [&dyn Debug; 25] = [
        &policies.follow(MARKER),
        &policies,
        &token,
        &diff.changes[0],
        &policies.insert(&new).session(&mut session),
        &policies.insert_many(std::slice::from_ref(&new)),
        &policies.find(new.clone()).sort(doc! { MARKER: 1 }),
        &policies.get(MARKER),
        &policies
            .update(MARKER, doc! { "$set": marked(), "$unset": { MARKER: "" } })
            .expecting(1),
        &policies.replace(MARKER, &new),
        &policies.upsert(&new),
        &policies.update_many(new.clone(), doc! { "$set": { "a": MARKER } }),
        &policies.delete(MARKER),
        &policies.restore(MARKER, 1),
        &policies.at(MARKER, 1),
        &policies.as_of(MARKER, DateTime::now()),
        &policies.revisions(MARKER).after(token),
        &policies.diff(MARKER, 1, 2),
        &policies.keep_last(MARKER, 1),
        &policies.migrate_existing(),
        &policies.ensure_indexes(),
        &policies.ensure_sharded(),
        &policies.verify_shard_keys(),
        &policies.verify(),
        &policies.repair(),
    ];
    actions.into_iter().for_each(|action| seen.add("history", action));
}

async fn intervals(seen: &mut Seen<'_>) {
    let builder = intervals::builder(seen.db.database());
    seen.add("history", &builder);
    let prices = builder.build().unwrap();
    prices.ensure_indexes().await.unwrap();
    let new = doc! { "item": MARKER, "text": MARKER };
    prices.insert(&new).await.unwrap();
    let now = prices.get(MARKER).await.unwrap().unwrap().valid_from;
    let actions: [&dyn Debug; 12] = [
        &prices,
        &prices.insert(&new),
        &prices.update(MARKER, doc! { "$set": marked() }).expecting(now),
        &prices.replace(MARKER, &new).expecting(now),
        &prices.end(MARKER).expecting(now),
        &prices.get(MARKER),
        &prices.as_of(MARKER, now),
        &prices.intervals(MARKER),
        &prices.migrate_existing(),
        &prices.ensure_indexes(),
        &prices.verify(),
        &prices.repair(),
    ];
    actions.into_iter().for_each(|action| seen.add("history", action));
}

async fn references(seen: &mut Seen<'_>) {
    let builder = reference_support::builder(seen.db.database());
    seen.add("reference", &builder);
    let orders = builder.build().unwrap();
    orders.ensure_indexes().await.unwrap();
    let new = doc! { "_id": MARKER, "customer": { "_id": MARKER }, "text": MARKER };
    let source = doc! { "_id": MARKER, "name": MARKER };
    orders.sources_collection().insert_one(source).await.unwrap();
    let inserted = orders.insert(&new).await.unwrap();
    let session = &mut orders.collection().client().start_session().await.unwrap();
    let actions: [&dyn Debug; 18] = [
        &orders,
        &inserted,
        &orders.follow(MARKER),
        &orders.migrate_from_references().filter(marked()),
        &orders.insert(&new).session(session),
        &orders.get(MARKER).max_staleness(0),
        &orders.set_reference(MARKER, MARKER).field("customer"),
        &orders.clear_reference(MARKER),
        &orders.add_reference_to(MARKER, MARKER),
        &orders.remove_reference(MARKER, MARKER),
        &orders.update_source(MARKER, doc! { "$set": marked(), "$unset": { MARKER: "" } }),
        &orders.delete_source(MARKER).on_references(OnReferences::Clear),
        &orders.refresh_copies(MARKER),
        &orders.ensure_indexes(),
        &orders.ensure_sharded(),
        &orders.verify_shard_keys(),
        &orders.verify(),
        &orders.repair(),
    ];
    actions.into_iter().for_each(|action| seen.add("reference", action));
}

/// Returns all public types with `#[must_use]`, as `pattern Type`.
fn actions() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pattern in ["bucket", "outlier", "subset", "embedded", "history", "reference"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../crates/{pattern}/src"));
        let actions = source.join("action").read_dir().unwrap();
        let files = actions.map(|entry| entry.unwrap().path());
        let others = [source.join("builder.rs")];
        for path in files.chain(others.into_iter().filter(|path| path.exists())) {
            let text = std::fs::read_to_string(path).unwrap();
            let mut is_action = false;
            for line in text.lines().map(str::trim_start) {
                if let Some(declared) = line.strip_prefix("pub struct ").filter(|_| is_action) {
                    let name = declared.chars().take_while(|character| character.is_alphanumeric());
                    found.insert(format!("{pattern} {}", name.collect::<String>()));
                }
                let continues = line.starts_with("#[") || line.starts_with("///");
                let begins = line.starts_with("#[must_use") || line.ends_with("action! {");
                is_action = begins || is_action && continues;
            }
        }
    }
    assert!(found.len() > 30, "{found:?}");
    found
}
