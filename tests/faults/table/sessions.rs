//! Calls in a transaction of the caller: they do not retry, and the abort of the transaction undoes a failed call.

use std::fmt::Debug;

use futures::TryStreamExt;
use mongo_patterns::reference::OnReferences;
use mongo_patterns::{Error, ErrorKind};
use mongodb::bson::{DateTime, doc};
use mongodb::{Client, ClientSession};

use super::operation::Promise::{Atomic, PrefixOnce, Reads};
use super::operation::{Call, EXISTS, session_calls, text};
use super::{bucket, embedded, history, outlier, reference, subset};
use support::bucket::trades_of;
use support::common::{SECOND, Trade, at, spread};
use support::embedded::{address, patron};
use support::history::{policy, push};
use support::outlier::{book, users};
use support::reference::{order, rename};
use support::subset::{day, review_of};

/// Runs the transaction once. The caller could retry it, as each case does.
pub(super) async fn transaction<T: Debug>(
    client: &Client,
    call: impl AsyncFnOnce(&mut ClientSession) -> Result<T, Error>,
) -> Result<String, Error> {
    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    let value = text(call(&mut session).await);
    end(session, value).await
}

/// Commits or aborts. In a task, because a dropped command of the driver is not tested here: it can leave the transaction
/// open.
async fn end(mut session: ClientSession, value: Result<String, Error>) -> Result<String, Error> {
    let is_done = value.is_ok();
    let ended = tokio::spawn(async move {
        match is_done {
            true => session.commit_transaction().await,
            false => session.abort_transaction().await,
        }
    });
    let ended = ended.await.expect("the task panicked");
    // If an abort fails too, the server aborts the transaction later.
    let value = value?;
    ended?;
    Ok(value)
}

pub(super) const IN: &str = "in the caller's transaction";

pub(super) fn of_buckets() -> Vec<Call<bucket::Histories>> {
    type M = bucket::Histories;
    const APPEND: &str = "BucketRepository::append";
    let new_page = "in the caller's transaction, into a new page";
    session_calls! { M, stored;
        Atomic, APPEND, IN, |m, s| m.with_ids.append(&1, &spread(7)).session(s).await;
        Atomic, APPEND, new_page, |m, s| m.with_ids.append(&2, &spread(107)).session(s).await;
        Atomic, "BucketRepository::append_many", IN, |m, s|
            m.with_ids.append_many(&1, &trades_of(5..12)).session(s).await;
        Atomic, "BucketRepository::delete_key", IN, |m, s| m.plain.delete_key(&1).session(s).await.map(drop);
        Atomic, "BucketRepository::replace_item", IN, |m, s|
            m.with_ids.replace_item(&1, &Trade { n: 4, date: at(SECOND + 50) }).session(s).await;
        Atomic, "BucketRepository::update_item", IN, |m, s|
            m.with_ids.update_item(&1, 4_i64, doc! { "$set": { "date": at(SECOND + 50) } }).session(s).await;
        Atomic, "BucketRepository::remove_item", IN, |m, s| m.with_ids.remove_item(&1, 1_i64).session(s).await;
        Reads, "BucketRepository::page", IN, |m, s| m.plain.page(&1, 2).session(s).await;
        Reads, "BucketRepository::buckets", IN, |m, s| m.plain.buckets(&1).session(s).page().await;
        Reads, "BucketRepository::newest", IN, |m, s| m.plain.newest(&1, 5).session(s).await;
        Reads, "BucketRepository::items + Items::stream", IN, |m, s|
            m.plain.items(&1).session(s).stream().try_collect::<Vec<_>>().await;
        Reads, "BucketRepository::items + Items::page", IN, |m, s| m.plain.items(&1).session(s).limit(3).page().await;
        Reads, "BucketRepository::keys", IN, |m, s| m.plain.keys().session(s).await;
        Reads, "BucketRepository::find_items", IN, |m, s|
            m.plain.find_items(doc! {}).sort(doc! { "customerId": 1, "n": 1 }).session(s).await;
        Reads, "BucketRepository::item", IN, |m, s| m.with_ids.item(&1, 4_i64).session(s).await;
        Reads, "BucketRepository::counts", IN, |m, s| m.plain.counts(&1).session(s).await;
        Reads, "BucketRepository::count_pages", IN, |m, s| m.plain.count_pages(&1).session(s).await;
    }
}

