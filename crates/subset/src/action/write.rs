//! Writes of children.

use std::collections::HashSet;

use mongo_patterns_core::action::Write;
use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::update::failed;
#[allow(unused_imports)] // the links of the documentation use the kinds
use mongo_patterns_core::{Deleted, DocumentId, ErrorKind::*, IntoId, Result, document_id};
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::options::UpdateModifications;
use serde::Serialize;

use crate::form::child::Child;
use crate::form::update::checked_update;
use crate::query;
use crate::repository::SubsetRepository;
use crate::results::{InsertedChild, InsertedMany, UpdatedChild};
use crate::write;
use crate::write::change::{Change, ParentWrite, Written};

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Inserts a child and writes its parent, in one transaction.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let now = DateTime::now();
    /// let review = doc! { "review_id": 786, "product_id": 1, "review_text": "Amazing.", "published_date": now };
    /// let inserted = products.insert(&review).await?;
    /// println!("shown with the product: {}", inserted.in_subset);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Four round trips, if this repository has written the parent before. Otherwise five, and with a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or [figures](crate::SubsetRepositoryBuilder#figures) also. After
    /// a conflict up to nine more. Each examines one document, and one round trip as many as are embedded. Concurrent
    /// inserts for one parent share transactions: see [lanes](crate#lanes).
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again: `AlreadyExists` means that the child is stored.
    ///
    /// # Errors
    /// - [`NotFound`]: the parent does not exist.
    /// - [`NotMigrated`]: the parent embeds children that are [not migrated](Self::migrate_from_embedded).
    /// - [`AlreadyExists`]: the parent has a child with this id.
    /// - [`InvalidArgument`]: the child has no parent, its parent, id or `_id` is invalid, such as `Timestamp(0, 0)`, or a
    ///   field of the order or of a figure is an array.
    /// - [`InvalidItemId`]: the child has no id.
    /// - [`TooLarge`]: the child would exceed 16 MiB, or the parent with its new subset.
    pub fn insert(&self, child: &C) -> Write<'_, InsertedChild> {
        let shared = self.shared();
        let child = Child::of(&shared.settings, child);
        Write::new(shared.operation("insert"), async move |session| {
            let in_subset = write::insert(shared, child?, session).await?.in_subset();
            Ok(InsertedChild { in_subset })
        })
    }

    /// Inserts children of one parent or of several, and writes each parent once: all or none, in one transaction.
    ///
    /// The server ends the transaction after 60 seconds: insert thousands of children in several calls.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let now = DateTime::now();
    /// let nice = doc! { "review_id": 785, "product_id": 1, "review_text": "Nice.", "published_date": now };
    /// let amazing = doc! { "review_id": 786, "product_id": 1, "review_text": "Amazing.", "published_date": now };
    /// let inserted = products.insert_many(&[nice, amazing]).await?;
    /// println!("{} reviews stored, {} products written", inserted.children, inserted.parents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Two round trips, or more beyond 48 MB of children, and three for each parent. Four for one parent that
    /// [`insert`](Self::insert) would write in four.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again: `AlreadyExists` means that some or all are stored. Then
    /// insert the children that [`child`](Self::child) does not find.
    ///
    /// # Errors
    /// - The errors of [`insert`](Self::insert).
    pub fn insert_many(&self, children: &[C]) -> Write<'_, InsertedMany> {
        let shared = self.shared();
        let children = children.iter().map(|child| Child::of(&shared.settings, child));
        let children = children.collect::<Result<Vec<_>>>();
        Write::new(shared.operation("insert_many"), async move |session| {
            let mut parents = Vec::new();
            let mut documents = Vec::new();
            let mut seen = HashSet::new();
            for Child { parent, document, .. } in children? {
                if seen.insert(document_id::canonical(&parent)) {
                    parents.push(parent);
                }
                documents.push(document);
            }
            let children = documents.len() as u64;
            if children == 0 {
                return Ok(InsertedMany::default());
            }
            let inserted = InsertedMany {
                children,
                parents: parents.len() as u64,
            };
            let write = ParentWrite::of_parents(shared, parents, Change::Insert(documents));
            write::run(write, session).await?;
            Ok(inserted)
        })
    }

    /// Replaces the child with the same parent and id, and writes the parent.
    ///
    /// The child keeps its `_id`, and the fields that other repositories [own](mongo_patterns_core::catalog#owners).
    // proof: together::replaced::each_call_keeps_what_each_other_repository_owns
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let now = DateTime::now();
    /// let review = doc! { "review_id": 786, "product_id": 1, "review_text": "Still amazing.", "published_date": now };
    /// let replaced = products.replace(&review).await?;
    /// println!("shown with the product: {}", replaced.in_subset);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`update`](Self::update). A repository whose `ensure_indexes()` was not called needs one more once.
    ///
    /// # Cancel safety
    /// As [`update`](Self::update). Idempotent: call it again.
    ///
    /// # Errors
    /// - The errors of [`insert`](Self::insert) and [`update`](Self::update).
    /// - [`ChildNotFound`]: the child's parent differs from the stored one.
    /// - [`InvalidArgument`]: the child's `_id` differs from the stored one.
    pub fn replace(&self, child: &C) -> Write<'_, UpdatedChild> {
        let shared = self.shared();
        let child = Child::of(&shared.settings, child);
        Write::new(shared.operation("replace"), async move |session| {
            let Child { parent, id, document } = child?;
            let others = shared.others().await?;
            let write = ParentWrite::of_child(shared, parent, id, replacement(document, &others)?);
            Ok(updated(&write::run(write, session).await?))
        })
    }
}

