//! The calls that write.

use std::collections::HashSet;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    AlreadyExists, ChildNotFound, ChildSetMismatch, Corrupt, DuplicateKey, InvalidArgument, InvalidItemId,
    LimitReached, NewerVersion, NotFound,
};
use mongo_patterns_core::action::Write;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Inserted, IntoId, Removed, Result, Updated, in_order};
use serde::Serialize;

use crate::form::child_id::ChildId;
use crate::form::document::{encode, encode_parent};
use crate::query;
use crate::repository::EmbeddedRepository;
use crate::results::Upserted;
use crate::write::{ChildWrite, Needs, refused};

impl<P, C: Serialize> EmbeddedRepository<P, C> {
    /// Adds a child to a parent, after its other children. A parent without the array gets one.
    ///
    /// ```no_run
    /// # use mongo_patterns::ErrorKind;
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let home = doc! { "id": "home", "street": "123 Fake Street", "city": "Faketon", "zip": "12345" };
    /// match patrons.add_child("joe", &home).await {
    ///     Err(error) if error.kind() == ErrorKind::LimitReached => println!("joe must remove an address first"),
    ///     added => added?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantees
    /// When it returns, the child is stored once, to the collection's write concern. For any number of concurrent writers, a
    /// parent never has more children than its bound, and never two with the same id.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The child is stored or not. Retry it: `AlreadyExists` means that it is stored.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such parent.
    /// - [`LimitReached`]: the parent is full.
    /// - [`AlreadyExists`]: the parent has a child with this id, also if it is full.
    /// - [`InvalidItemId`]: the child has no valid id.
    /// - [`NewerVersion`]: the parent is [migrated to a subset](crate#migrations).
    /// - [`Corrupt`]: the parent's children are not an array.
    pub fn add_child(&self, parent: impl IntoId, child: &C) -> Write<'_, ()> {
        let (shared, parent, child) = (self.shared(), DocumentId::new(parent), encode(child));
        Write::new(shared.operation("add_child"), async move |session| {
            let settings = &shared.settings;
            let (parent, child) = (parent?, child?);
            let id = ChildId::of_child(settings, &child)?;
            let write = ChildWrite::new(shared, &parent, Needs::Room(&id));
            let update = query::push(settings, child);
            write.send(update, session).await?;
            Ok(())
        })
    }
}

impl<P: Serialize, C> EmbeddedRepository<P, C> {
    /// Inserts a parent with its children. One without the array of children gets an empty one.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Bson, Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let joe = doc! { "_id": "joe", "name": "Joe Bookreader", "addresses": [] };
    /// let inserted = patrons.insert(&joe).await?;
    /// assert_eq!(inserted.id, Bson::from("joe"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The parent is stored or not. Retry it: `AlreadyExists` means that it is stored. Without an `_id`, a retry can store
    /// it twice.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: its children are not an array of documents, or two have the same id. Or it has the field of a
    ///   parent that is [migrated to a subset](crate#migrations).
    /// - [`InvalidItemId`]: a child has no valid id.
    /// - [`LimitReached`]: it has more children than it may.
    /// - [`AlreadyExists`]: there is a parent with this `_id`.
    pub fn insert(&self, parent: &P) -> Write<'_, Inserted> {
        let shared = self.shared();
        let parent = encode_parent(&shared.settings, parent);
        Write::new(shared.operation("insert"), async move |session| {
            let parent = parent?;
            let mut conn = Conn::of_caller(session).await?;
            let inserted = conn.insert_one(&shared.collection, parent, None).await;
            Ok(Inserted::new(inserted.map_err(not_inserted)?.inserted_id))
        })
    }

    /// Inserts parents with their children, in this order, until the server refuses one.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let inserted = patrons.insert_many(&[doc! { "_id": "joe" }, doc! { "_id": "ann" }]).await?;
    /// assert_eq!(inserted.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for each 8 MB of parents.
    ///
    /// # Cancel safety
    /// Some parents are stored. Call it again: `AlreadyExists` means that some are stored. Then insert the parents that
    /// [`find`](Self::find) does not find. Without an `_id`, a retry can store one twice.
    ///
    /// # Errors
    /// - The errors of [`insert`](Self::insert), for any of the parents. Without `AlreadyExists` and `DuplicateKey`, nothing
    ///   is sent.
    /// - [`AlreadyExists`], [`DuplicateKey`]: the server refuses a parent. The parents before it are stored, and
    ///   [`stored_count`](mongo_patterns_core::Error::stored_count) is their number. In a transaction of the caller, none
    ///   is.
    pub fn insert_many(&self, parents: &[P]) -> Write<'_, Vec<Inserted>> {
        let shared = self.shared();
        let parents = parents.iter().map(|parent| encode_parent(&shared.settings, parent));
        let parents = parents.collect::<Result<Vec<_>>>();
        Write::new(shared.operation("insert_many"), async move |session| {
            let parents = parents?;
            let mut conn = Conn::of_caller(session).await?;
            let ids = in_order::insert(&mut conn, &shared.collection, parents, not_inserted).await?;
            Ok(ids.into_iter().map(Inserted::new).collect())
        })
    }
}

