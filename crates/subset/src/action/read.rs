//! Reads of a parent, a child, and lists of children.

use mongo_patterns_core::action::{Find, Read};
use mongo_patterns_core::list::List;
#[allow(unused_imports)] // the links of the documentation use the kinds
use mongo_patterns_core::{DocumentId, ErrorKind::*, IntoId};
use mongodb::bson::Document;
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::form::child::decode;
use crate::form::token::ChildToken;
use crate::query::{self, options};
use crate::read::page::Children;
use crate::repository::{Shared, SubsetRepository};

impl<P: DeserializeOwned, C> SubsetRepository<P, C> {
    /// Reads a parent with the first of its children. `None` if it does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # #[derive(serde::Deserialize)]
    /// # struct Product { name: String, reviews: Vec<Document> }
    /// # async fn f(products: SubsetRepository<Product, ()>) -> mongo_patterns::Result<()> {
    /// if let Some(product) = products.get(1).await? {
    ///     println!("{} and its {} newest reviews", product.name, product.reviews.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines one document, for any number of children.
    pub fn get(&self, parent: impl IntoId) -> Read<'_, Option<P>> {
        let (shared, parent) = (self.shared(), DocumentId::new(parent));
        Read::new(shared.operation("get"), async move |mut conn| {
            let filter = query::by_id(&parent?.into_bson());
            let found = conn.find_one(&shared.parents, filter, None).await?;
            found.map(|parent| decode(&parent)).transpose()
        })
    }

    /// Finds parents by a filter on any fields, and reads each as [`get`](Self::get) does, with the first of its children.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, ()>) -> mongo_patterns::Result<()> {
    /// let cheapest = products.find(doc! { "category": "sauces" }).sort(doc! { "price": 1 }).limit(20).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for each batch of the cursor. An index of your own serves the filter.
    pub fn find(&self, filter: Document) -> Find<'_, P> {
        let shared = self.shared();
        Find::new(shared.operation("find"), filter, decode)
    }
}

impl<P, C: DeserializeOwned> SubsetRepository<P, C> {
    /// Reads one child of a parent from the collection of the children. `None` if the child or the parent does not
    /// exist.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// if let Some(review) = products.child(1, 786).await? {
    ///     println!("{review}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines one document.
    pub fn child(&self, parent: impl IntoId, child_id: impl IntoId) -> Read<'_, Option<C>> {
        let shared = self.shared();
        let (parent, child) = (DocumentId::new(parent), DocumentId::new(child_id));
        Read::new(shared.operation("child"), async move |mut conn| {
            let Shared { children, settings, .. } = &**shared;
            let filter = query::child(settings, &parent?.into_bson(), &child?.into_bson());
            let options = FindOneOptions::builder().hint(options::child_hint(settings)).build();
            let found = conn.find_one(children, filter, options).await?;
            let child = found.map(|child| decode(&child)).transpose();
            child.map_err(|error| error.of_collection(children))
        })
    }

    /// Reads the children of a parent, as a [list](List) in the order of the first subset. Empty if the parent does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::{ChildToken, SubsetRepository};
    /// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let first = products.children(1).limit(50).page().await?;
    /// println!("{} reviews", first.items.len());
    /// if let Some(next) = first.next {
    ///     let link = format!("/reviews?after={next}");
    ///     let after: ChildToken = next.to_string().parse()?; // from the link
    ///     let second = products.children(1).limit(50).after(after).page().await?;
    ///     let back = products.children(1).limit(50).before(second.previous).page().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// To [poll](mongo_patterns_core::list#polling) for new children, choose the side on which they appear: the end if an
    /// ascending time orders them, and the start if the newest are first. A poller misses a child that is stored on the
    /// other side of its position, for example because a clock is late. It sees a child again if an update moves it past the
    /// position, and it sees no deletes. A change stream of the children reports all of these.
    ///
    /// # Cost
    /// One round trip for each page, which examines as many documents as it returns, and at most one more after a position.
    pub fn children(&self, parent: impl IntoId) -> List<'_, C, ChildToken> {
        let (shared, parent) = (self.shared(), DocumentId::new(parent));
        List::new(shared.operation("children"), Children::new(shared, parent, None))
    }

    /// Reads the children of a parent, as a [list](List) in the order of the subset with this field, if the subset's filter
    /// matches them. The first page begins with the children of the subset.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let most_helpful = products.children_of_subset(1, "helpful_reviews").limit(50).page().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`children`](Self::children). If the subset has a filter, it also examines children that do not match.
    ///
    /// # Errors
    /// - The errors of [`children`](Self::children).
    /// - [`InvalidArgument`]: an unknown subset.
    pub fn children_of_subset(&self, parent: impl IntoId, field: &str) -> List<'_, C, ChildToken> {
        let (shared, parent) = (self.shared(), DocumentId::new(parent));
        let children = Children::new(shared, parent, Some(field));
        List::new(shared.operation("children_of_subset"), children)
    }
}
