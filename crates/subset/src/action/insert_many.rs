use std::collections::HashSet;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Result, document_id};
use mongodb::ClientSession;
use mongodb::bson::Bson;
use serde::Serialize;

use crate::SubsetRepository;
use crate::form::child::Child;
use crate::repository::Shared;
use crate::write::{Change, Write};

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Inserts children, of one parent or of several, and writes each parent once.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let now = DateTime::now();
    /// let nice = doc! { "review_id": 785, "product_id": 1, "review_text": "Nice.", "published_date": now };
    /// let amazing = doc! { "review_id": 786, "product_id": 1, "review_text": "Amazing.", "published_date": now };
    /// let inserted = products.insert_many(&[nice, amazing]).await?;
    /// println!("{} reviews stored, {} products written", inserted.children, inserted.parents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): all in one transaction, so all is stored or nothing. The
    ///   server ends it after 60 seconds: insert thousands in several calls.
    /// - [`Eventual`](crate::Consistency::Eventual): the children first, in their order. When one is refused, those before
    ///   it are stored, their parents are written, and the error says [how many](mongo_patterns_core::Error::stored_count).
    ///
    /// # Cost
    /// One round trip for the children, or more beyond 48 MB, and three a parent. In a transaction one more.
    ///
    /// # Cancel safety
    /// - [`Transactional`](crate::Consistency::Transactional): it has no effect, unless its commit had begun; then it
    ///   is done as a whole.
    /// - [`Eventual`](crate::Consistency::Eventual): a prefix of the children may be stored, and some or all of their
    ///   parents not be written, as by [`insert`](Self::insert).
    ///
    /// Call it again: `AlreadyExists` says that some are stored, and that their parents are right. Then insert those
    /// that [`child`](Self::child) does not find. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert). A parent that does not exist, and a child that cannot be one, are found before
    /// anything is stored.
    pub fn insert_many<'a>(&'a self, children: &'a [C]) -> InsertMany<'a, C> {
        InsertMany {
            shared: self.shared(),
            children,
            session: None,
        }
    }
}

/// Inserts children; made by [`SubsetRepository::insert_many`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// #     reviews: Vec<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// products.insert_many(&reviews).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct InsertMany<'a, C> {
    shared: &'a Shared,
    children: &'a [C],
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(InsertMany<'_, C>);

/// What was inserted.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     reviews: Vec<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let inserted = products.insert_many(&reviews).await?;
/// println!("{} reviews stored, {} products written", inserted.children, inserted.parents);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertedMany {
    /// How many children.
    pub children: u64,
    /// How many parents this call wrote.
    pub parents: u64,
}

impl<'a, C> InsertMany<'a, C> {
    /// Inserts in the caller's session. Where a transaction is under way in it, all happens in that transaction, whatever
    /// the consistency.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, C: Serialize> IntoFuture for InsertMany<'a, C> {
    type Output = Result<InsertedMany>;
    type IntoFuture = ActionFuture<'a, InsertedMany>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            children,
            session,
        } = self;
        let children = children.iter().map(|child| Child::of(&shared.settings, child));
        let children: Result<Vec<Child>> = children.collect();
        run(shared.operation("insert_many"), move |_| async move {
            let mut parents: Vec<Bson> = Vec::new();
            let mut documents = Vec::new();
            let mut seen = HashSet::new();
            for Child { parent, document, .. } in children? {
                if seen.insert(document_id::text(&parent)) {
                    parents.push(parent);
                }
                documents.push(document);
            }
            let children = documents.len() as u64;
            if children == 0 {
                return Ok(InsertedMany::default());
            }
            let write = Write {
                shared,
                parents: &parents,
                child: None,
                change: Change::Insert(documents),
            };
            let mut session = Session::of_caller(session).await?;
            let written = write.run(session.as_mut()).await?;
            Ok(InsertedMany {
                children,
                parents: written.parents,
            })
        })
    }
}
