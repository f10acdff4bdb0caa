use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::ClientSession;

use crate::SubsetRepository;
use crate::repository::Shared;
use crate::write::unmanaged as unwritten;
use crate::write::{Change, Write};

impl<P, C> SubsetRepository<P, C> {
    /// Makes the subset of a parent anew from its children: after another program wrote them, or a write was broken off.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// products.children_collection().delete_many(doc! { "product_id": 1, "spam": true }).await?;
    /// let rebuilt = products.rebuild(1).await?;
    /// println!("{} reviews are left in the product", rebuilt.embedded);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It may run while others write. It is no transaction, and needs none: the parent is written only where nobody else
    /// has written it since its children were read.
    ///
    /// # Cost
    /// Three round trips, and up to seven more where others write to the parent meanwhile.
    ///
    /// # Cancel safety
    /// The subset is rebuilt or as it was. With [`discard_embedded`](Rebuild::discard_embedded), the children that are
    /// nowhere else may be given up, and still be shown. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when there is no such parent,
    /// [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated) when it holds children that are nowhere else (see
    /// [`discard_embedded`](Rebuild::discard_embedded)),
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an id, and
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing). Where the outcome is unknown, call it again.
    pub fn rebuild(&self, parent: impl IntoId) -> Rebuild<'_> {
        Rebuild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            discard_embedded: false,
            session: None,
        }
    }
}

/// Makes a subset anew; made by [`SubsetRepository::rebuild`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// products.rebuild(1).discard_embedded().session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Rebuild<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    discard_embedded: bool,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Rebuild<'_>);

/// What was rebuilt.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let rebuilt = products.rebuild(1).await?;
/// println!("{} reviews are in the product", rebuilt.embedded);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// How many children are embedded now.
    pub embedded: u64,
}

impl<'a> Rebuild<'a> {
    /// Also where children are embedded that are not in their collection, and that no repository embedded. They are gone
    /// then: say so where they are leftovers of a subset that was kept by hand.
    pub fn discard_embedded(mut self) -> Self {
        self.discard_embedded = true;
        self
    }

    /// Rebuilds in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for Rebuild<'a> {
    type Output = Result<Rebuilt>;
    type IntoFuture = ActionFuture<'a, Rebuilt>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            parent,
            discard_embedded,
            session,
        } = self;
        run(shared.operation("rebuild"), move |_| async move {
            let parent = parent?.into_bson();
            let mut session = Session::of_caller(session).await?;
            if discard_embedded {
                shared.check_indexes().await?;
                unwritten::discard(shared, Some(&parent), session.as_mut()).await?;
            }
            let write = Write {
                shared,
                parents: &[parent],
                child: None,
                change: Change::Nothing,
            };
            let embedded = write.rebuild(session.as_mut()).await?.embedded;
            Ok(Rebuilt { embedded })
        })
    }
}
