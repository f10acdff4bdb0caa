//! Loads documents with their arrays, or the elements of existing ones, into the outlier pattern.

use mongo_patterns_core::Error;
use mongo_patterns_outlier::{OutlierRepository, Pushed};
use mongodb::bson::{Document, RawBson, RawDocumentBuf};

use super::item::{Item, Prepared, Role, Shape, encode, remove};
use super::problem::{Problem, Reason};
use super::store::{Store, Tally, one_by_one};
use super::to_flat::{DocumentShape, each};
use crate::failure::Failure;

type Lists = OutlierRepository<RawDocumentBuf, RawBson>;

/// A list's elements.
pub(crate) struct ElementShape {
    owner: Role,
    element: Option<Role>,
    is_unique: bool,
}

impl ElementShape {
    /// Each row is an element of the document whose `_id` is in `owner`: the value of `element`, or the rest of the row.
    pub(crate) fn new(owner: &str, element: Option<&str>, is_unique: bool) -> Self {
        let role = |field: &str, text| Role {
            field: field.to_owned(),
            text,
            of: None,
        };
        Self {
            owner: role(owner, "is the _id of the document"),
            element: element.map(|field| role(field, "is the element")),
            is_unique,
        }
    }
}

impl Shape for ElementShape {
    fn roles(&self) -> Vec<Role> {
        std::iter::once(&self.owner).chain(&self.element).cloned().collect()
    }

    fn prepare(&self, mut document: Document) -> Result<Prepared, Problem> {
        // The overflow document's _id, count, position, parent and array.
        const AROUND: usize = 200;
        let owner = remove(&mut document, &self.owner)?;
        let body = match &self.element {
            None => encode(&document, AROUND)?.into(),
            Some(role) => {
                let element = document
                    .remove(&role.field)
                    .ok_or_else(|| Problem::missing(&role.field, role.text))?;
                let alone = Document::from_iter([("0".to_owned(), element.clone())]);
                encode(&alone, AROUND)?;
                RawBson::try_from(element)
                    .map_err(|_| Problem::new(Reason::Invalid, "the element cannot be written as BSON"))?
            }
        };
        Ok(Prepared {
            owner,
            body,
            has_id: self.is_unique,
        })
    }
}

/// Documents with their arrays, which may exceed 16 MiB, because the library splits them.
pub(crate) struct ListShape;

impl Shape for ListShape {
    fn roles(&self) -> Vec<Role> {
        Vec::new()
    }

    fn prepare(&self, document: Document) -> Result<Prepared, Problem> {
        // The library refuses an element that is too large.
        DocumentShape::of_any_size().prepare(document)
    }
}

/// The target of documents.
pub(crate) struct ListDocuments(pub(crate) Lists);

impl Store for ListDocuments {
    const COMMANDS: [&'static str; 2] = ["outlier load", "outlier load --dry-run"];
    const WRITTEN: Option<&'static str> = Some("overflow_elements");

    fn namespace(&self) -> String {
        self.0.collection().namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "give each document an `_id`"
    }

    async fn begin(&self) -> Result<(), Failure> {
        self.0.ensure_indexes().await?;
        Ok(())
    }

    fn batches(&self, items: Vec<Item>) -> Vec<Vec<Item>> {
        each(items)
    }

    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        one_by_one(items, async |item| {
            let inserted = self.0.insert(&item.document()).await?;
            Ok(Tally {
                written: inserted.overflow,
                ..Tally::of_row(true)
            })
        })
        .await
    }
}

/// The target of elements.
pub(crate) struct ListElements {
    pub(crate) lists: Lists,
    pub(crate) is_unique: bool,
}

impl Store for ListElements {
    const COMMANDS: [&'static str; 2] = ["outlier load", "outlier load --dry-run"];
    const WRITTEN: Option<&'static str> = Some("overflow_elements");

    fn namespace(&self) -> String {
        self.lists.collection().namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "pass --unique, if no list has an element twice"
    }

    async fn begin(&self) -> Result<(), Failure> {
        self.lists.ensure_indexes().await?;
        Ok(())
    }

    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        let Some(owner) = items.first().map(|item| &item.owner) else {
            return Ok(Tally::default());
        };
        if !self.is_unique {
            let elements: Vec<RawBson> = items.iter().map(|item| item.body.clone()).collect();
            let pushed = self.lists.push_many(owner, &elements).await?;
            return Ok(Tally {
                items: pushed.inline + pushed.overflow,
                written: pushed.overflow,
                ..Tally::default()
            });
        }
        one_by_one(items, async |item| {
            let pushed = self.lists.push_unique(owner, &item.body).await?;
            Ok(Tally {
                written: u64::from(pushed == Pushed::Overflow),
                ..Tally::of_row(pushed != Pushed::AlreadyThere)
            })
        })
        .await
    }
}
