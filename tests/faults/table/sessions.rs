//! Calls in a transaction of the caller: they do not retry, and the abort of the transaction undoes a failed call.

mod orders;

use std::fmt::Debug;

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns::{Error, ErrorKind};
use mongodb::bson::{DateTime, doc};
use mongodb::{Client, ClientSession};

use super::operation::Promise::{self, Atomic, PrefixOnce, Reads};
use super::operation::{Operation, text};
use super::{bucket, embedded, history, outlier, subset};
use support::common::{SECOND, Trade, at, spread};
use support::embedded::{address, patron};
use support::history::{policy, push};
use support::outlier::{book, users};
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

pub(super) fn operation<M>(
    promise: Promise,
    call: &'static str,
    case: &'static str,
    run: for<'a> fn(&'a M) -> LocalBoxFuture<'a, Result<String, Error>>,
) -> Operation<M> {
    Operation {
        in_session: true,
        ..Operation::new(promise, call, case, run)
    }
}

pub(in crate::faults::table) use orders::of_orders;

pub(super) const IN: &str = "in the caller's transaction";

pub(super) fn of_buckets() -> Vec<Operation<bucket::Histories>> {
    type M = bucket::Histories;
    const APPEND: &str = "BucketRepository::append";
    let new_page = "in the caller's transaction, into a new page";
    vec![
        operation::<M>(Atomic, APPEND, IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.with_ids.append(&1, &spread(7)).session(s).await
            }))
        }),
        operation::<M>(Atomic, APPEND, new_page, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.with_ids.append(&2, &spread(107)).session(s).await
            }))
        }),
        operation::<M>(Atomic, "BucketRepository::append_many", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let items: Vec<Trade> = (5..12).map(spread).collect();
                m.with_ids.append_many(&1, &items).session(s).await
            }))
        }),
        operation::<M>(Atomic, "BucketRepository::delete_key", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.plain.delete_key(&1).session(s).await.map(drop)
            }))
        }),
        operation::<M>(Atomic, "BucketRepository::replace_item", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let date = at(SECOND + 50);
                m.with_ids.replace_item(&1, &Trade { n: 4, date }).session(s).await
            }))
        }),
        operation::<M>(Atomic, "BucketRepository::update_item", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let set = doc! { "$set": { "date": at(SECOND + 50) } };
                m.with_ids.update_item(&1, 4_i64, set).session(s).await
            }))
        }),
        operation::<M>(Atomic, "BucketRepository::remove_item", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.with_ids.remove_item(&1, 1_i64).session(s).await
            }))
        }),
        operation::<M>(Reads, "BucketRepository::page", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.plain.page(&1, 2).session(s).await
            }))
        }),
        operation::<M>(Reads, "BucketRepository::pages", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.plain.pages(&1).session(s).await
            }))
        }),
        operation::<M>(Reads, "BucketRepository::newest", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.plain.newest(&1, 5).session(s).await
            }))
        }),
        operation::<M>(Reads, "BucketRepository::items + Items::stream", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.plain.items(&1).session(s).stream().try_collect::<Vec<_>>().await
            }))
        }),
        operation::<M>(Reads, "BucketRepository::item", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.with_ids.item(&1, 4_i64).session(s).await
            }))
        }),
        operation::<M>(Reads, "BucketRepository::counts", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.plain.counts(&1).session(s).await
            }))
        }),
        operation::<M>(Reads, "BucketRepository::count_pages", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.plain.count_pages(&1).session(s).await
            }))
        }),
    ]
}

