//! The calls that read.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::NewerVersion;
use mongo_patterns_core::action::{Find, Read};
use mongo_patterns_core::{DocumentId, IntoId};
use mongodb::bson::Document;
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::form::child_id::ChildId;
use crate::form::document::{decode_child, decode_parent};
use crate::query;
use crate::repository::EmbeddedRepository;

impl<P, C: DeserializeOwned> EmbeddedRepository<P, C> {
    /// Reads one child of a parent. `None` when there is no such parent or child.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # async fn f(patrons: EmbeddedRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// if let Some(home) = patrons.child("joe", "home").await? {
    ///     println!("{home}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip; the server examines one document and sends the one child.
    ///
    /// # Errors
    /// - [`NewerVersion`]: the parent is [migrated to a subset](crate#migrations).
    pub fn child(&self, parent: impl IntoId, child_id: impl IntoId) -> Read<'_, Option<C>> {
        let (shared, parent, child) = (
            self.shared(),
            DocumentId::new(parent),
            child_id.into_id().and_then(ChildId::new),
        );
        Read::new(shared.operation("child"), async move |mut conn| {
            let (collection, settings) = (&shared.collection, &shared.settings);
            let (parent, child) = (parent?, child?);
            let only = FindOneOptions::builder()
                .projection(query::only_and_version(settings, &child))
                .collation(query::exact())
                .build();
            let stored = conn.find_one(collection, query::parent(&parent), only).await?;
            stored.map_or(Ok(None), |stored| decode_child(settings, &stored))
        })
    }
}

impl<P: DeserializeOwned, C> EmbeddedRepository<P, C> {
    /// Reads a parent with all its children. `None` when there is no parent with this `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # #[derive(serde::Deserialize)]
    /// # struct Patron { name: String, addresses: Vec<Document> }
    /// # async fn f(patrons: EmbeddedRepository<Patron, ()>) -> mongo_patterns::Result<()> {
    /// if let Some(joe) = patrons.get("joe").await? {
    ///     println!("{} has {} addresses", joe.name, joe.addresses.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip; the server examines one document.
    ///
    /// # Errors
    /// - [`NewerVersion`]: the parent is [migrated to a subset](crate#migrations), and no longer has all of its children.
    pub fn get(&self, id: impl IntoId) -> Read<'_, Option<P>> {
        let (shared, parent) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("get"), async move |mut conn| {
            let (collection, settings) = (&shared.collection, &shared.settings);
            let filter = query::parent(&parent?);
            let stored = conn.find_one(collection, filter, None).await?;
            stored.map(|stored| decode_parent(settings, &stored)).transpose()
        })
    }

    /// Finds parents by a filter on any fields, and reads each as [`get`](Self::get) does.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, ()>) -> mongo_patterns::Result<()> {
    /// for patron in patrons.find(doc! { "addresses.city": "Boston" }).sort(doc! { "name": 1 }).limit(20).await? {
    ///     println!("{patron}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for each batch of the cursor. An index of your own serves the filter.
    ///
    /// # Errors
    /// - [`NewerVersion`]: a parent is [migrated to a subset](crate#migrations). A filter on children does not match
    ///   children that a subset no longer embeds.
    pub fn find(&self, filter: Document) -> Find<'_, P> {
        let shared = self.shared();
        let settings = &shared.settings;
        Find::new(shared.operation("find"), filter, |parent| {
            decode_parent(settings, parent)
        })
    }
}
