//! The calls that write.

use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{AlreadyExists, Contention, Corrupt, NotFound, TooLarge, Unsupported};
use mongo_patterns_core::ErrorKind::{Configuration, InvalidArgument};
use mongo_patterns_core::action::Write;
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::update::{Operators, check_path, failed};
use mongo_patterns_core::{DocumentId, Error, Inserted, IntoId, Removed, Result, Updated};
use mongodb::bson::Document;
use mongodb::options::UpdateModifications;
use serde::Serialize;

use crate::form::split::Split;
use crate::read::check_compared;
use crate::repository::OutlierRepository;
use crate::results::{Pushed, PushedMany};
use crate::write::insert::insert;
use crate::write::joined::push;
use crate::write::push::{check_elements, push_many, push_one, refuse_unique};
use crate::write::remove::remove;
use crate::write::update::Update;

impl<D: Serialize, E> OutlierRepository<D, E> {
    /// Inserts a document. If it has more elements than the threshold, the others go to overflow documents, and the flag is
    /// set.
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::OutlierRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns::Result<()> {
    /// let book = doc! { "_id": 2, "title": "The Wooden Amulet", "customers_purchased": ["user00", "user01"] };
    /// let inserted = books.insert(&book).await?;
    /// assert_eq!(inserted.id, 2.into());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It stores all elements or nothing. A document with overflow documents is inserted in one transaction, which must fit
    /// into the server's cache. With 256 MB, MongoDB's smallest default, 80,000
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements) names fit and 100,000 did not: insert the first elements,
    /// and push the others.
    ///
    /// # Cost
    /// One round trip. For a document with overflow documents about four, and more for more than 100 of them.
    ///
    /// # Cancel safety
    /// The document is stored or not. Call it again: `AlreadyExists` means that it is stored. Without an `_id`, a second
    /// call may store it twice.
    ///
    /// # Errors
    /// - [`AlreadyExists`]: a document with its `_id` exists.
    /// - [`InvalidArgument`]: its array field is not an array, or an element is undefined. If elements are
    ///   [unique](crate::OutlierRepositoryBuilder::unique_elements), also an element that is an array or a duplicate.
    /// - [`Corrupt`]: its `_id` has orphaned overflow documents: [`repair`](Self::repair) them.
    /// - [`Contention`]: also without other writers, if the transaction is too large for the server's cache.
    pub fn insert(&self, document: &D) -> Write<'_, Inserted> {
        let shared = self.shared();
        let split = Split::new(&shared.settings, document);
        Write::new(shared.operation("insert"), async move |session| {
            let split = split?;
            let mut conn = shared.enter(&split.id, session).await?;
            insert(shared, &split, &mut conn).await?;
            Ok(Inserted::new(split.id))
        })
    }
}

impl<D, E> OutlierRepository<D, E> {
    /// Pushes an element to a list: to the array of the main document, or, beyond the threshold, to an overflow document.
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::{OutlierRepository, Pushed};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let pushed = books.push(2, "user50").await?;
    /// if pushed == Pushed::Overflow {
    ///     println!("the book is an outlier");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the element is stored once, to the collections' write concern, and every reader of this crate sees
    /// it. After an error it is not stored, unless [`is_outcome_unknown`](Error::is_outcome_unknown).
    ///
    /// For any number of concurrent writers, the array never exceeds the threshold, and an overflow document never exceeds
    /// its bound.
    ///
    /// # Cost
    /// One round trip for a typical document and for a [known outlier](crate#known-outliers), three for any other outlier. A
    /// new overflow document takes four more, once for `max_overflow_elements` elements. Concurrent pushes to one list share
    /// commands: see [lanes](crate#lanes).
    ///
    /// # Sessions and transactions
    /// In a session, a push to an outlier takes two round trips. Without a transaction, overflow documents are opened in one
    /// of their own, and later reads in the session see them.
    ///
    /// # Cancel safety
    /// The element is stored or not. If it is not, the flag may be set without overflow documents: readers see the same
    /// list, and [`refresh`](Self::refresh) clears the flag. A second call may store the element twice;
    /// [`push_unique`](Self::push_unique) does not.
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    /// - [`InvalidArgument`]: an invalid element.
    /// - [`TooLarge`]: the element does not fit, alone or with the array.
    /// - [`Corrupt`]: the array field is not an array.
    /// - [`Unsupported`]: the array is full, and the server is a standalone.
    /// - [`Configuration`]: elements are [unique](crate::OutlierRepositoryBuilder::unique_elements): call
    ///   [`push_unique`](Self::push_unique).
    pub fn push<Q>(&self, id: impl IntoId, element: &Q) -> Write<'_, Pushed>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let (shared, id, element) = (self.shared(), DocumentId::new(id), Encoded::one(element));
        Write::new(shared.operation("push"), async move |session| {
            refuse_unique(&shared.settings)?;
            let (id, element) = (id?.into_bson(), element?);
            match session {
                None => push(shared, &id, element).await,
                session => {
                    let mut conn = shared.enter(&id, session).await?;
                    push_one(shared, &id, &element, false, &mut conn).await
                }
            }
        })
    }
}

