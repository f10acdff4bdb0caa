//! Inserts of concurrent calls for one parent.
//!
//! # Design
//!
//! ## Why do calls that wait for one parent share a transaction?
//!
//! Transactions that write one parent exclude each other, so one process sends one at a time. It takes as long for a hundred
//! children as for one. So the children whose calls wait join the next transaction, in the
//! [lane](mongo_patterns_core::lanes) of the parent.
//!
//! ## What if one child is refused?
//!
//! The transaction has no effect, and halves of the children are inserted in transactions of their own. Only the call of the
//! refused child gets its error.

use std::sync::Arc;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::lanes::{BatchOutcome, Entered, Lane, Target};
use mongo_patterns_core::{Result, document_id, size};
use mongodb::bson::{Bson, RawDocumentBuf};

use super::change::{Change, ParentWrite, Written};
use super::transactional;
use crate::form::child::Child;
use crate::repository::{Shared, WaitingInserts};

/// Inserts a child in a transaction: with other calls, if such a call writes the parent.
pub(super) async fn insert(shared: &Arc<Shared>, child: Child) -> Result<Written> {
    let Child { parent, id, document } = child;
    let waiting = || WaitingInserts {
        shared: Arc::clone(shared),
        parent: parent.clone(),
    };
    let queue = || document_id::bytes(&parent);
    let key = document_id::canonical(&parent);
    let turn = shared.inserts.enter(&key, queue, (id, document), waiting);
    let (lane, (id, document)) = match turn.await {
        Entered::Alone(lane, child) => (lane, child),
        Entered::Joined(inserted) => return inserted,
    };
    let write = ParentWrite::of_child(shared, parent, id, Change::Insert(vec![document]));
    transactional::run(&write, &mut Conn::in_lane(lane)).await
}

impl Target for WaitingInserts {
    /// The id and the document of a child.
    type Item = (Bson, RawDocumentBuf);
    type Output = Written;

    const MAX_BYTES: usize = size::MAX_BYTES;
    const INTERRUPTED: &'static str = "the tokio runtime of the call that inserts for this one ended, the child may or may not be stored: insert it again, `AlreadyExists` means that it is stored";

    fn bytes((_, document): &Self::Item) -> usize {
        document.as_bytes().len()
    }

    async fn store(&self, children: &[Self::Item], lane: Lane) -> BatchOutcome<Written> {
        let Self { shared, parent } = self;
        let write = ParentWrite::of_calls(shared, parent.clone(), children);
        let (included, error) = match transactional::run(&write, &mut Conn::in_lane(lane)).await {
            Ok(written) => (written.included, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let included = included.into_iter().map(|included| Ok(Written::of_included(included)));
        BatchOutcome {
            results: included.collect(),
            error,
        }
    }
}
