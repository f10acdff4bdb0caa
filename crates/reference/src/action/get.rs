use std::marker::PhantomData;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::Corrupt;
use mongo_patterns_core::action::Find;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::{Document, doc};
use serde::de::DeserializeOwned;

use crate::form::document::decode;
use crate::query;
use crate::read::refresh;
use crate::repository::{ReferenceRepository, Shared};

impl<D: DeserializeOwned, S> ReferenceRepository<D, S> {
    /// Reads a document with its copies. `None` if it does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let order = orders.get(1).await?;
    /// let current = orders.get(1).max_staleness(0).await?; // with the current data of the customer
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines one document. With [`max_staleness`](Get::max_staleness) two: also the sources.
    ///
    /// # Errors
    /// - [`Corrupt`]: with `max_staleness`, the version of a source is not an integer.
    pub fn get(&self, id: impl IntoId) -> Get<'_, D> {
        Get::create(self.shared(), DocumentId::new(id), None, PhantomData)
    }

    /// Finds documents by a filter on any fields, also of their copies, and reads each as [`get`](Self::get) does.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let newest = orders.find(doc! { "customer._id": 456 }).sort(doc! { "_id": -1 }).limit(20).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The filter sees the stored copies, which a concurrent update of a source may not have reached yet.
    ///
    /// # Cost
    /// One round trip for each batch of the cursor. The index of a reference serves a filter by the `_id` of a source.
    pub fn find(&self, filter: Document) -> Find<'_, D> {
        let shared = self.shared();
        Find::new(shared.operation("find"), filter, decode)
    }
}

action! {
    /// Reads a document; returned by [`ReferenceRepository::get`].
    pub struct Get<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        max_staleness: Option<u32>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;

    /// Also reads the sources, and returns current data instead of copies that are more than this number of versions behind,
    /// or have no version. 0 returns current data only, also of a source that another program has changed without its
    /// version. Snapshots stay as they are, and so do copies whose source does not exist. Nothing is stored.
    max_staleness(versions: u32) => max_staleness = Some(versions);

    "get" => Option<D> where D: DeserializeOwned + 'a
}

impl<D: DeserializeOwned> Get<'_, D> {
    async fn execute(self) -> Result<Option<D>> {
        let (shared, id) = (self.shared, self.id?.into_bson());
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let document = conn.find_one(shared.documents(), query::by_id(&id), None).await?;
        let Some(document) = document else { return Ok(None) };
        let document = match self.max_staleness {
            None => document,
            Some(versions) => refresh(shared, document, versions, &mut conn).await?,
        };
        decode(&document).map(Some)
    }
}
