//! What a builder was told, checked.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

use crate::{Consistency, Direction};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The array of the parent.
    pub(crate) subset: FieldName,
    /// The number of writes to it.
    pub(crate) version: FieldName,
    /// The number of children, in the parent, where the user wants it.
    pub(crate) total: Option<FieldName>,
    /// The `_id` of the parent, in a child.
    pub(crate) parent: FieldName,
    /// What tells the children of a parent apart.
    pub(crate) child_id: FieldName,
    /// The order of the children. It ends with their id, so that it is a total one.
    pub(crate) order: Vec<(FieldName, Direction)>,
    pub(crate) size: u32,
    /// Which fields of a child are embedded; `None` for all but `_id` and the parent.
    pub(crate) embed: Option<Vec<FieldName>>,
    /// What the user chose.
    pub(crate) consistency: Option<Consistency>,
    pub(crate) retry: RetryPolicy,
    /// The name of the index of the order. Reads rely on it by name.
    pub(crate) order_index: String,
    /// The name of the unique index of the children's ids. Writes rely on it by name.
    pub(crate) child_index: String,
}

impl Settings {
    /// The order as a sort, or as the keys of an index.
    pub(crate) fn sort(&self) -> Document {
        let fields = self.order.iter();
        fields
            .map(|(field, direction)| (field.as_str().to_owned(), direction.number().into()))
            .collect()
    }

    fn order_keys(&self) -> Document {
        let mut keys = doc! { self.parent.as_str(): 1 };
        keys.extend(self.sort());
        keys
    }

    fn child_keys(&self) -> Document {
        doc! { self.parent.as_str(): 1, self.child_id.as_str(): 1 }
    }

    /// Names the indexes by their definitions.
    pub(crate) fn name_indexes(&mut self) {
        let name = |keys: Document| {
            let parts = keys.iter().map(|(field, direction)| format!("{field}_{direction}"));
            parts.collect::<Vec<_>>().join("_")
        };
        self.order_index = name(self.order_keys());
        self.child_index = name(self.child_keys());
    }

    pub(crate) fn index_plan(&self, collection: &str) -> IndexPlan {
        let unique = PlannedIndex::new(&self.child_index, self.child_keys()).unique();
        let mut indexes = vec![unique];
        if self.order_index != self.child_index {
            indexes.insert(0, PlannedIndex::new(&self.order_index, self.order_keys()));
        }
        IndexPlan::new(collection, indexes)
    }
}

#[cfg(any(test, feature = "__fuzzing"))]
impl Settings {
    /// Those of the manual's example.
    pub(crate) fn example() -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        let mut settings = Self {
            subset: field("reviews"),
            version: field("reviews_version"),
            total: None,
            parent: field("product_id"),
            child_id: field("review_id"),
            order: vec![
                (field("published_date"), Direction::Descending),
                (field("review_id"), Direction::Descending),
            ],
            size: 10,
            embed: None,
            consistency: None,
            retry: RetryPolicy::default(),
            order_index: String::new(),
            child_index: String::new(),
        };
        settings.name_indexes();
        settings
    }
}
