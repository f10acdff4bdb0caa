//! Inserts of concurrent calls for one parent.
//!
//! # Design
//!
//! ## Why do calls that wait for one parent share a transaction?
//!
//! Transactions that write one parent exclude each other, so one process sends one at a time. It takes as long for a
//! hundred children as for one. So the children whose calls wait join the next transaction, by the
//! [queues](mongo_patterns_core::batching) of the core.
//!
//! ## Why does a call not join if no other call writes its parent?
//!
//! Its transaction is then in its own future, and is aborted when that is dropped.
//!
//! ## What if one child is refused?
//!
//! The transaction has no effect, and halves of the children are inserted in transactions of their own. The call of the refused
//! child alone gets its error.

use std::sync::Arc;

use mongo_patterns_core::batching::{Stored, Target};
use mongo_patterns_core::size;

use super::change::{Change, Write};
use super::transactional;
use crate::form::child::Child;
use crate::repository::WaitingInserts;
use crate::repository::prelude::*;
use crate::results::Inserted;

/// Inserts a child in a transaction: with those of other calls, if one of them writes the parent.
pub(super) async fn insert(shared: &Arc<Shared>, child: Child) -> Result<Inserted> {
    let Child { parent, id, document } = child;
    let queue = bson::serialize_to_vec(&doc! { "": &parent }).ok();
    let has_writer = queue.as_ref().is_some_and(|queue| shared.inserts.has_writer(queue));
    let free = if has_writer { None } else { shared.try_lock(&parent) };
    let locked = match (queue, free) {
        (_, Some(locked)) => locked,
        (None, None) => shared.lock(std::slice::from_ref(&parent)).await,
        (Some(queue), None) => {
            let waiting = || WaitingInserts {
                shared: Arc::clone(shared),
                parent,
            };
            return shared.inserts.store(&queue, (id, document), waiting).await;
        }
    };
    let write = Write::of_child(shared, parent, id, Change::Insert(vec![document]));
    Ok(transactional::run(&write, None, locked).await?.counted().into())
}

impl Target for WaitingInserts {
    /// The id and the document of a child.
    type Item = (Bson, RawDocumentBuf);
    type Output = Inserted;

    const MAX_BYTES: usize = size::MAX_BYTES;
    const INTERRUPTED: &'static str = "the tokio runtime of the call that inserts for this one ended, the child may or may not be stored: insert it again, `AlreadyExists` means that it is stored";

    fn bytes((_, document): &Self::Item) -> usize {
        document.as_bytes().len()
    }

    fn can_be_of_one_item(error: &Error) -> bool {
        let may_be_refused = matches!(
            error.kind(),
            ErrorKind::AlreadyExists
                | ErrorKind::DuplicateKey
                | ErrorKind::InvalidArgument
                | ErrorKind::TooLarge
                | ErrorKind::Driver
        );
        may_be_refused && !error.is_outcome_unknown()
    }

    async fn store(&self, children: &[Self::Item]) -> Stored<Inserted> {
        let Self { shared, parent } = self;
        let locked = shared.lock(std::slice::from_ref(parent)).await;
        let write = Write::of_calls(shared, parent.clone(), children);
        match transactional::run(&write, None, locked).await {
            Ok(written) => {
                let included = written.counted().included.into_iter();
                Stored {
                    results: included.map(|in_subset| Ok(Inserted { in_subset })).collect(),
                    error: None,
                }
            }
            Err(error) => Stored {
                results: Vec::new(),
                error: Some(error),
            },
        }
    }
}
