//! The batching of pushes that many tasks make to one list.
//!
//! # Design
//!
//! ## Why is the queue of a list found by the bytes of its id, and not by its text?
//!
//! Different ids can have one text, and their elements must not go to one list. An id such as 1 and 1.0 has two queues,
//! which costs only a larger batch.

use std::iter::repeat_with;
use std::sync::Arc;

use mongo_patterns_core::batching::{Queues, Stored, Target};

use crate::form::layout::DOCUMENT_BYTES;
use crate::repository::prelude::*;
use crate::results::Pushed;
use crate::write::push::{PushWrite, check_elements};

/// Pushes for many tasks of a process, in batches.
///
/// Elements that arrive for a list while a command for that list is running are sent together in the next command.
/// Every caller gets its own result.
///
/// [`batching_writer`](crate::OutlierRepository::batching_writer) creates it. A clone is cheap, and shares the queues.
pub struct BatchingWriter<E> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queues: Arc<Queues<List>>,
    pub(crate) types: PhantomData<fn() -> E>,
}

mongo_patterns_core::clone_fields!(BatchingWriter<E>, shared, queues, types);
mongo_patterns_core::redacted_debug!(
    BatchingWriter<E>,
    |writer| "collection" = writer.shared.main.namespace(),
    "extras_collection" = writer.shared.overflow.namespace()
);

/// Pushes an element in a batch with those of other tasks.
pub(crate) async fn push(
    shared: &Arc<Shared>,
    queues: &Arc<Queues<List>>,
    id: Bson,
    element: Encoded,
) -> Result<Pushed> {
    check_elements(shared, std::slice::from_ref(&element))?;
    let mut queue = RawDocumentBuf::new();
    queue.append(cstr!("_id"), RawBson::try_from(id.clone()).map_err(CommandError::from)?);
    let list = || List {
        shared: Arc::clone(shared),
        id,
    };
    queues.store(queue.as_bytes(), element, list).await
}

/// One list.
pub(crate) struct List {
    shared: Arc<Shared>,
    id: Bson,
}

impl Target for List {
    type Item = Encoded;
    type Output = Pushed;

    /// With a larger batch, the main document would be more likely to exceed 16 MiB.
    const MAX_BYTES: usize = DOCUMENT_BYTES;
    const INTERRUPTED: &'static str = "the tokio runtime of the writer ended, the element may or may not be stored: read the list before you push it again";

    fn bytes(element: &Encoded) -> usize {
        element.bytes()
    }

    fn can_be_of_one_item(error: &Error) -> bool {
        // A unique index of the user's own can refuse one element. A conflict with other writers has attempts.
        let is_duplicate = || {
            error
                .as_driver_error()
                .is_some_and(|cause| duplicate_key(cause).is_some())
        };
        match error.kind() {
            ErrorKind::Contention => error.attempts().is_none() && is_duplicate(),
            ErrorKind::TooLarge | ErrorKind::InvalidArgument | ErrorKind::Driver => !error.is_outcome_unknown(),
            _ => false,
        }
    }

    async fn store(&self, elements: &[Encoded]) -> Stored<Pushed> {
        let mut push = PushWrite::new(&self.shared, &self.id, elements, false);
        let error = push.run_locked(None).await.err();
        let (inline, overflow) = match &error {
            // The document was deleted concurrently, with the elements that were stored.
            Some(error) if error.kind() == ErrorKind::NotFound => (0, 0),
            _ => (push.inline, push.overflow),
        };
        let in_array = repeat_with(|| Ok(Pushed::Inline)).take(inline);
        let in_overflow = repeat_with(|| Ok(Pushed::Overflow)).take(overflow);
        Stored {
            results: in_array.chain(in_overflow).collect(),
            error,
        }
    }
}