pub(super) fn of_outliers() -> Vec<Operation<outlier::Shop>> {
    type M = outlier::Shop;
    let outlier = "in the caller's transaction, that creates an outlier";
    vec![
        operation::<M>(PrefixOnce, "OutlierRepository::push", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.push(3, &users(50..51)[0]).session(s).await
            }))
        }),
        operation::<M>(PrefixOnce, "OutlierRepository::push", outlier, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.push(2, &users(50..51)[0]).session(s).await
            }))
        }),
        operation::<M>(PrefixOnce, "OutlierRepository::push_many", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.push_many(1, &users(50..60)).session(s).await
            }))
        }),
        operation::<M>(Atomic, "OutlierRepository::push_unique", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.unique.push_unique(4, &users(50..51)[0]).session(s).await
            }))
        }),
        operation::<M>(Atomic, "OutlierRepository::remove", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.remove(1, &users(5..6)[0]).session(s).await
            }))
        }),
        operation::<M>(Atomic, "OutlierRepository::update_element", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                let user = doc! { "user": 4 };
                m.books.update_element(6, user, outlier::gift()).session(s).await
            }))
        })
        .prepare(outlier::orders),
        operation::<M>(Atomic, "OutlierRepository::insert", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.insert(&book(5, 9)).session(s).await
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "OutlierRepository::delete", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.delete(1).session(s).await
            }))
        }),
        operation::<M>(Atomic, "OutlierRepository::rebalance", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.rebalance(1).session(s).await
            }))
        })
        .prepare(outlier::removed),
        operation::<M>(Reads, "OutlierRepository::get", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| m.books.get(1).session(s).await))
        }),
        operation::<M>(Reads, "OutlierRepository::get_full", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.get_full(1).session(s).await
            }))
        }),
        operation::<M>(Reads, "OutlierRepository::elements", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.elements(1).session(s).await
            }))
        }),
        operation::<M>(Reads, "OutlierRepository::count", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.count(1).session(s).await
            }))
        }),
        operation::<M>(Reads, "OutlierRepository::contains", IN, |m| {
            Box::pin(transaction(m.sales.client(), async |s| {
                m.books.contains(1, &users(5..6)[0]).session(s).await
            }))
        }),
    ]
}

pub(super) fn of_subsets() -> Vec<Operation<subset::Shop>> {
    type M = subset::Shop;
    vec![
        operation::<M>(Atomic, "SubsetRepository::insert", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.insert(&review_of(1, 20, 20)).session(s).await
            }))
        })
        .retry_errors(subset::EXISTS),
        operation::<M>(Atomic, "SubsetRepository::insert_many", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.insert_many(&subset::two()).session(s).await
            }))
        })
        .retry_errors(subset::EXISTS),
        operation::<M>(Atomic, "SubsetRepository::update", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                let later = doc! { "$set": { "published_date": day(30) } };
                m.newest.update(1, 0, later).session(s).await
            }))
        }),
        operation::<M>(Atomic, "SubsetRepository::replace", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.replace(&review_of(1, 0, 30)).session(s).await
            }))
        }),
        operation::<M>(Atomic, "SubsetRepository::delete", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.delete(1, 3).session(s).await
            }))
        }),
        operation::<M>(Atomic, "SubsetRepository::delete_parent", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.delete_parent(1).session(s).await
            }))
        }),
        operation::<M>(Atomic, "SubsetRepository::rebuild", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.rebuild(1).session(s).await
            }))
        })
        .prepare(subset::stale),
        operation::<M>(Reads, "SubsetRepository::get", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.get(1).session(s).await
            }))
        }),
        operation::<M>(Reads, "SubsetRepository::child", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.child(1, 2).session(s).await
            }))
        }),
        operation::<M>(Reads, "SubsetRepository::children", IN, |m| {
            Box::pin(transaction(m.products.client(), async |s| {
                m.newest.children(1).limit(3).session(s).await
            }))
        }),
    ]
}

