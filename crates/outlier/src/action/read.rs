//! The calls that read.

use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, NotFound};
use mongo_patterns_core::action::{Find, Read};
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::bson::{Document, RawDocument};
use mongodb::options::FindOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::form::document::{decode_main, elements_of, is_flagged, is_true, number, whole};
use crate::query;
use crate::read::{check_compared, contains};
use crate::repository::OutlierRepository;
use crate::results::{Counts, StoredDocument, not_found};
use crate::settings::Settings;

impl<D, E> OutlierRepository<D, E> {
    /// Returns whether a list has an element that is equal to this one, as MongoDB compares values.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// if books.contains(2, "user00").await? {
    ///     println!("user00 has bought the book");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip if the array has the element or there are no overflow documents, else two. The second one examines all
    /// overflow documents of the list, or one if elements are [unique](crate::OutlierRepositoryBuilder::unique_elements).
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    pub fn contains<Q>(&self, id: impl IntoId, element: &Q) -> Read<'_, bool>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let (shared, id, element) = (self.shared(), DocumentId::new(id), Encoded::one(element));
        Read::new(shared.operation("contains"), async move |mut conn| {
            let element = element?.to_bson()?;
            check_compared(&element)?;
            contains(shared, &id?.into_bson(), &element, &mut conn).await
        })
    }
}

impl<D, E> OutlierRepository<D, E> {
    /// Counts the elements of a list.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let counts = books.count(2).await?;
    /// println!("{} customers, {} of them in overflow documents", counts.total(), counts.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier. No element is sent.
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    pub fn count(&self, id: impl IntoId) -> Read<'_, Counts> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("count"), async move |mut conn| {
            let (main, overflow, settings) = shared.parts();
            let id = id?.into_bson();
            let size = query::project(query::main_size(settings));
            let found = conn.find_one(main, query::by_id(&id), size).await?;
            let found = found.ok_or_else(not_found)?;
            let mut counts = Counts {
                inline: number(&found, "size") as u64,
                overflow: 0,
            };
            if is_true(&found, "flagged") {
                let pipeline = query::overflow_total(settings, &id);
                let total = conn.aggregate_all(overflow, pipeline, None).await?;
                counts.overflow = total.first().map_or(0, |total| number(total, "size")) as u64;
            }
            Ok(counts)
        })
    }
}

impl<D: DeserializeOwned, E> OutlierRepository<D, E> {
    /// Reads a document with at most the threshold of its elements, and whether there are more. `None` when the
    /// document does not exist.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<i32, String>) -> mongo_patterns::Result<()> {
    /// if let Some(book) = books.get(2).await? {
    ///     let more = if book.has_extras { "and more" } else { "all of them" };
    ///     println!("{}: {more}", book.document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and one document, however long the list is.
    pub fn get(&self, id: impl IntoId) -> Read<'_, Option<StoredDocument<D>>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("get"), async move |mut conn| {
            let settings = &shared.settings;
            let filter = query::by_id(&id?.into_bson());
            let main = conn.find_one(&shared.main, filter, None).await?;
            main.map(|main| decode_stored(settings, &main)).transpose()
        })
    }

    /// Finds documents by a filter on the main documents, and reads each as [`get`](Self::get) does.
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::OutlierRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns::Result<()> {
    /// for book in books.find(doc! { "author": "Kate Chopin" }).sort(doc! { "title": 1 }).await? {
    ///     println!("{}, and more: {}", book.document, book.has_extras);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A filter on the elements of the array does not find an element that is in an overflow document: use
    /// [`contains`](Self::contains).
    ///
    /// # Cost
    /// One round trip for each batch of the cursor. An index of your own serves the filter.
    pub fn find(&self, filter: Document) -> Find<'_, StoredDocument<D>> {
        let shared = self.shared();
        let settings = &shared.settings;
        Find::new(shared.operation("find"), filter, |main| decode_stored(settings, main))
    }
}

/// Decodes a main document, with its flag.
fn decode_stored<D: DeserializeOwned>(settings: &Settings, main: &RawDocument) -> Result<StoredDocument<D>> {
    Ok(StoredDocument {
        has_extras: is_flagged(settings, main),
        document: decode_main(main)?,
    })
}

impl<D: DeserializeOwned, E> OutlierRepository<D, E> {
    /// Reads a document with all its elements in its array, in order. `None` when the document does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::OutlierRepository;
    /// # #[derive(serde::Deserialize)]
    /// # struct Book { customers_purchased: Vec<String> }
    /// # async fn f(books: OutlierRepository<Book, String>) -> mongo_patterns::Result<()> {
    /// if let Some(book) = books.get_full(2).await? {
    ///     println!("{} customers", book.customers_purchased.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The document has every element whose push returned before the call. If a [`refresh`](Self::refresh) or
    /// [`migrate_existing`](Self::migrate_existing) moves elements of this list concurrently, the result can have some
    /// elements twice, or not at all. Read in a transaction where that matters.
    ///
    /// # Cost
    /// One round trip for a typical document. For an outlier one more, and one for each further 16 MB. The whole list is
    /// held in memory: [`elements`](Self::elements) streams.
    ///
    /// # Errors
    /// - The errors of [`get`](Self::get).
    /// - [`Corrupt`]: elements are not an array.
    pub fn get_full(&self, id: impl IntoId) -> Read<'_, Option<D>> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Read::new(shared.operation("get_full"), async move |mut conn| {
            let (main, in_overflow, settings) = shared.parts();
            let id = id?.into_bson();
            let Some(main) = conn.find_one(main, query::by_id(&id), None).await? else {
                return Ok(None);
            };
            drop(elements_of(&main, settings.array.as_str())?);
            if !is_flagged(settings, &main) {
                return decode_main(&main).map(Some);
            }
            let in_order = FindOptions::builder().sort(query::by_position(settings)).build();
            let filter = query::overflow_of(settings, &id);
            let overflow = conn.find_all(in_overflow, filter, in_order).await?;
            let whole = whole(settings, &main, &overflow).map_err(|error| error.of_collection(in_overflow))?;
            decode_main(&whole).map(Some)
        })
    }
}
