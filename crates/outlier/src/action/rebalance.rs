use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::Bson;

use crate::repair::fix::{Mending, Unrepaired};
use crate::repair::rewrite::rewrite;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::write::push::not_found;

impl<D, E> OutlierRepository<D, E> {
    /// Puts the elements of a document where they belong, after [removals](Self::remove): its array is filled from the
    /// extras, all extras but the last one are full, and the flag goes where no extras are left.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// books.remove(2, &"user00".to_owned()).await?;
    /// let rebalanced = books.rebalance(2).await?; // user50 comes into the book
    /// println!("{} customers in the book, {} in extras", rebalanced.inline, rebalanced.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is one transaction, so others may write meanwhile, and nobody who reads in a transaction sees it halfway. The
    /// order of the elements stays. Where elements are [unique](crate::OutlierRepositoryBuilder::unique_elements), one that is
    /// there twice is there once then. The array grows up to some 8 MiB. Where all is as it should be, nothing is
    /// written.
    ///
    /// # Cost
    /// Three round trips where nothing is to be done, and else some ten. All extras of the document are read into memory,
    /// and those that change are written in one transaction, which the server ends after 60 seconds.
    ///
    /// # In a session
    /// It is part of the transaction that is under way there. Nothing is retried, and the caller commits.
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun; then it is done as a whole. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`](ErrorKind::NotFound), [`InvalidArgument`](ErrorKind::InvalidArgument) for what
    /// cannot be an `_id`, [`Unsupported`](ErrorKind::Unsupported) on a standalone server, and when an extras document
    /// would go away that has fields of your own, [`Corrupt`](ErrorKind::Corrupt) when elements are no array,
    /// [`TooLarge`](ErrorKind::TooLarge), and [`Contention`](ErrorKind::Contention).
    pub fn rebalance(&self, id: impl IntoId) -> Rebalance<'_> {
        Rebalance {
            shared: self.shared(),
            id: DocumentId::new(id),
            session: None,
        }
    }
}

/// Puts elements where they belong; made by [`OutlierRepository::rebalance`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// books.rebalance(2).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Rebalance<'a> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Rebalance<'_>);

/// Where the elements of a document are after a rebalance.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let rebalanced = books.rebalance(2).await?;
/// if rebalanced.modified {
///     println!("{} in the book, {} in extras", rebalanced.inline, rebalanced.overflow);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebalanced {
    /// How many elements are in the array of the main document.
    pub inline: u64,
    /// How many elements are in the extras.
    pub overflow: u64,
    /// Whether anything was written.
    pub modified: bool,
}

impl<'a> Rebalance<'a> {
    /// Rebalances in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for Rebalance<'a> {
    type Output = Result<Rebalanced>;
    type IntoFuture = ActionFuture<'a, Rebalanced>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, id, session } = self;
        run(shared.operation("rebalance"), |_| async move {
            let id = id?.into_bson();
            let mut session = Session::of_caller(session).await?;
            let mending = rewrite(shared, &id, false, session.as_mut()).await?;
            if !mending.found {
                return Err(not_found());
            }
            if let Some(left) = mending.left {
                return Err(refused(left, &mending, &id));
            }
            Ok(Rebalanced {
                inline: mending.inline,
                overflow: mending.overflow,
                modified: !mending.is_empty(),
            })
        })
    }
}

/// Why nothing was changed.
pub(super) fn refused(left: Unrepaired, mending: &Mending, id: &Bson) -> Error {
    let kind = match left {
        Unrepaired::OwnFields | Unrepaired::NeedsTransaction => ErrorKind::Unsupported,
        Unrepaired::TooLarge => ErrorKind::TooLarge,
        Unrepaired::ArrayNotArray | Unrepaired::ElementsNotArray | Unrepaired::Orphaned => ErrorKind::Corrupt,
    };
    let about = mending.findings.iter().find(|finding| finding.problem.is_left());
    let document_id = about.map_or(id, |finding| &finding.document_id).clone();
    Error::new(kind, format!("nothing of the document was changed: {left}")).at(document_id, "_id")
}
