use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::migrate::referencing::Referencing;
use crate::migrate::run::check_settings;
use crate::migrate::to_references::ToReferences;
use crate::repository::Shared;
use crate::{EmbeddedRepository, Moved};

impl<P, C> EmbeddedRepository<P, C> {
    /// Makes a document of its own of each child, with the `_id` of its parent in a field: the way back from
    /// [`move_from_references`](Self::move_from_references). The server does it, and nothing passes through the client.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Collection, bson::{Document, doc}};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>)
    /// # -> mongo_patterns_core::Result<()> {
    /// let moved = patrons.move_to_references(&addresses, "patron_id").await?;
    /// println!("{} addresses of {} patrons", moved.children, moved.parents);
    /// // When you have looked at them:
    /// patrons.collection().update_many(doc! {}, doc! { "$unset": { "addresses": "" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A document is `_id`, the reference, and the fields of the child in their order. A child without an `_id` gets one of
    /// its parent's `_id` and its own id. The target gets an index on the reference. The order of a parent's children is
    /// not kept: where it matters, let a field of theirs tell it.
    ///
    /// The parents keep their arrays, which are yours to remove, with an update of all that has `$unset`.
    ///
    /// # Before
    /// Stop the writers of both collections, which must be in one database.
    ///
    /// # When it is interrupted
    /// Run it again until it returns. A document that is there stays, so nothing is lost or doubled.
    ///
    /// # Cost
    /// Nine round trips, or two more when it is run again. The server reads the parents five times.
    ///
    /// # Errors
    /// Nothing is written when an error is one of these:
    ///
    /// - [`Configuration`](mongo_patterns_core::ErrorKind::Configuration): the name of the reference is that of no plain field.
    /// - [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument): the collections are one, or of two databases; the reference is
    ///   the field of the child's id; or so many parents have children with a field of that name and another value in it.
    /// - [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt): the children of so many parents are no array, no documents, or have no id.
    /// - [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId): so many `_id`s would be those of several documents, as children of
    ///   different parents have the same.
    /// - [`TargetNotEmpty`](mongo_patterns_core::ErrorKind::TargetNotEmpty): the target has documents that are not those children.
    /// - [`IndexMismatch`](mongo_patterns_core::ErrorKind::IndexMismatch) and [`Collation`](mongo_patterns_core::ErrorKind::Collation) of the target.
    ///
    /// With these, the move is unfinished, and can be run again:
    ///
    /// - [`CountMismatch`](mongo_patterns_core::ErrorKind::CountMismatch): at the end the target does not have exactly the children, because
    ///   something wrote to one of the collections.
    /// - [`DuplicateKey`](mongo_patterns_core::ErrorKind::DuplicateKey): a unique index of your own refused a document.
    /// - Those of the driver.
    pub fn move_to_references<D: Send + Sync>(
        &self,
        target: &Collection<D>,
        reference: impl Into<String>,
    ) -> MoveToReferences<'_> {
        MoveToReferences {
            shared: self.shared(),
            target: target.clone_with_type(),
            reference: reference.into(),
        }
    }
}

/// Makes documents of their own of children; made by [`EmbeddedRepository::move_to_references`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let moved = patrons.move_to_references(&addresses, "patron_id").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct MoveToReferences<'a> {
    shared: &'a Shared,
    target: Collection<RawDocumentBuf>,
    reference: String,
}

impl MoveToReferences<'_> {
    async fn execute(self) -> Result<Moved> {
        let Shared { collection, settings } = self.shared;
        let target = &self.target;
        let reference = check_settings(collection, target, target, self.reference, &settings.child_id)?;
        let form = ToReferences {
            settings,
            target: target.name(),
            reference: &reference,
        };
        let moving = Referencing {
            form,
            parents: collection,
            target,
        };
        moving.run().await
    }
}

impl<'a> IntoFuture for MoveToReferences<'a> {
    type Output = Result<Moved>;
    type IntoFuture = ActionFuture<'a, Moved>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("move_to_references"), |_| self.execute())
    }
}
