//! Pushes to one list: alone, or together with other calls that wait.
//!
//! # Design
//!
//! ## Why is the queue of a list found by the bytes of its id, and not by its text?
//!
//! Different ids can have one text, and their elements must not go to one list.

use std::iter::repeat_with;
use std::sync::Arc;

use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::lanes::{BatchOutcome, Entered, Lane, Target};
use mongo_patterns_core::{Result, document_id};
use mongodb::bson::Bson;

use crate::form::layout::DOCUMENT_BYTES;
use crate::repository::{List, Shared};
use crate::results::Pushed;
use crate::write::push::{PushWrite, check_elements, push_one};

/// Pushes an element in the lane of its list.
pub(crate) async fn push(shared: &Arc<Shared>, id: &Bson, element: Encoded) -> Result<Pushed> {
    check_elements(shared, std::slice::from_ref(&element))?;
    let list = || List {
        shared: Arc::clone(shared),
        id: id.clone(),
    };
    match shared
        .pushes
        .enter(&document_id::canonical(id), || document_id::bytes(id), element, list)
        .await
    {
        Entered::Alone(lane, element) => push_one(shared, id, &element, false, &mut Conn::in_lane(lane)).await,
        Entered::Joined(pushed) => pushed,
    }
}

impl Target for List {
    type Item = Encoded;
    type Output = Pushed;

    /// With a larger batch, the main document would be more likely to exceed 16 MiB.
    const MAX_BYTES: usize = DOCUMENT_BYTES;
    const INTERRUPTED: &'static str = "the tokio runtime of a call that pushes for this one ended, the element may or may not be stored: read the list before you push it again";

    fn bytes(element: &Encoded) -> usize {
        element.bytes()
    }

    async fn store(&self, elements: &[Encoded], lane: Lane) -> BatchOutcome<Pushed> {
        let mut push = PushWrite::new(&self.shared, &self.id, elements, false);
        let error = push.push(&mut Conn::in_lane(lane)).await.err();
        // Also if the document is not found after that: it was deleted with these elements, or moved to an archive.
        let in_array = repeat_with(|| Ok(Pushed::Inline)).take(push.inline);
        let in_overflow = repeat_with(|| Ok(Pushed::Overflow)).take(push.overflow);
        BatchOutcome {
            results: in_array.chain(in_overflow).collect(),
            error,
        }
    }
}