impl<D, E: Serialize> OutlierRepository<D, E> {
    /// Pushes elements to a list, in order: to the array of the main document, then to overflow documents.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let customers = ["user49".to_owned(), "user50".to_owned()];
    /// let pushed = books.push_many(2, &customers).await?;
    /// println!("{} customers in the book, {} in overflow documents", pushed.inline, pushed.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, every element is stored once. After an error, a prefix of the elements is stored, whose length is
    /// [`stored_count`](Error::stored_count). Elements of other writers can be between them.
    ///
    /// # Cost
    /// One round trip if the array has room for all, or the newest overflow document of a [known
    /// outlier](crate#known-outliers). Three for any other outlier with room. Else four more for each 100 new overflow
    /// documents or 16 MiB.
    ///
    /// # Cancel safety
    /// A prefix of the elements is stored. The flag may be set without overflow documents, as by [`push`](Self::push). A
    /// second call may store elements twice: read the list first.
    ///
    /// # Errors
    /// - The errors of [`push`](Self::push).
    /// - [`NotFound`]: with a [`stored_count`](mongo_patterns_core::Error::stored_count) above 0, the document was deleted
    ///   or archived between two commands, with the stored elements.
    pub fn push_many(&self, id: impl IntoId, elements: &[E]) -> Write<'_, PushedMany> {
        let (shared, id, elements) = (self.shared(), DocumentId::new(id), Encoded::all(elements.iter()));
        Write::new(shared.operation("push_many"), async move |session| {
            refuse_unique(&shared.settings)?;
            let (id, elements) = (id?.into_bson(), elements?);
            check_elements(shared, &elements)?;
            if elements.is_empty() {
                return Ok(PushedMany::default());
            }
            let mut conn = shared.enter(&id, session).await?;
            push_many(shared, &id, &elements, &mut conn).await
        })
    }
}

impl<D, E> OutlierRepository<D, E> {
    /// Pushes an element to a list, unless the list has an equal element. Needs [unique
    /// elements](crate::OutlierRepositoryBuilder::unique_elements).
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::{OutlierRepository, Pushed};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let pushed = books.push_unique(2, "user00").await?;
    /// if pushed == Pushed::AlreadyThere {
    ///     println!("user00 has bought the book before");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the list has the element once, however many writers push it concurrently. It is idempotent: call it
    /// again after an [unknown outcome](Error::is_outcome_unknown), and after an error with a [number of stored
    /// elements](Error::stored_count), which means that the last check failed. Elements are equal as MongoDB compares
    /// values: 1 and 1.0 are, and documents with their fields in another order are not.
    ///
    /// # Cost
    /// As [`push`](Self::push), and one round trip more for an element in an overflow document. After a refresh that filled
    /// the array, the next push takes one more.
    ///
    /// # Cancel safety
    /// The element is stored or not: call it again. If a refresh moved an equal element at that moment, the list may have
    /// both until the next [`refresh`](Self::refresh). The flag may be set without overflow documents, as by
    /// [`push`](Self::push).
    ///
    /// # Errors
    /// - The errors of [`push`](Self::push).
    /// - [`Configuration`]: elements are not unique.
    /// - [`InvalidArgument`]: the element is an array, whose values the server would index one by one.
    pub fn push_unique<Q>(&self, id: impl IntoId, element: &Q) -> Write<'_, Pushed>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let (shared, id, element) = (self.shared(), DocumentId::new(id), Encoded::one(element));
        Write::new(shared.operation("push_unique"), async move |session| {
            if !shared.settings.unique {
                return Err(configuration(
                    "a unique push needs the index of the elements, nothing was stored: call unique_elements() on the builder",
                ));
            }
            let (id, element) = (id?.into_bson(), element?);
            let mut conn = shared.enter(&id, session).await?;
            push_one(shared, &id, &element, true, &mut conn).await
        })
    }
}

