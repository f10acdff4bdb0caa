#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{InvalidArgument, NotFound, Referenced, SettingsMismatch};
use mongo_patterns_core::through::{self, Deletes, Place};
use mongo_patterns_core::{DocumentId, IntoId, Result, action};

use crate::repository::{ReferenceRepository, Shared};
use crate::results::{DeletedSource, OnReferences};
use crate::write::delete::{Deletion, delete};

impl<D, S> ReferenceRepository<D, S> {
    /// Deletes a source, if no document refers to it. Other rules [keep the copies](OnReferences::KeepCopy), or [clear the
    /// references](OnReferences::Clear).
    ///
    /// ```no_run
    /// # use mongo_patterns::ErrorKind;
    /// # use mongo_patterns::reference::{OnReferences, ReferenceRepository};
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// match orders.delete_source(456).await {
    ///     Err(error) if error.kind() == ErrorKind::Referenced => {
    ///         let deleted = orders.delete_source(456).on_references(OnReferences::KeepCopy).await?;
    ///         println!("{} orders keep their copy", deleted.copies);
    ///     }
    ///     done => drop(done?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A concurrent [`insert`](Self::insert) or [`set_reference`](Self::set_reference) either returns first, and this call
    /// finds its reference, or it fails with [`NotFound`].
    ///
    /// It looks for references also if the source does not exist. Then [`Referenced`] tells that another program has deleted
    /// the source, and `found: false` that nothing is left of it.
    // proof: together::through::a_source_that_does_not_exist_may_be_referred_to
    ///
    /// # Through another repository
    /// [`through`](DeleteSource::through) a trash, a history, or a repository of children, that repository deletes the
    /// source, in a transaction. A trash keeps the source with its version: after `restore`, kept copies are current again
    /// with [`refresh_copies`](Self::refresh_copies) or a [follower](Self::follow).
    // proof: together::through::of_deletions_beside_inserts_no_removed_source_has_references,
    // together::kept::a_source_whose_copies_were_kept_is_restored
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Trash;
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # async fn f(orders: ReferenceRepository<i32, i32>, trash: Trash<i32>) -> mongo_patterns::Result<()> {
    /// let deleted = orders.delete_source(456).through(&trash).await?;
    /// assert!(deleted.found); // in the trash, and no order refers to it
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// If a further pattern has parts of the source, the call is refused without that pattern's repository. A product with
    /// reviews and a history is deleted by `delete_source(id).through(&reviews).through(&history)`. A trash or a history is
    /// the last one.
    // proof: together::chain::what_depends_on_a_document_is_never_left, together::chain::nothing_is_left_beside_writers_of_all_patterns
    ///
    /// # Cost
    /// Two round trips, and one for each reference field. For the other rules one less, and the server updates all copies.
    /// Through another repository one more, and the cost of its deletion. The first call of a repository checks the indexes,
    /// with one more for each referring collection.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, a new reference in another transaction conflicts with it. A reference outside of
    /// transactions does not, and can be left after the commit: [`verify`](Self::verify) finds it.
    ///
    /// # Cancel safety
    /// The source is deleted or not. A source that is not deleted can keep the field `mongo_patterns_deleting`, which has no
    /// effect. For the other rules, references can be left: call it again with the same rule.
    ///
    /// # Errors
    /// - [`Referenced`]: a document refers to the source.
    /// - [`SettingsMismatch`]: parts of the source in a further pattern would be left.
    /// - [`InvalidArgument`]: the other repository is of other documents.
    /// - The errors of the other repository.
    ///
    /// After an error with a [`stored_count`](mongo_patterns_core::Error::stored_count) of 1 the source is deleted, and
    /// references can be left.
    pub fn delete_source(&self, source: impl IntoId) -> DeleteSource<'_> {
        DeleteSource::create(
            self.shared(),
            DocumentId::new(source),
            OnReferences::Restrict,
            Vec::new(),
        )
    }
}

action! {
    /// Deletes a source; returned by [`ReferenceRepository::delete_source`].
    pub struct DeleteSource<'a> {
        shared: &'a Shared,
        source: Result<DocumentId>,
        rule: OnReferences,
        through: Vec<&'a dyn Deletes>,
    }
    with session;

    /// Sets what happens to the references to the source; [`Restrict`](OnReferences::Restrict) by default.
    on_references(rule: OnReferences) => rule = rule;

    "delete_source" => DeletedSource
}

impl<'a> DeleteSource<'a> {
    /// Deletes the source through another repository of the same documents, such as a trash, which keeps it.
    ///
    /// See [`delete_source`](ReferenceRepository::delete_source).
    pub fn through(mut self, repository: &'a dyn Deletes) -> Self {
        self.through.push(repository);
        self
    }

    async fn execute(self) -> Result<DeletedSource> {
        let id = &self.source?.into_bson();
        let Self {
            shared, mut through, ..
        } = self;
        let own = (&shared.sources, "_id", Place::References);
        through::prepare(own, shared.others(), &mut through).await?;
        let through = &through;
        delete(Deletion { shared, id, through }, self.rule, self.session).await
    }
}