fn not_inserted(error: CommandError) -> Error {
    match duplicate_key(&error).is_some_and(|duplicate| duplicate.is_of_id()) {
        true => Error::from_driver(
            ErrorKind::AlreadyExists,
            "there is a parent with this `_id` already, which was not changed: add children to it with add_child()",
            error,
        ),
        false => refused(error),
    }
}

impl<P, C> EmbeddedRepository<P, C> {
    /// Removes the child with this id from a parent. The other children keep their order.
    ///
    /// ```no_run
    /// # async fn f(patrons: mongo_patterns::embedded::EmbeddedRepository<(), ()>) -> mongo_patterns::Result<()> {
    /// let removed = patrons.remove_child("joe", "home").await?;
    /// if !removed.found {
    ///     println!("joe has no such address");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Idempotent: safe to retry. If a damaged parent has several children with this id, it removes all of them.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A second one when there is no such child.
    ///
    /// # Cancel safety
    /// The child is removed or not. Retry it: [`found`](Removed::found) is `false` if it was removed.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such parent.
    pub fn remove_child(&self, parent: impl IntoId, child_id: impl IntoId) -> Write<'_, Removed> {
        let (shared, parent, child) = (
            self.shared(),
            DocumentId::new(parent),
            child_id.into_id().and_then(ChildId::new),
        );
        Write::new(shared.operation("remove_child"), async move |session| {
            let settings = &shared.settings;
            let (parent, child) = (parent?, child?);
            let write = ChildWrite::new(shared, &parent, Needs::Child(&child));
            let update = query::pull(settings, &child);
            match write.send(update, session).await {
                Ok(_) => Ok(Removed::new(true)),
                Err(error) if error.kind() == ErrorKind::ChildNotFound => Ok(Removed::new(false)),
                Err(error) => Err(error),
            }
        })
    }
}

