use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongodb::ClientSession;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::error::Error as DriverError;
use serde::Serialize;

use super::Updated;
use crate::form::child::Child;
use crate::repository::Shared;
use crate::write::{Change, Write};
use crate::{SubsetRepository, query};

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Replaces the child that has the same parent and id, and writes the parent, as [`update`](Self::update) does. Its
    /// `_id` stays.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let now = DateTime::now();
    /// let review = doc! { "review_id": 786, "product_id": 1, "review_text": "Still amazing.", "published_date": now };
    /// let replaced = products.replace(&review).await?;
    /// println!("shown with the product: {}", replaced.in_subset);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// - [`Transactional`](crate::Consistency::Transactional): it has no effect, unless its commit had begun; then it
    ///   is done as a whole.
    /// - [`Eventual`](crate::Consistency::Eventual): the child may be replaced, and its parent not be written. The
    ///   subset is stale then until the next write to the parent, or until [`rebuild`](Self::rebuild) or
    ///   [`repair`](Self::repair); [`verify`](Self::verify) finds it.
    ///
    /// Call it again: it is idempotent, and writes the parent in any case. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert) and [`update`](Self::update). A child with another parent than the stored one is
    /// [`ChildNotFound`](mongo_patterns_core::ErrorKind::ChildNotFound), and one with another `_id` is
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument).
    pub fn replace<'a>(&'a self, child: &'a C) -> Replace<'a, C> {
        Replace {
            shared: self.shared(),
            child,
            session: None,
        }
    }
}

/// Replaces a child; made by [`SubsetRepository::replace`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let review = doc! { "review_id": 786, "product_id": 1, "review_text": "Still amazing." };
/// products.replace(&review).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Replace<'a, C> {
    shared: &'a Shared,
    child: &'a C,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Replace<'_, C>);

impl<'a, C> Replace<'a, C> {
    /// Replaces in the caller's session. Where a transaction is under way in it, all happens in that transaction,
    /// whatever the consistency.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, C: Serialize> IntoFuture for Replace<'a, C> {
    type Output = Result<Updated>;
    type IntoFuture = ActionFuture<'a, Updated>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, child, session } = self;
        let child = Child::of(&shared.settings, child);
        run(shared.operation("replace"), move |_| async move {
            let Child { parent, id, document } = child?;
            let write = Write {
                shared,
                parents: &[parent],
                child: Some(&id),
                change: replacement(document)?,
            };
            let mut session = Session::of_caller(session).await?;
            write.run(session.as_mut()).await.map(Updated::from)
        })
    }
}

/// The server takes no name with a dollar at the top of a replacement, which would be an operator, but at the top of
/// what a pipeline makes, as in an insert.
fn replacement(child: RawDocumentBuf) -> Result<Change> {
    let mut fields = child.iter().flatten();
    if !fields.any(|(name, _)| name.as_str().starts_with('$')) {
        return Ok(Change::Replace(child));
    }
    let child = Document::try_from(&child).map_err(DriverError::from)?;
    Ok(Change::Update(query::replace_with(child).to_vec().into()))
}
