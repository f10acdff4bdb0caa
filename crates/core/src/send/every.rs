//! An update of every document that matches, also while chunks move between shards.
//!
//! # Design
//!
//! ## Why does an update check again on a router?
//!
//! A router sends an update of many documents to all shards at once. If a chunk moves at that moment, its new shard may have
//! read past its documents before they arrive, and its old shard may no longer have them. Then no shard updates them, and
//! the reply does not show it (SERVER-20361). A read has no such gap, because a shard keeps the documents of a moved chunk
//! for earlier reads. So a read that finds nothing shows that every document is updated. In a transaction, all shards update
//! the documents of one point in time.
//!
//! ## How is a router recognized without a command?
//!
//! The driver passes each server to the predicate by which a command selects its server. A command whose predicate selects
//! none is never sent, so its future is dropped as soon as the predicate has seen a server.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use futures::future::BoxFuture;
use mongodb::bson::{Document, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{FindOneOptions, SelectionCriteria, UpdateModifications, UpdateOptions};
use mongodb::results::UpdateResult;
use mongodb::{ServerInfo, ServerType};
use tokio::sync::OnceCell;

use super::{Raw, Result};
use crate::conn::Conn;
use crate::error::{CommandError, Error, ErrorKind};

/// The most updates of one call. Each except the first follows a read that has found a document.
const MOST: usize = 100;

/// An idempotent update of every document that matches.
#[derive(Clone)]
pub struct Every {
    /// The documents.
    pub filter: Document,
    /// The documents that are not updated yet. The update makes each match no longer.
    pub left: Document,
    /// The update.
    pub update: UpdateModifications,
    /// Its options.
    pub options: Option<UpdateOptions>,
}

crate::redacted_debug!(Every);

impl Every {
    /// Updates the documents of a filter, which they do not match afterwards.
    pub fn new(filter: Document, update: impl Into<UpdateModifications>) -> Self {
        Self {
            left: filter.clone(),
            filter,
            update: update.into(),
            options: None,
        }
    }
}

/// Whether a server is the router of a sharded cluster, once that is known.
#[derive(Clone, Debug, Default)]
pub struct IsRouter(Arc<OnceCell<bool>>);

impl IsRouter {
    /// Returns whether the server of a collection is one. Sends nothing, and waits until the driver knows a server.
    pub fn of<'a>(&'a self, on: &'a Raw) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.0.get_or_try_init(|| seen(on)).await.copied() })
    }
}

/// Returns whether the first server that the driver knows is a router.
fn seen(on: &Raw) -> BoxFuture<'static, Result<bool>> {
    let database = on.client().database("admin");
    let seen = Arc::new(OnceLock::new());
    let see = Arc::clone(&seen);
    let none = SelectionCriteria::Predicate(Arc::new(move |server: &ServerInfo<'_>| {
        match server.server_type() {
            ServerType::Unknown => {}
            known => drop(see.set(matches!(known, ServerType::Mongos | ServerType::LoadBalancer))),
        }
        false
    }));
    let mut selection = Box::pin(async move {
        let ping = database.run_command(doc! { "ping": 1 }).selection_criteria(none);
        ping.await
    });
    Box::pin(poll_fn(move |context| {
        let selected = selection.as_mut().poll(context);
        match (seen.get(), selected) {
            (Some(is_router), _) => Poll::Ready(Ok(*is_router)),
            (None, Poll::Ready(refused)) => Poll::Ready(refused.map(|_| false).map_err(CommandError::of_read)),
            (None, Poll::Pending) => Poll::Pending,
        }
    }))
}

impl Conn<'_> {
    /// Updates every document that matches. Outside of a transaction on a router, one read more, and another update and read
    /// while one is left.
    pub fn update_every<'a>(
        &'a mut self,
        collection: &'a Raw,
        every: Every,
        is_router: &'a IsRouter,
    ) -> BoxFuture<'a, Result<UpdateResult>> {
        Box::pin(async move {
            let checks_again = !self.is_in_transaction() && is_router.of(collection).await?;
            let mut all = update(self, collection, &every).await?;
            if !checks_again {
                return Ok(all);
            }
            for _ in 1..MOST {
                if !is_any_left(self, collection, &every).await? {
                    return Ok(all);
                }
                let further = update(self, collection, &every).await?;
                all.matched_count += further.matched_count;
                all.modified_count += further.modified_count;
            }
            // The driver's error can have one of ours.
            Err(DriverError::from(Error::new(
                ErrorKind::Contention,
                "other clients store documents that match the update again and again, and some are not updated: stop them, then call it again",
            ))
            .into())
        })
    }
}

fn update<'a>(conn: &'a mut Conn<'_>, collection: &'a Raw, every: &Every) -> BoxFuture<'a, Result<UpdateResult>> {
    let Every {
        filter,
        update,
        options,
        ..
    } = every.clone();
    conn.update_many(collection, filter, update, options)
}

async fn is_any_left(conn: &mut Conn<'_>, collection: &Raw, every: &Every) -> Result<bool> {
    let given = every.options.as_ref();
    let options = FindOneOptions::builder()
        .projection(doc! { "_id": 1 })
        .hint(given.and_then(|options| options.hint.clone()))
        .collation(given.and_then(|options| options.collation.clone()))
        .build();
    let left = conn.find_one(collection, every.left.clone(), options).await?;
    Ok(left.is_some())
}