pub(super) fn of_outliers() -> Vec<Call<outlier::Shop>> {
    type M = outlier::Shop;
    let outlier = "in the caller's transaction, that creates an outlier";
    session_calls! { M, sales;
        PrefixOnce, "OutlierRepository::push", IN, |m, s| m.books.push(3, &users(50..51)[0]).session(s).await;
        PrefixOnce, "OutlierRepository::push", outlier, |m, s| m.books.push(2, &users(50..51)[0]).session(s).await;
        PrefixOnce, "OutlierRepository::push_many", IN, |m, s| m.books.push_many(1, &users(50..60)).session(s).await;
        Atomic, "OutlierRepository::push_unique", IN, |m, s|
            m.unique.push_unique(4, &users(50..51)[0]).session(s).await;
        Atomic, "OutlierRepository::remove", IN, |m, s| m.books.remove(1, &users(5..6)[0]).session(s).await;
        Atomic, "OutlierRepository::update_element", IN, |m, s| {
            let user = doc! { "user": 4 };
            m.books.update_element(6, user, outlier::gift()).session(s).await
        } => prepare(outlier::orders);
        Atomic, "OutlierRepository::insert", IN, |m, s|
            m.books.insert(&book(5, 9)).session(s).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "OutlierRepository::delete", IN, |m, s| m.books.delete(1).session(s).await;
        Atomic, "OutlierRepository::refresh", IN, |m, s|
            m.books.refresh(1).session(s).await => prepare(outlier::removed);
        Reads, "OutlierRepository::get", IN, |m, s| m.books.get(1).session(s).await;
        Reads, "OutlierRepository::get_full", IN, |m, s| m.books.get_full(1).session(s).await;
        Reads, "OutlierRepository::elements", IN, |m, s| m.books.elements(1).session(s).await;
        Reads, "OutlierRepository::count", IN, |m, s| m.books.count(1).session(s).await;
        Reads, "OutlierRepository::contains", IN, |m, s| m.books.contains(1, &users(5..6)[0]).session(s).await;
    }
}

pub(super) fn of_subsets() -> Vec<Call<subset::Shop>> {
    type M = subset::Shop;
    session_calls! { M, products;
        Atomic, "SubsetRepository::insert", IN, |m, s|
            m.newest.insert(&review_of(1, 20, 20)).session(s).await => retry_errors(EXISTS);
        Atomic, "SubsetRepository::insert_many", IN, |m, s|
            m.newest.insert_many(&subset::two()).session(s).await => retry_errors(EXISTS);
        Atomic, "SubsetRepository::update", IN, |m, s|
            m.newest.update(1, 0, doc! { "$set": { "published_date": day(30) } }).session(s).await;
        Atomic, "SubsetRepository::replace", IN, |m, s| m.newest.replace(&review_of(1, 0, 30)).session(s).await;
        Atomic, "SubsetRepository::delete", IN, |m, s| m.newest.delete(1, 3).session(s).await;
        Atomic, "SubsetRepository::delete_parent", IN, |m, s| m.newest.delete_parent(1).session(s).await;
        Atomic, "SubsetRepository::refresh", IN, |m, s| m.newest.refresh(1).session(s).await => prepare(subset::stale);
        Reads, "SubsetRepository::get", IN, |m, s| m.newest.get(1).session(s).await;
        Reads, "SubsetRepository::child", IN, |m, s| m.newest.child(1, 2).session(s).await;
        Reads, "SubsetRepository::children", IN, |m, s| m.newest.children(1).limit(3).session(s).page().await;
        Reads, "SubsetRepository::children_of_subset", IN, |m, s|
            m.newest.children_of_subset(1, "reviews").limit(3).session(s).page().await;
    }
}

pub(super) fn of_parents() -> Vec<Call<embedded::Library>> {
    type M = embedded::Library;
    session_calls! { M, stored;
        Atomic, "EmbeddedRepository::insert", IN, |m, s|
            m.patrons.insert(&patron("sue", [address(7)])).session(s).await
            => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "EmbeddedRepository::insert_many", IN, |m, s|
            m.patrons.insert_many(&embedded::two()).session(s).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "EmbeddedRepository::add_child", IN, |m, s|
            m.patrons.add_child("joe", &address(7)).session(s).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "EmbeddedRepository::remove_child", IN, |m, s| m.patrons.remove_child("joe", 1).session(s).await;
        Atomic, "EmbeddedRepository::replace_child", IN, |m, s|
            m.patrons.replace_child("joe", &doc! { "id": 1, "street": "1 Some Other Street" }).session(s).await;
        Atomic, "EmbeddedRepository::upsert_child", IN, |m, s|
            m.patrons.upsert_child("joe", &address(7)).session(s).await;
        Atomic, "EmbeddedRepository::update_grandchild", IN, |m, s| {
            let set = doc! { "$set": { "kind": "mobile" } };
            let updated = m.patrons.update_grandchild("joe", 1, "phones", ("number", 2), set);
            updated.session(s).await
        } => prepare(embedded::with_phones);
        Atomic, "EmbeddedRepository::update_child", IN, |m, s|
            m.patrons.update_child("joe", 1, doc! { "$set": { "zip": "54321" } }).session(s).await;
        Atomic, "EmbeddedRepository::reorder_children", IN, |m, s|
            m.patrons.reorder_children("joe", [2, 0, 1]).session(s).await;
        Reads, "EmbeddedRepository::get", IN, |m, s| m.patrons.get("joe").session(s).await;
        Reads, "EmbeddedRepository::child", IN, |m, s| m.patrons.child("joe", 1).session(s).await;
    }
}