impl<P, C> EmbeddedRepository<P, C> {
    /// Reorders the children of a parent. The ids must be the ids of all its children, each once.
    ///
    /// ```no_run
    /// # use mongo_patterns::ErrorKind;
    /// # async fn f(patrons: mongo_patterns::embedded::EmbeddedRepository<(), ()>) -> mongo_patterns::Result<()> {
    /// match patrons.reorder_children("joe", ["work", "home"]).await {
    ///     Err(error) if error.kind() == ErrorKind::ChildSetMismatch => println!("joe has other addresses by now"),
    ///     reordered => reordered?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One command compares and writes on the server, so it never loses or restores a child that another writer adds,
    /// removes or changes. Idempotent: safe to retry.
    ///
    /// # Cost
    /// One round trip; the server compares each id with each child, which takes some milliseconds for a hundred. A refused
    /// write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The children are in the new order or in the old one. Retry it.
    ///
    /// # Errors
    /// - [`ChildSetMismatch`]: the ids are not the ids of all children, for example because another writer added or removed
    ///   one.
    /// - [`NotFound`]: there is no such parent.
    /// - [`InvalidArgument`]: an id is repeated.
    pub fn reorder_children<I: IntoId>(
        &self,
        parent: impl IntoId,
        children: impl IntoIterator<Item = I>,
    ) -> Write<'_, ()> {
        let children = children.into_iter().map(|child| child.into_id().and_then(ChildId::new));
        let children = children.collect::<Result<Vec<_>>>();
        let (shared, parent) = (self.shared(), DocumentId::new(parent));
        Write::new(shared.operation("reorder_children"), async move |session| {
            let settings = &shared.settings;
            let (parent, children) = (parent?, children?);
            let forms: HashSet<&str> = children.iter().map(ChildId::form).collect();
            if forms.len() < children.len() {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "the id of a child is repeated, and nothing was sent: list each id once",
                ));
            }
            let write = ChildWrite::new(shared, &parent, Needs::Exactly(&children));
            let update = query::reorder(settings, &children).to_vec();
            write.send(update, session).await?;
            Ok(())
        })
    }
}

impl<P, C: Serialize> EmbeddedRepository<P, C> {
    /// Replaces the child of a parent that has the same id. Idempotent: safe to retry.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let home = doc! { "id": "home", "street": "1 Some Other Street", "city": "Boston", "zip": "12345" };
    /// let replaced = patrons.replace_child("joe", &home).await?;
    /// println!("modified: {}", replaced.modified);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The child is replaced or not. Retry it.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such parent.
    /// - [`ChildNotFound`]: the parent has no such child.
    /// - The errors of [`add_child`](Self::add_child) except `LimitReached` and `AlreadyExists`.
    pub fn replace_child(&self, parent: impl IntoId, child: &C) -> Write<'_, Updated> {
        let (shared, parent, child) = (self.shared(), DocumentId::new(parent), encode(child));
        Write::new(shared.operation("replace_child"), async move |session| {
            let settings = &shared.settings;
            let (parent, child) = (parent?, child?);
            let id = ChildId::of_child(settings, &child)?;
            let write = ChildWrite::new(shared, &parent, Needs::Child(&id));
            let update = query::replace(settings, child);
            Ok(Updated::new(write.send(update, session).await?))
        })
    }

    /// Adds a child to a parent, or replaces the child with the same id, which keeps its position. Idempotent: safe to retry.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(products: EmbeddedRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let color = doc! { "k": "color", "v": "blue" };
    /// let upserted = products.upsert_child(7, &color).await?;
    /// println!("inserted: {}", upserted.inserted);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is the write of the [attribute pattern](crate#cookbook), whose children are pairs of a name and a value.
    ///
    /// # Guarantees
    /// When it returns, the child is stored once, to the collection's write concern. For any number of concurrent writers, a
    /// parent never has more children than its bound, and never two with the same id. Of several writers of one child, the
    /// last one wins. In a full parent, a stored child can still be replaced.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The child is stored or not. Retry it. `inserted` is `false` if the first call added the child.
    ///
    /// # Errors
    /// - [`LimitReached`]: the parent is full and has no such child.
    /// - The errors of [`add_child`](Self::add_child), except `AlreadyExists`.
    pub fn upsert_child(&self, parent: impl IntoId, child: &C) -> Write<'_, Upserted> {
        let (shared, parent, child) = (self.shared(), DocumentId::new(parent), encode(child));
        Write::new(shared.operation("upsert_child"), async move |session| {
            let settings = &shared.settings;
            let (parent, child) = (parent?, child?);
            let id = ChildId::of_child(settings, &child)?;
            let write = ChildWrite::new(shared, &parent, Needs::ChildOrRoom(&id));
            let update = query::upsert::upsert(settings, child).to_vec();
            let inserted = write.send(update, session).await?;
            Ok(Upserted { inserted })
        })
    }
}
