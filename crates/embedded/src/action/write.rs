//! The calls that write.

use std::collections::HashSet;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    AlreadyExists, ChildNotFound, ChildSetMismatch, Contention, Corrupt, DuplicateKey, Encode, InvalidArgument,
    InvalidItemId, LimitReached, NewerVersion, NotFound, TooLarge,
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
    /// When it returns, the child is stored once, to the collection's write concern. Safe for concurrent writers: a parent
    /// never has more children than its bound, and never two with the same id.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second round trip, which reads the reason.
    /// It retries only if another writer removed the reason in between.
    ///
    /// # Cancel safety
    /// The child is stored or not, as a whole. Retry it: `AlreadyExists` means that it is stored.
    ///
    /// # Errors
    /// The child is not stored, unless the [outcome is unknown](Error::is_outcome_unknown). Then retry: `AlreadyExists`
    /// means that the first call stored it. With nothing stored: [`LimitReached`], [`NotFound`] when there is no such
    /// parent, [`NewerVersion`] when it is [migrated to a subset](crate#migrations), [`AlreadyExists`] when it has a child
    /// with this id, also if it is full, [`InvalidArgument`] and [`InvalidItemId`] for ids of invalid types, [`Encode`],
    /// [`TooLarge`] when the parent would exceed 16 MiB, [`Corrupt`] when its children are not an array, [`DuplicateKey`]
    /// by a unique index of your own, and [`Contention`].
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
    /// The parent is stored with its children, or not at all. Retry it: `AlreadyExists` means that it is stored. Without an
    /// `_id`, a retry can store it twice.
    ///
    /// # Errors
    /// With nothing sent: [`Encode`], [`InvalidArgument`] when its `_id` has an invalid type, its children are not an
    /// array, one of them is not a document, two have the same id, or it has the field of a parent that is [migrated to a
    /// subset](crate#migrations), [`InvalidItemId`] when a child has no valid id,
    /// [`LimitReached`] when it has more children than it may, and [`TooLarge`] when it would exceed 16 MiB.
    ///
    /// With nothing stored: [`AlreadyExists`] when there is a parent with this `_id`, and [`DuplicateKey`] by a unique
    /// index of your own.
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
    /// The first parents are stored, or all, or none. Call it again: `AlreadyExists` means that some are stored. Then insert
    /// those that [`find`](Self::find) does not find. Without an `_id`, a retry can store one twice.
    ///
    /// # Errors
    /// With nothing sent, those of [`insert`](Self::insert) of which nothing is sent, for any of the parents.
    ///
    /// [`AlreadyExists`] and [`DuplicateKey`] for a parent that the server refuses. Those before it are stored: their
    /// number is the [`stored_count`](mongo_patterns_core::Error::stored_count). In a transaction of the caller, nothing is.
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
    /// With nothing changed: [`NotFound`] when there is no such parent, [`NewerVersion`], [`InvalidArgument`] and
    /// [`InvalidItemId`] for ids of invalid types, [`Corrupt`] and [`Contention`].
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
    /// Reorders the children of a parent. The ids must be those of all its children, each once.
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
    /// removes or changes at the same time. Idempotent: safe to retry.
    ///
    /// # Cost
    /// One round trip; the server examines one document and compares each id with each child, which takes some milliseconds
    /// for a hundred. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The children are in the new order or in the old one. Idempotent: retry it.
    ///
    /// # Errors
    /// With nothing changed: [`ChildSetMismatch`] when the ids are not those of all children, for example because
    /// another writer added or removed one; [`NotFound`] when there is no such parent, [`NewerVersion`],
    /// [`InvalidArgument`] when an id is repeated or the parent's `_id` has an invalid type, [`InvalidItemId`],
    /// [`Corrupt`] and [`Contention`].
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
    /// The child is replaced or not, as a whole. Idempotent: retry it.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when there is no such parent, [`ChildNotFound`] when it has no such child,
    /// and those of [`add_child`](Self::add_child) except `LimitReached` and `AlreadyExists`.
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
    /// When it returns, the child is stored once, to the collection's write concern, and the other children are as they
    /// were. Safe for concurrent writers: a parent never has more children than its bound, and never two with the same id.
    /// Of several writers of one child, the last one wins. In a full parent, a stored child can still be replaced.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The child is stored or not, as a whole. Idempotent: retry it. `inserted` is `false` if the first call added the child.
    ///
    /// # Errors
    /// With nothing changed: [`LimitReached`] when the parent is full and has no such child, and the others of
    /// [`add_child`](Self::add_child) except `AlreadyExists`.
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
