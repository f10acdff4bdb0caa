//! The calls that update by operators.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{ChildNotFound, GrandchildNotFound, InvalidArgument, NotFound};
use mongo_patterns_core::action::Write;
use mongo_patterns_core::update::Operators;
use mongo_patterns_core::{DocumentId, IntoId, Updated, update};
use mongodb::options::UpdateModifications;

use crate::form::child_id::ChildId;
use crate::form::grandchild::Grandchild;
use crate::query;
use crate::repository::EmbeddedRepository;
use crate::write::{ChildWrite, Needs};

impl<P, C> EmbeddedRepository<P, C> {
    /// Updates one child by [operators](#operators). Its other fields stay, also fields that another writer changes
    /// concurrently.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(patrons: mongo_patterns::embedded::EmbeddedRepository<(), ()>) -> mongo_patterns::Result<()> {
    /// let moved = doc! { "$set": { "city": "Faketon", "zip": "12345" }, "$unset": { "state": "" }, "$inc": { "moves": 1 } };
    /// patrons.update_child("joe", "home", moved).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Operators
    /// [All calls](mongo_patterns_core::action#operators) have the same operators. Paths are relative to the child, such as
    /// `geo.lat`, or `locations.0.n` for a position in an array. A pipeline, and a change of the child's id, are refused.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// All of the operators are applied, or none. Retry an idempotent update. Otherwise read the child first.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a refused update, or an update that does not suit the stored child, such as `$inc` of a text.
    /// - [`NotFound`]: there is no such parent.
    /// - [`ChildNotFound`]: the parent has no such child.
    pub fn update_child(
        &self,
        parent: impl IntoId,
        child_id: impl IntoId,
        update: impl Into<UpdateModifications>,
    ) -> Write<'_, Updated> {
        let (shared, parent, child, update) = (
            self.shared(),
            DocumentId::new(parent),
            child_id.into_id().and_then(ChildId::new),
            update.into(),
        );
        Write::new(shared.operation("update_child"), async move |session| {
            let settings = &shared.settings;
            let (parent, child) = (parent?, child?);
            let fixed = "the id of a child cannot be changed, and nothing was sent: remove the child and add another";
            let operators = Operators::of_element(update, &[(settings.child_id.as_str(), fixed)])?;
            let write = ChildWrite::new(shared, &parent, Needs::Child(&child));
            let change = query::change(settings, operators);
            let modified = write.send(change, session).await;
            Ok(Updated::new(modified.map_err(update::failed)?))
        })
    }

    /// Updates one element of a list in a child by operators. The other elements, and the other fields of the element, stay.
    ///
    /// ```no_run
    /// # use mongo_patterns::ErrorKind;
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(orders: mongo_patterns::embedded::EmbeddedRepository<(), ()>) -> mongo_patterns::Result<()> {
    /// // { _id: 7, parcels: [ { id: "a", lines: [ { sku: "pen", packed: 2 }, { sku: "ink", packed: 0 } ] } ] }
    /// let packed = doc! { "$inc": { "packed": 1 } };
    /// match orders.update_grandchild(7, "a", "lines", ("sku", "ink"), packed).await {
    ///     Err(error) if error.kind() == ErrorKind::GrandchildNotFound => println!("there is no ink in this parcel"),
    ///     updated => println!("modified: {}", updated?.modified),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The list is a field of the child, or a path such as `contents.lines`. Its element is named by a field and its value,
    /// of the types of a child's id. If several elements have the id, all of them are updated. To add or remove an element,
    /// [update the child](Self::update_child) by `$push` or `$pull`.
    ///
    /// # Operators
    /// The operators of [`update_child`](Self::update_child), with paths relative to the element. The id of the element
    /// cannot be changed.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// All of the operators are applied, or none. Retry an idempotent update. Otherwise read the child first.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: an invalid update, list or field, or an update that does not suit the stored element.
    /// - [`NotFound`]: there is no such parent.
    /// - [`ChildNotFound`]: the parent has no such child.
    /// - [`GrandchildNotFound`]: the child has no such list, or no such element in it.
    pub fn update_grandchild(
        &self,
        parent: impl IntoId,
        child_id: impl IntoId,
        list: impl Into<String>,
        (id_field, id): (impl Into<String>, impl IntoId),
        update: impl Into<UpdateModifications>,
    ) -> Write<'_, Updated> {
        let (shared, parent, child) = (
            self.shared(),
            DocumentId::new(parent),
            child_id.into_id().and_then(ChildId::new),
        );
        let (list, id_field, id) = (list.into(), id_field.into(), id.into_id().and_then(ChildId::new));
        let update = update.into();
        Write::new(shared.operation("update_grandchild"), async move |session| {
            let settings = &shared.settings;
            let (parent, child) = (parent?, child?);
            let grandchild = Grandchild::new(settings, list, id_field, id?)?;
            let fixed =
                "the id of an element cannot be changed, and nothing was sent: remove the element and add another";
            let operators = Operators::of_element(update, &[(grandchild.id_field.as_str(), fixed)])?;
            let write = ChildWrite::new(shared, &parent, Needs::Grandchild(&child, &grandchild));
            let change = query::grandchild::change(settings, &grandchild, operators);
            let modified = write.send(change, session).await;
            Ok(Updated::new(modified.map_err(update::failed)?))
        })
    }
}