impl<D, E> OutlierRepository<D, E> {
    /// Removes every element of a list that is equal to this one, as MongoDB compares values. Idempotent.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let removed = books.remove(2, "user00").await?;
    /// if !removed.found {
    ///     println!("user00 has not bought the book");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Afterwards, the array can have room although there are overflow documents. Pushes do not fill it, so that no element
    /// moves while others read. [`refresh`](Self::refresh) fills it, and clears the flag if no overflow documents are left.
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier, and five for an outlier without such an element. The
    /// server examines all overflow documents of the list, or one if elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements).
    ///
    /// # Cancel safety
    /// Equal elements may be removed from the array only. Call it again: it removes the rest.
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    pub fn remove<Q>(&self, id: impl IntoId, element: &Q) -> Write<'_, Removed>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let (shared, id, element) = (self.shared(), DocumentId::new(id), Encoded::one(element));
        Write::new(shared.operation("remove"), async move |session| {
            let (id, element) = (id?.into_bson(), element?.to_bson()?);
            check_compared(&element)?;
            let mut conn = shared.enter(&id, session).await?;
            let found = remove(shared, &id, &element, &mut conn).await?;
            Ok(Removed::new(found))
        })
    }
}

impl<D, E> OutlierRepository<D, E> {
    /// Updates the first element of a list whose fields have these values by [operators](#operators). The elements must be
    /// documents.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), Document>) -> mongo_patterns::Result<()> {
    /// let user = doc! { "user": "user00" };
    /// books.update_element(2, user, doc! { "$inc": { "copies": 1 }, "$set": { "gift": true } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The first element is the first match of the array, or if there is none, of the overflow documents in their order.
    /// Others with the same values stay. The element keeps its position. Values are compared as by `$eq` in a find: numbers
    /// by value, null also with a missing field, and a value also with an array that contains it. A field can be a path,
    /// such as `shop.city`.
    ///
    /// If elements are values, such as strings, or are [unique](crate::OutlierRepositoryBuilder::unique_elements),
    /// [remove](Self::remove) one and push another.
    ///
    /// # Operators
    /// [All calls](mongo_patterns_core::action#operators) have the same operators. Paths are relative to the element.
    /// Concurrent increments all count, also while a refresh moves the element. A pipeline is refused.
    ///
    /// An update that changes a field of the match is not idempotent: it finds another element the next time.
    ///
    /// # Cost
    /// One round trip for an element of the array, and three for an element of an overflow document. If the list has no such
    /// element two, or six for an outlier. The server examines the overflow documents up to the element.
    ///
    /// # Cancel safety
    /// The update is applied to one element, or not at all. Call an idempotent update again. Otherwise read the element
    /// first.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a refused update, or an update that does not suit the stored element, such as `$inc` of a
    ///   text. Or a match that is empty or contains undefined or an invalid path.
    /// - [`Configuration`]: elements are unique.
    /// - [`NotFound`]: the document does not exist, or has no such element.
    pub fn update_element(
        &self,
        id: impl IntoId,
        fields: Document,
        update: impl Into<UpdateModifications>,
    ) -> Write<'_, Updated> {
        let (shared, id, update) = (self.shared(), DocumentId::new(id), update.into());
        Write::new(shared.operation("update_element"), async move |session| {
            let id = id?.into_bson();
            if shared.settings.unique {
                return Err(Error::new(
                    Configuration,
                    "the elements are unique, and an update could make two equal, nothing was sent: remove the element and push the new one, or build the repository without unique_elements()",
                ));
            }
            check_fields(&fields)?;
            let operators = Operators::of_element(update, &[])?;
            let mut conn = shared.enter(&id, session).await?;
            let update = Update {
                shared,
                id: &id,
                fields: &fields,
                operators: &operators,
            };
            let modified = update.update(&mut conn).await;
            Ok(Updated::new(modified.map_err(failed)?))
        })
    }
}

/// Refuses a match that no element has, or all elements have.
fn check_fields(fields: &Document) -> Result<()> {
    if fields.is_empty() {
        return Err(Error::new(
            InvalidArgument,
            "the match names no field, nothing was sent: name the fields of the element",
        ));
    }
    for (path, value) in fields {
        check_path(path, &[])?;
        check_compared(value)?;
    }
    Ok(())
}