pub(super) fn of_parents() -> Vec<Operation<embedded::Library>> {
    type M = embedded::Library;
    vec![
        operation::<M>(Atomic, "EmbeddedRepository::insert", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.insert(&patron("sue", [address(7)])).session(s).await
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "EmbeddedRepository::insert_many", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.insert_many(&embedded::two()).session(s).await
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "EmbeddedRepository::add_child", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.add_child("joe", &address(7)).session(s).await
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "EmbeddedRepository::remove_child", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.remove_child("joe", 1).session(s).await
            }))
        }),
        operation::<M>(Atomic, "EmbeddedRepository::replace_child", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let changed = doc! { "id": 1, "street": "1 Some Other Street" };
                m.patrons.replace_child("joe", &changed).session(s).await
            }))
        }),
        operation::<M>(Atomic, "EmbeddedRepository::upsert_child", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.upsert_child("joe", &address(7)).session(s).await
            }))
        }),
        operation::<M>(Atomic, "EmbeddedRepository::update_grandchild", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let set = doc! { "$set": { "kind": "mobile" } };
                let updated = m.patrons.update_grandchild("joe", 1, "phones", ("number", 2), set);
                updated.session(s).await
            }))
        })
        .prepare(embedded::with_phones),
        operation::<M>(Atomic, "EmbeddedRepository::update_child", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons
                    .update_child("joe", 1, doc! { "$set": { "zip": "54321" } })
                    .session(s)
                    .await
            }))
        }),
        operation::<M>(Atomic, "EmbeddedRepository::reorder_children", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.reorder_children("joe", [2, 0, 1]).session(s).await
            }))
        }),
        operation::<M>(Reads, "EmbeddedRepository::get", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.get("joe").session(s).await
            }))
        }),
        operation::<M>(Reads, "EmbeddedRepository::child", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.patrons.child("joe", 1).session(s).await
            }))
        }),
    ]
}

pub(super) fn of_policies() -> Vec<Operation<history::Office>> {
    type M = history::Office;
    vec![
        operation::<M>(Atomic, "HistoryRepository::insert", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.insert(&policy(4)).session(s).await.map(drop)
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "HistoryRepository::insert_many", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                let recorded = m.policies.insert_many(&history::two()).session(s).await;
                recorded.map(|all| history::revisions(&all))
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "HistoryRepository::update", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                let update = m.policies.update(1, push("car")).expecting(3);
                update.session(s).await.map(drop)
            }))
        })
        .retry_errors(&[ErrorKind::RevisionMismatch]),
        operation::<M>(Atomic, "HistoryRepository::replace", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies
                    .replace(1, &policy(1))
                    .expecting(3)
                    .session(s)
                    .await
                    .map(drop)
            }))
        })
        .retry_errors(&[ErrorKind::RevisionMismatch]),
        operation::<M>(PrefixOnce, "HistoryRepository::upsert", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.upsert(&policy(4)).session(s).await.map(drop)
            }))
        }),
        operation::<M>(Atomic, "HistoryRepository::restore", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.restore(1, 2).expecting(3).session(s).await.map(drop)
            }))
        })
        .retry_errors(&[ErrorKind::RevisionMismatch]),
        operation::<M>(Atomic, "HistoryRepository::delete", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.delete(1).session(s).await.map(drop)
            }))
        }),
        operation::<M>(Atomic, "HistoryRepository::prune", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.prune(1).keep_last(1).session(s).await.map(drop)
            }))
        }),
        operation::<M>(Reads, "HistoryRepository::get", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.get(1).session(s).await.map(|now| now.is_some())
            }))
        }),
        operation::<M>(Reads, "HistoryRepository::at", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.at(1, 2).session(s).await.map(|at| at.is_some())
            }))
        }),
        operation::<M>(Reads, "HistoryRepository::as_of", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                let at = m.policies.as_of(1, DateTime::MAX).session(s).await;
                at.map(|at| at.is_some())
            }))
        }),
        operation::<M>(Reads, "HistoryRepository::revisions + Revisions::page", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                let page = m.policies.revisions(1).session(s).page().await;
                page.map(|page| page.revisions.len())
            }))
        }),
        operation::<M>(Reads, "HistoryRepository::diff", IN, |m| {
            Box::pin(transaction(m.current.client(), async |s| {
                m.policies.diff(1, 1, 3).session(s).await
            }))
        }),
    ]
}
