//! The settings of a repository, checked by its builder.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Bson, Document, doc};

/// What reads see between the write of a child and the write of its parent.
///
/// A write in a transaction of the caller is a part of that transaction, with either consistency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Consistency {
    /// Writes child and parent in one transaction: no read ever finds a stale subset. Requires a replica set or a
    /// sharded cluster.
    Transactional,
    /// Writes the child first and its parent afterwards: a read in between finds the previous subset. When all writers
    /// of a parent have returned, its subset is correct. A process that dies in between leaves a stale subset until the
    /// next write to the parent, or until [`repair`](crate::SubsetRepository::repair).
    Eventual,
}

/// The direction of a field in the order of the children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest value first, as `1` in a sort of MongoDB.
    Ascending,
    /// The greatest value first, as `-1`.
    Descending,
}

impl Direction {
    fn number(self) -> i32 {
        match self {
            Self::Ascending => 1,
            Self::Descending => -1,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The array of the parent.
    pub(crate) subset: FieldName,
    /// The number of writes to the array.
    pub(crate) version: FieldName,
    /// The number of all children, in the parent, if the user wants it.
    pub(crate) total: Option<FieldName>,
    /// The `_id` of the parent, in a child.
    pub(crate) parent: FieldName,
    /// The id of a child, unique among the children of a parent.
    pub(crate) child_id: FieldName,
    /// The order of the children. It ends with their id, which makes it total.
    pub(crate) order: Vec<(FieldName, Direction)>,
    /// The maximum number of embedded children.
    pub(crate) size: u32,
    /// The embedded fields of a child; `None` means all but `_id` and the parent.
    pub(crate) embedded_fields: Option<Vec<FieldName>>,
    pub(crate) consistency: Option<Consistency>,
    pub(crate) retry: RetryPolicy,
    /// The name of the index of the order, which reads name in their hints.
    pub(crate) order_index: String,
    /// The name of the unique index of the child ids, which writes name in their hints.
    pub(crate) child_index: String,
}

impl Settings {
    /// Returns the order as a sort, or as the keys of an index.
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

    /// Returns the fields of every child, by their settings.
    pub(crate) fn fields_of_child(&self) -> Vec<(&'static str, &str)> {
        vec![("parent", self.parent.as_str()), ("child_id", self.child_id.as_str())]
    }

    /// Returns the settings of the stored form.
    pub(crate) fn stored_form(&self, children: &str) -> Document {
        let names = |fields: &[FieldName]| fields.iter().map(|field| field.as_str().into()).collect::<Vec<Bson>>();
        let order = self.order.iter().map(|(field, direction)| match direction {
            Direction::Ascending => field.as_str().to_owned(),
            Direction::Descending => format!("-{field}"),
        });
        doc! {
            "subset": self.subset.as_str(),
            "version": self.version.as_str(),
            "total": self.total.as_ref().map(FieldName::as_str),
            "children_collection": children,
            "parent": self.parent.as_str(),
            "child_id": self.child_id.as_str(),
            "order": order.collect::<Vec<String>>(),
            "size": i64::from(self.size),
            "embedded_fields": self.embedded_fields.as_deref().map(names),
        }
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
            embedded_fields: None,
            consistency: None,
            retry: RetryPolicy::default(),
            order_index: String::new(),
            child_index: String::new(),
        };
        settings.name_indexes();
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_named_by_their_definitions() {
        assert_eq!(
            Settings::example().index_plan("review").to_string(),
            [
                r#"db.getCollection("review").createIndex({ "product_id": 1, "published_date": -1, "review_id": -1 }, { "name": "product_id_1_published_date_-1_review_id_-1" })"#,
                r#"db.getCollection("review").createIndex({ "product_id": 1, "review_id": 1 }, { "name": "product_id_1_review_id_1", "unique": true })"#,
            ]
            .join("\n")
        );
    }
}