pub(super) fn of_policies() -> Vec<Call<history::Office>> {
    type M = history::Office;
    session_calls! { M, current;
        Atomic, "HistoryRepository::insert", IN, |m, s|
            m.policies.insert(&policy(4)).session(s).await.map(drop) => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "HistoryRepository::insert_many", IN, |m, s|
            m.policies.insert_many(&history::two()).session(s).await.map(|all| history::revisions(&all))
            => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "HistoryRepository::update", IN, |m, s|
            m.policies.update(1, push("car")).expecting(3).session(s).await.map(drop)
            => retry_errors(&[ErrorKind::RevisionMismatch]);
        Atomic, "HistoryRepository::replace", IN, |m, s|
            m.policies.replace(1, &policy(1)).expecting(3).session(s).await.map(drop)
            => retry_errors(&[ErrorKind::RevisionMismatch]);
        PrefixOnce, "HistoryRepository::upsert", IN, |m, s| m.policies.upsert(&policy(4)).session(s).await.map(drop);
        Atomic, "HistoryRepository::restore", IN, |m, s|
            m.policies.restore(1, 2).expecting(3).session(s).await.map(drop)
            => retry_errors(&[ErrorKind::RevisionMismatch]);
        Atomic, "HistoryRepository::delete", IN, |m, s| m.policies.delete(1).session(s).await.map(drop);
        Atomic, "HistoryRepository::delete_before", IN, |m, s|
            m.policies.delete_before(1, DateTime::MAX).session(s).await.map(drop);
        Atomic, "HistoryRepository::keep_last", IN, |m, s| m.policies.keep_last(1, 1).session(s).await.map(drop);
        Reads, "HistoryRepository::get", IN, |m, s| m.policies.get(1).session(s).await.map(|now| now.is_some());
        Reads, "HistoryRepository::at", IN, |m, s| m.policies.at(1, 2).session(s).await.map(|at| at.is_some());
        Reads, "HistoryRepository::as_of", IN, |m, s|
            m.policies.as_of(1, DateTime::MAX).session(s).await.map(|at| at.is_some());
        Reads, "HistoryRepository::revisions", IN, |m, s|
            m.policies.revisions(1).session(s).page().await.map(|page| page.items.len());
        Reads, "HistoryRepository::diff", IN, |m, s| m.policies.diff(1, 1, 3).session(s).await;
    }
}

pub(super) fn of_orders() -> Vec<Call<reference::Sales>> {
    type M = reference::Sales;
    session_calls! { M, stored;
        Atomic, "ReferenceRepository::insert", IN, |m, s|
            m.orders.insert(&order(5, 1)).session(s).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "ReferenceRepository::insert_many", IN, |m, s|
            m.orders.insert_many(&reference::two()).session(s).await => retry_errors(&[ErrorKind::AlreadyExists]);
        Atomic, "ReferenceRepository::set_reference", IN, |m, s|
            m.orders.set_reference(1, 4).session(s).await.map(drop);
        Atomic, "ReferenceRepository::clear_reference", IN, |m, s|
            m.orders.clear_reference(1).session(s).await.map(drop);
        Atomic, "ReferenceRepository::add_reference_to", IN, |m, s|
            m.orders.add_reference_to(2, 4).field("products").session(s).await.map(drop);
        Atomic, "ReferenceRepository::remove_reference", IN, |m, s|
            m.orders.remove_reference(2, 1).field("products").session(s).await.map(drop);
        Atomic, "ReferenceRepository::update_source", IN, |m, s|
            m.orders.update_source(1, rename("Cas")).session(s).await.map(drop);
        Atomic, "ReferenceRepository::delete_source", IN, |m, s| m.orders.delete_source(4).session(s).await.map(drop);
        Atomic, "ReferenceRepository::delete_source", "keeping copies, in the caller's transaction", |m, s|
            m.orders.delete_source(1).on_references(OnReferences::KeepCopy).session(s).await.map(drop);
        Reads, "ReferenceRepository::get", IN, |m, s| m.orders.get(2).max_staleness(0).session(s).await;
    }
}