impl<P, C> SubsetRepository<P, C> {
    /// Updates a child by [operators](#operators) or a pipeline, and writes its parent, in one transaction. If a field of the
    /// order changes, the child may enter or leave the subset.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<(), ()>) -> mongo_patterns::Result<()> {
    /// products.update(1, 786, doc! { "$set": { "review_text": "Still amazing." }, "$unset": { "draft": "" } }).await?;
    /// products.update(1, 786, doc! { "$inc": { "helpful_votes": 1 } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Operators
    /// [All calls](mongo_patterns_core::action#operators) have the same operators. The subset follows the stored result.
    ///
    /// A pipeline is a `Vec` of stages, each `$set` (or `$addFields`) or `$unset`. Its expressions are the caller's: wrap
    /// untrusted values in `$literal`.
    ///
    /// Other stages, and a change of the child's parent or id, are refused. A field of the order or of a figure cannot
    /// become an array.
    ///
    /// A pipeline that reads what it writes is not idempotent.
    ///
    /// # Cost
    /// Four round trips, if this repository has written the parent before. Otherwise five, and with a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or [figures](crate::SubsetRepositoryBuilder#figures) also. Each
    /// examines one document, and one round trip as many as are embedded.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call an idempotent update again. Otherwise read the child first.
    ///
    /// # Errors
    /// - [`NotFound`]: the parent does not exist.
    /// - [`NotMigrated`]: the parent embeds children that are [not migrated](Self::migrate_from_embedded).
    /// - [`ChildNotFound`]: the parent has no such child.
    /// - [`InvalidArgument`]: a refused update, or an update that does not suit the stored child, such as `$inc` of a text.
    pub fn update(
        &self,
        parent: impl IntoId,
        child_id: impl IntoId,
        update: impl Into<UpdateModifications>,
    ) -> Write<'_, UpdatedChild> {
        let shared = self.shared();
        let (parent, child) = (DocumentId::new(parent), DocumentId::new(child_id));
        let update = update.into();
        Write::new(shared.operation("update"), async move |session| {
            let (parent, child) = (parent?.into_bson(), child?.into_bson());
            let update = Change::Update(checked_update(&shared.settings, update)?);
            let write = ParentWrite::of_child(shared, parent, child, update);
            Ok(updated(&write::run(write, session).await.map_err(failed)?))
        })
    }

    /// Deletes a child and writes its parent, in one transaction. If the child was in the subset, the next one enters it.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let deleted = products.delete(1, 786).await?;
    /// if !deleted.found {
    ///     println!("the product has no such review");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is idempotent: it writes the parent even if the child does not exist.
    ///
    /// # Cost
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again.
    ///
    /// # Errors
    /// - [`NotFound`]: the parent does not exist.
    /// - [`NotMigrated`]: the parent embeds children that are [not migrated](Self::migrate_from_embedded).
    pub fn delete(&self, parent: impl IntoId, child_id: impl IntoId) -> Write<'_, Deleted> {
        let shared = self.shared();
        let (parent, child) = (DocumentId::new(parent), DocumentId::new(child_id));
        Write::new(shared.operation("delete"), async move |session| {
            let (parent, child) = (parent?.into_bson(), child?.into_bson());
            let write = ParentWrite::of_child(shared, parent, child, Change::Delete);
            let found = write::run(write, session).await?.found;
            Ok(Deleted::new(found.into()))
        })
    }
}

fn updated(written: &Written) -> UpdatedChild {
    UpdatedChild {
        modified: written.modified,
        in_subset: written.in_subset(),
    }
}

/// The server refuses field names that start with `$` in a replacement, where they would be operators, but accepts them
/// in an insert and in the result of a pipeline. A pipeline also keeps what other repositories own in the child.
fn replacement(child: RawDocumentBuf, others: &Others) -> Result<Change> {
    let mut fields = child.iter().flatten();
    if !others.own_fields() && !fields.any(|(name, _)| name.as_str().starts_with('$')) {
        return Ok(Change::Replace(child));
    }
    let child = Document::try_from(&child).map_err(CommandError::from)?;
    Ok(Change::Update(query::replace_with(child, others).into()))
}
