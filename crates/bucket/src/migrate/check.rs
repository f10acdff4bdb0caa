//! What is refused before anything is written.

use std::borrow::Cow;

use mongo_patterns_core::moves::number;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document};
use mongodb::options::Acknowledgment;

use super::run::{Direction, Move};
use crate::query::compare::{self, Keys};
use crate::query::to_buckets::ToBuckets;
use crate::query::to_flat::ToFlat;

/// MongoDB's limit of a document, less what a bucket has beside its items.
const MAX_BYTES: i64 = 16 * 1024 * 1024 - 8 * 1024;

impl Move<'_> {
    /// The settings, without asking the server.
    pub(crate) fn check_settings(&self) -> Result<()> {
        let (source, target) = (self.source(), self.target());
        let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
        if source.namespace().db != target.namespace().db {
            return refuse(
                "the flat collection and the buckets must be in one database: take one from the other's database",
            );
        }
        if source.name() == target.name() {
            return refuse("the flat collection must be another one than that of the buckets");
        }
        if self.chunk_items == 0 {
            return refuse("a chunk must be of at least 1 item");
        }
        let concern = target.write_concern().and_then(|concern| concern.w.as_ref());
        if concern == Some(&Acknowledgment::Nodes(0)) {
            return refuse("the write concern of the target must not be w: 0, under which no move could be confirmed");
        }
        Ok(())
    }

    /// Everything that is to be moved. Returns how many items there are.
    pub(crate) async fn check_source(&self) -> Result<u64> {
        match &self.direction {
            Direction::ToBuckets(form) => self.check_flat(form).await,
            Direction::ToFlat(form) => self.check_buckets(form).await,
        }
    }

    async fn check_flat(&self, form: &ToBuckets<'_>) -> Result<u64> {
        let found = self.look(form.inspection()).await?;
        let refuse = |numbers: &str, one: &str, kind, field: &str, what: &str| {
            refuse(
                &found,
                numbers,
                one,
                kind,
                field,
                "documents of the flat collection",
                what,
            )
        };
        refuse(
            "keys",
            "key",
            ErrorKind::InvalidKey,
            form.key.as_str(),
            "have no key of the repository's key type, or one that is out of range or too long",
        )?;
        refuse(
            "times",
            "time",
            ErrorKind::InvalidTime,
            form.time.as_str(),
            "have no BSON date in the time field, or one that is not from 1970-01-01T00:00:00Z to 2286-11-20T17:46:39Z",
        )?;
        let total = number(&found, "total");
        if let Some(item_id) = &form.settings.item_id {
            let bad = "have no item id, or one of a type that it cannot have";
            refuse("ids", "id", ErrorKind::InvalidItemId, item_id.as_str(), bad)?;
            if let Some(repeated) = form.repeated_ids() {
                let what = "have the same item id as another of their key";
                self.refuse_any(
                    repeated,
                    ErrorKind::InvalidItemId,
                    "documents of the flat collection",
                    what,
                )
                .await?;
            }
        }
        // Each of these reads everything once more, and few collections need it.
        if i64::try_from(total).unwrap_or(i64::MAX) > form.items_of_a_second() {
            let what = "are of seconds of a key that would open over 1,000,000 buckets: use larger pages";
            self.refuse_any(
                form.full_seconds(),
                ErrorKind::InvalidTime,
                "documents of the flat collection",
                what,
            )
            .await?;
        }
        let largest = i64::try_from(number(&found, "largest")).unwrap_or(i64::MAX);
        if largest
            .saturating_add(12)
            .saturating_mul(form.settings.page_size.into())
            > MAX_BYTES
        {
            let what = "would pass MongoDB's limit of 16 MiB: use a smaller page size";
            self.refuse_any(form.oversized_pages(MAX_BYTES), ErrorKind::TooLarge, "pages", what)
                .await?;
        }
        Ok(total)
    }

    async fn check_buckets(&self, form: &ToFlat<'_>) -> Result<u64> {
        let found = self.look(form.inspection()).await?;
        let refuse = |numbers: &str, one: &str, kind, field: &str, who: &str, what: &str| {
            refuse(&found, numbers, one, kind, field, who, what)
        };
        let items = form.settings.items.as_str();
        refuse(
            "buckets",
            "bucket",
            ErrorKind::Corrupt,
            "_id",
            "buckets",
            "break the rules of the pattern in their `_id`, key, count or items",
        )?;
        refuse(
            "scalars",
            "scalar",
            ErrorKind::Encode,
            items,
            "items",
            "are not documents, so they cannot be documents of a flat collection",
        )?;
        refuse(
            "keys",
            "key",
            ErrorKind::InvalidKey,
            items,
            "items",
            "have a field with the name of the flat key field, and another value in it than their key: call key_field(..) with another name",
        )?;
        refuse(
            "ids",
            "id",
            ErrorKind::InvalidItemId,
            items,
            "items",
            "have an `_id` that a document of a flat collection cannot have",
        )?;
        if number(&found, "with_ids") > 0 {
            let what = "would have the `_id` of another item as documents of the flat collection";
            self.refuse_any(form.repeated_ids(), ErrorKind::InvalidItemId, "items", what)
                .await?;
        }
        Ok(number(&found, "total"))
    }

    /// Whether the target may be written to when no move of ours has begun there.
    pub(crate) async fn check_target(&self) -> Result<()> {
        let not_empty = |message: Cow<'static, str>| Err(Error::new(ErrorKind::TargetNotEmpty, message));
        if !self.allow_non_empty_target {
            return not_empty(
                "the collection to move into has documents, and nothing was moved: empty it, or call allow_non_empty_target() when they are of other keys".into(),
            );
        }
        let both = self.compare(Keys::Both).await?.keys;
        if both > 0 {
            return not_empty(
                format!("{both} keys are in both collections, and nothing was moved: remove them from one").into(),
            );
        }
        let (key, expressions) = match &self.direction {
            Direction::ToBuckets(form) => (&form.settings.key, form.expressions),
            Direction::ToFlat(form) => {
                let taken = self.look(form.taken_ids(self.flat.name())).await?;
                return match number(&taken, "n") {
                    0 => Ok(()),
                    _ => not_empty(
                        "items would have the `_id` of documents of the flat collection, and nothing was moved: move into another collection".into(),
                    ),
                };
            }
        };
        // A key of another type can have the ids of one of ours.
        let others = self
            .look_at(self.buckets, compare::other_keys(key, expressions))
            .await?;
        match number(&others, "n") {
            0 => Ok(()),
            others => not_empty(
                format!("{others} documents of the collection to move into have a key of another type, and nothing was moved: move into another collection").into(),
            ),
        }
    }

    async fn refuse_any(
        &self,
        counting: impl IntoIterator<Item = Document>,
        kind: ErrorKind,
        who: &str,
        what: &str,
    ) -> Result<()> {
        let found = self.look(counting).await?;
        refuse(&found, "n", "one", kind, "", who, what)
    }
}

/// An error when there are such documents. It names one of them.
fn refuse(
    found: &Document,
    numbers: &str,
    one: &str,
    kind: ErrorKind,
    field: &str,
    who: &str,
    what: &str,
) -> Result<()> {
    let bad = number(found, numbers);
    if bad == 0 {
        return Ok(());
    }
    let error = Error::new(kind, format!("{bad} {who} {what}; nothing was moved"));
    match found.get(one) {
        None | Some(Bson::Null) => Err(error),
        Some(id) => Err(error.at(id.clone(), field)),
    }
}
