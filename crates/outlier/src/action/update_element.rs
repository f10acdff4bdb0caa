use mongo_patterns_core::update::{Operators, check_path, failed};
use mongodb::options::UpdateModifications;

use super::prelude::*;
use crate::read::check_compared;
use crate::write::update::Update;

impl<D, E> OutlierRepository<D, E> {
    /// Updates the first element of a list whose fields have these values by [operators](#operators). The elements must be
    /// documents.
    ///
    /// ```no_run
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), Document>) -> mongo_patterns_core::Result<()> {
    /// let user = doc! { "user": "user00" };
    /// books.update_element(2, user, doc! { "$inc": { "copies": 1 }, "$set": { "gift": true } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The first element is that of the smallest position: in the array, and then in the overflow documents in their order.
    /// Others with the same values stay. The element keeps its position. Values are compared as by `$eq` in a find: numbers
    /// by value, null also with a missing field, and a value also with an array that has it. A field can be a path, such as
    /// `shop.city`.
    ///
    /// Elements that are values, such as strings, have no fields: [remove](Self::remove) one and push another. The same holds
    /// where elements are [unique](crate::OutlierRepositoryBuilder::unique_elements), because an update could make two equal.
    ///
    /// # Operators
    /// `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$currentDate`, `$push`, `$pull` and `$addToSet`, with MongoDB's
    /// meanings. Their paths are relative to the element. The server applies them in one atomic command: concurrent
    /// increments all count, also while a rebalance moves the element. As in the driver, a document with `$each` in a `$push`
    /// or `$addToSet` is a modifier, and the value of a `$pull` is a condition.
    ///
    /// Refused, with nothing sent: a document without operators, other operators, a pipeline, which the server applies to
    /// whole documents only, positional operators in paths (`$`, `$[]`, `$[x]`), and two paths of which one contains the
    /// other.
    ///
    /// An update with `$inc`, `$mul` or `$push` is not idempotent. Nor is one that changes a field of the match, after which
    /// it finds another element.
    ///
    /// # Cost
    /// One round trip for an element of the array, and three for one of an overflow document: the array, the flag, and the
    /// overflow document. If the list has no such element two, or six for an outlier: a read in one snapshot, because a
    /// rebalance may move elements concurrently. The server examines the overflow documents before that of the element.
    ///
    /// # Cancel safety
    /// The update is applied to one element, or not at all. Call an idempotent update again; read the element before you call
    /// another one again. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`InvalidArgument`] for the refused updates above, for a match that is empty or has undefined or an
    /// invalid path, and for an invalid `_id`; [`Configuration`] where elements are unique.
    ///
    /// With nothing changed: [`NotFound`] when the document does not exist, or has no such element; [`InvalidArgument`] when
    /// the update does not suit the stored element, such as `$inc` of a text, [`IndexMissing`], [`TooLarge`] and
    /// [`Contention`].
    pub fn update_element(
        &self,
        id: impl IntoId,
        fields: Document,
        update: impl Into<UpdateModifications>,
    ) -> UpdateElement<'_> {
        UpdateElement::create(self.shared(), DocumentId::new(id), fields, update.into())
    }
}

action! {
    /// Updates an element; returned by [`OutlierRepository::update_element`].
    pub struct UpdateElement<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        fields: Document,
        update: UpdateModifications,
    }
    with session;
    "update_element" => Updated
}

impl UpdateElement<'_> {
    async fn execute(self) -> Result<Updated> {
        let Self { shared, fields, .. } = self;
        let id = self.id?.into_bson();
        if shared.settings.unique {
            return Err(Error::new(
                Configuration,
                "the elements are unique, and an update could make two equal, nothing was sent: remove the element and push the new one, or build the repository without unique_elements()",
            ));
        }
        check_fields(&fields)?;
        let operators = Operators::of_element(self.update, &[])?;
        let mut conn = shared.enter(&id, self.session).await?;
        let update = Update {
            shared,
            id: &id,
            fields: &fields,
            operators: &operators,
        };
        let modified = update.run(&mut conn).await;
        Ok(Updated::new(modified.map_err(failed)?))
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
