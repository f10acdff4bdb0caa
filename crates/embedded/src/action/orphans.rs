use std::fmt;
use std::pin::Pin;

use futures::{Stream, TryStreamExt, stream};
use mongo_patterns_core::{Error, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, RawDocumentBuf};

use crate::EmbeddedRepository;
use crate::migrate::from_references::FromReferences;
use crate::migrate::run::{aggregate, check_settings};
use crate::repository::Shared;

impl<P, C> EmbeddedRepository<P, C> {
    /// The documents of a collection that refer to no parent, which
    /// [`move_from_references`](Self::move_from_references) leaves there: their reference names none, is missing, or is an
    /// array.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>)
    /// # -> mongo_patterns_core::Result<()> {
    /// let mut orphans = patrons.orphans(&addresses, "patron_id").stream();
    /// while let Some(orphan) = orphans.try_next().await? {
    ///     println!("{} refers to no patron: {:?}", orphan.document_id, orphan.reference);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One aggregation. The server reads every document, and looks up its parent by `_id`.
    ///
    /// # Errors
    /// Those of the names and collections of [`move_from_references`](Self::move_from_references), and those of the
    /// driver, as the last item of the stream.
    pub fn orphans<D: Send + Sync>(&self, source: &Collection<D>, reference: impl Into<String>) -> Orphans<'_> {
        Orphans {
            shared: self.shared(),
            source: source.clone_with_type(),
            reference: reference.into(),
        }
    }
}

/// Lists what refers to no parent; made by [`EmbeddedRepository::orphans`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::{EmbeddedRepository, Orphan};
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let orphans: Vec<Orphan> = patrons.orphans(&addresses, "patron_id").stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it does nothing until its stream is read"]
pub struct Orphans<'a> {
    shared: &'a Shared,
    source: Collection<RawDocumentBuf>,
    reference: String,
}

/// A document that refers to no parent. Both are user values: take care where you log them.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let mut orphans = patrons.orphans(&addresses, "patron_id").stream();
/// while let Some(orphan) = orphans.try_next().await? {
///     println!("{} refers to {:?}", orphan.document_id, orphan.reference);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Orphan {
    /// The `_id` of the document.
    pub document_id: Bson,
    /// What is in the field of the reference; `None` when it is missing.
    pub reference: Option<Bson>,
}

/// Does not show the reference.
impl fmt::Debug for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orphan")
            .field("document_id", &self.document_id)
            .finish_non_exhaustive()
    }
}

/// A stream of orphans; made by [`Orphans::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongo_patterns_embedded::action::OrphanStream;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let mut orphans: OrphanStream<'_> = patrons.orphans(&addresses, "patron_id").stream();
/// let has_orphans = orphans.try_next().await?.is_some();
/// # Ok(())
/// # }
/// ```
pub type OrphanStream<'a> = Pin<Box<dyn Stream<Item = Result<Orphan>> + Send + 'a>>;

impl<'a> Orphans<'a> {
    /// The stream. It sends nothing before it is read.
    pub fn stream(self) -> OrphanStream<'a> {
        let Shared { collection, settings } = self.shared;
        let operation = self.shared.operation("orphans");
        let orphans = async move {
            let child_id = &settings.child_id;
            let reference = check_settings(collection, &self.source, collection, self.reference, child_id)?;
            let stages = FromReferences::orphans(collection.name(), &reference);
            let cursor = aggregate(&self.source, stages).await?;
            let orphans = cursor.map_err(Error::from).map_ok(|mut row| Orphan {
                document_id: row.remove("_id").unwrap_or(Bson::Null),
                reference: row.remove("r"),
            });
            Ok::<_, Error>(orphans)
        };
        Box::pin(
            stream::once(orphans)
                .try_flatten()
                .map_err(move |error: Error| operation.name(error)),
        )
    }
}
