use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result, send};
use mongodb::ClientSession;
use mongodb::bson::Bson;
use mongodb::options::FindOneOptions;

use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::write::push::{integer, is_true, not_found};

impl<D, E> OutlierRepository<D, E> {
    /// How many elements a document has.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let counts = books.count(2).await?;
    /// println!("{} customers, {} of them in extras", counts.total(), counts.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier. The server examines the extras; no element is sent.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`](mongo_patterns_core::ErrorKind::NotFound), and
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an `_id`.
    pub fn count(&self, id: impl IntoId) -> Count<'_> {
        Count {
            shared: self.shared(),
            id: DocumentId::new(id),
            session: None,
        }
    }
}

/// Counts elements; made by [`OutlierRepository::count`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let counts = books.count(2).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Count<'a> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Count<'_>);

/// How many elements a document has.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let counts = books.count(2).await?;
/// println!("{} in the book, {} in extras, {} in all", counts.inline, counts.overflow, counts.total());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// In the array of the main document.
    pub inline: u64,
    /// In the extras.
    pub overflow: u64,
}

impl Counts {
    /// In all.
    pub fn total(self) -> u64 {
        self.inline + self.overflow
    }
}

impl<'a> Count<'a> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for Count<'a> {
    type Output = Result<Counts>;
    type IntoFuture = ActionFuture<'a, Counts>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, id, session } = self;
        run(shared.operation("count"), |_| async move {
            let mut session = Session::of_caller(session).await?;
            count(shared, &id?.into_bson(), session.as_mut()).await
        })
    }
}

async fn count(shared: &Shared, id: &Bson, mut session: Option<&mut Session<'_>>) -> Result<Counts> {
    let Shared {
        main,
        overflow,
        settings,
        ..
    } = shared;
    let size = FindOneOptions::builder().projection(query::size(settings)).build();
    let found = send::find_one(session.as_deref_mut(), main, query::by_id(id), size).await?;
    let found = found.ok_or_else(not_found)?;
    let number = |size: Option<i64>| size.and_then(|size| size.try_into().ok()).unwrap_or(0);
    let mut counts = Counts {
        inline: number(integer(&found, "size")),
        overflow: 0,
    };
    if !is_true(&found, "flagged") {
        return Ok(counts);
    }
    let sum = send::aggregate_all(session, overflow, query::extras_size(settings, id).into(), None).await?;
    counts.overflow = number(sum.first().and_then(|sum| integer(sum, "size")));
    Ok(counts)
}
