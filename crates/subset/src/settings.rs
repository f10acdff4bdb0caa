//! The settings of a repository, checked by its builder.

pub(crate) mod computed;
pub(crate) mod filter;
pub(crate) mod further;
pub(crate) mod order;

use std::time::Duration;

use mongo_patterns_core::catalog::{OwnField, OwnFields};
use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use self::computed::{ComputedField, Figure};
use self::further::FurtherSubset;
pub use self::order::Direction;
use self::order::{order_names, sort};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The array of the parent.
    pub(crate) subset: FieldName,
    /// The number of writes to the array.
    pub(crate) version: FieldName,
    /// The number of all children, in the parent, if the user wants it.
    pub(crate) total: Option<FieldName>,
    /// The fields of the parent that are computed from all children.
    pub(crate) computed: Vec<ComputedField>,
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
    /// The subsets after this one.
    pub(crate) further: Vec<FurtherSubset>,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// The name of the index of the order, which reads name in their hints.
    pub(crate) order_index: String,
    /// The name of the unique index of the child ids, which writes name in their hints.
    pub(crate) child_index: String,
}

impl Settings {
    /// Returns the order as a sort, or as the keys of an index.
    pub(crate) fn sort(&self) -> Document {
        sort(&self.order)
    }

    /// Returns the arrays of the parent, of which this repository writes all.
    pub(crate) fn subset_fields(&self) -> impl Iterator<Item = &FieldName> {
        std::iter::once(&self.subset).chain(self.further.iter().map(|subset| &subset.field))
    }

    /// Returns the maximum number of children that a parent embeds, each counted in every subset.
    pub(crate) fn most_embedded(&self) -> u32 {
        let sizes = self.further.iter().map(|subset| subset.size);
        sizes.fold(self.size, u32::saturating_add)
    }

    /// Returns whether the index of the order has all embedded fields of the first subset. The server may then read them from
    /// the index: in the order of its keys, and with `null` for missing ones.
    pub(crate) fn is_covered(&self) -> bool {
        let is_key = |field: &FieldName| self.order.iter().any(|(key, _)| key == field);
        self.embedded_fields
            .as_ref()
            .is_some_and(|fields| fields.iter().all(is_key))
    }

    fn order_keys(&self, order: &[(FieldName, Direction)]) -> Document {
        let mut keys = doc! { self.parent.as_str(): 1 };
        keys.extend(sort(order));
        keys
    }

    fn child_keys(&self) -> Document {
        doc! { self.parent.as_str(): 1, self.child_id.as_str(): 1 }
    }

    /// Names the indexes by their definitions.
    pub(crate) fn name_indexes(&mut self) {
        self.order_index = name(&self.order_keys(&self.order));
        self.child_index = name(&self.child_keys());
    }

    /// Returns whether a parent stores a value that depends on all of its children.
    pub(crate) fn counts_children(&self) -> bool {
        self.total.is_some() || !self.computed.is_empty()
    }

    /// Returns the fields of the children from which fields of the parent are computed, each once.
    pub(crate) fn sources(&self) -> Vec<&FieldName> {
        let mut sources = Vec::new();
        for computed in &self.computed {
            if !sources.contains(&&computed.of) {
                sources.push(&computed.of);
            }
        }
        sources
    }

    /// Returns the name of the index that has the values of a field, after the parent.
    pub(crate) fn values_index(&self, of: &FieldName) -> String {
        match self.values_keys(of) {
            Some(keys) => name(&keys),
            None if self.order.first().is_some_and(|(first, _)| first == of) => self.order_index.clone(),
            None => self.child_index.clone(),
        }
    }

    /// Returns the keys of the index that only the values of a field need.
    fn values_keys(&self, of: &FieldName) -> Option<Document> {
        let is_first = self.order.first().is_some_and(|(first, _)| first == of);
        let needs_own = !is_first && *of != self.child_id;
        needs_own.then(|| doc! { self.parent.as_str(): 1, of.as_str(): 1 })
    }

    /// Returns the fields of a child that must not be arrays: their indexes would have each element.
    pub(crate) fn scalar_fields(&self) -> impl Iterator<Item = &FieldName> {
        let orders = self.further.iter().flat_map(|subset| &subset.order);
        let order = self.order.iter().chain(orders).map(|(field, _)| field);
        order.chain(self.computed.iter().map(|computed| &computed.of))
    }

    /// Returns the fields of every child, by their settings.
    pub(crate) fn fields_of_child(&self) -> Vec<(&'static str, &str)> {
        vec![("parent", self.parent.as_str()), ("child_id", self.child_id.as_str())]
    }

    /// Returns the fields of the parents that only repositories write.
    pub(crate) fn own_fields<'a>(&'a self, parents: &'a Collection<RawDocumentBuf>) -> OwnFields<'a> {
        let mut fields = vec![OwnField::of_types("version", self.version.as_str(), &["int", "long"])];
        if let Some(total) = &self.total {
            let numbers = ["int", "long", "double", "decimal"];
            fields.push(OwnField::of_types("total", total.as_str(), &numbers));
        }
        OwnFields {
            collection: parents,
            fields,
        }
    }

    /// Returns the settings of the stored form.
    pub(crate) fn stored_form(&self, children: &str) -> Document {
        let names = |fields: &[FieldName]| fields.iter().map(|field| field.as_str().into()).collect::<Vec<Bson>>();
        let mut form = doc! {
            "subset": self.subset.as_str(),
            "version": self.version.as_str(),
            "total": self.total.as_ref().map(FieldName::as_str),
            "children_collection": children,
            "parent": self.parent.as_str(),
            "child_id": self.child_id.as_str(),
            "order": order_names(&self.order),
            "size": i64::from(self.size),
            "embedded_fields": self.embedded_fields.as_deref().map(names),
        };
        for figure in Figure::ALL {
            let mut fields: Vec<_> = self.computed.iter().filter(|field| field.figure == figure).collect();
            fields.sort_unstable_by_key(|computed| computed.field.as_str());
            if !fields.is_empty() {
                let fields = fields.into_iter();
                let fields = fields.map(|computed| (computed.field.as_str().to_owned(), computed.of.as_str().into()));
                form.insert(figure.setting(), Document::from_iter(fields));
            }
        }
        let mut further: Vec<_> = self.further.iter().collect();
        further.sort_unstable_by_key(|subset| subset.field.as_str());
        if !further.is_empty() {
            let further = further.into_iter();
            let further = further.map(|subset| (subset.field.as_str().to_owned(), subset.stored_form().into()));
            form.insert("further_subsets", Document::from_iter(further));
        }
        form
    }

    /// Returns the indexes of the children.
    pub(crate) fn indexes(&self) -> Vec<PlannedIndex> {
        let unique = PlannedIndex::new(&self.child_index, self.child_keys()).unique();
        let mut indexes = vec![unique];
        if self.order_index != self.child_index {
            indexes.insert(0, PlannedIndex::new(&self.order_index, self.order_keys(&self.order)));
        }
        for keys in self.sources().into_iter().filter_map(|of| self.values_keys(of)) {
            indexes.push(PlannedIndex::new(name(&keys), keys));
        }
        for keys in self.further.iter().map(|subset| self.order_keys(&subset.order)) {
            let name = name(&keys);
            if !indexes.iter().any(|index| index.name == name) {
                indexes.push(PlannedIndex::new(name, keys));
            }
        }
        indexes
    }
}

/// Returns the name of an index with these keys.
fn name(keys: &Document) -> String {
    let parts = keys.iter().map(|(field, direction)| format!("{field}_{direction}"));
    parts.collect::<Vec<_>>().join("_")
}

#[cfg(any(test, feature = "__fuzzing"))]
impl Settings {
    pub(crate) fn example() -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        let mut settings = Self {
            subset: field("reviews"),
            version: field("reviews_version"),
            total: None,
            computed: Vec::new(),
            parent: field("product_id"),
            child_id: field("review_id"),
            order: vec![
                (field("published_date"), Direction::Descending),
                (field("review_id"), Direction::Descending),
            ],
            size: 10,
            embedded_fields: None,
            further: Vec::new(),
            retry: RetryPolicy::default(),
            max_time: None,
            order_index: String::new(),
            child_index: String::new(),
        };
        settings.name_indexes();
        settings
    }
}

#[cfg(test)]
impl Settings {
    /// Adds fields of the parent that are computed from fields of the children.
    pub(crate) fn with_computed(mut self, fields: &[(Figure, &str, &str)]) -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        let fields = fields.iter().map(|(figure, of, parent_field)| ComputedField {
            figure: *figure,
            of: field(of),
            field: field(parent_field),
        });
        self.computed.extend(fields);
        self
    }

    /// Adds a subset of the three best reviews, with only their stars.
    pub(crate) fn with_best(mut self) -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        self.further.push(FurtherSubset {
            field: field("top_rated"),
            order: vec![
                (field("stars"), Direction::Descending),
                (field("review_id"), Direction::Descending),
            ],
            size: 3,
            filter: filter::Filter::new(doc! { "stars": { "$gte": 4 } }).expect("a plain filter"),
            embedded_fields: Some(vec![field("stars")]),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_fields_have_settings_and_indexes() {
        let settings = Settings::example();
        assert!(!settings.stored_form("review").contains_key("sum"));
        let settings = settings.with_computed(&[
            (Figure::Sum, "rating", "rating_sum"),
            (Figure::Max, "published_date", "newest"),
            (Figure::CountBy, "rating", "stars"),
            (Figure::Sum, "review_id", "ids"),
        ]);
        let form = settings.stored_form("review");
        assert_eq!(
            form.get_document("sum").unwrap(),
            &doc! { "ids": "review_id", "rating_sum": "rating" }
        );
        assert_eq!(form.get_document("max").unwrap(), &doc! { "newest": "published_date" });
        assert_eq!(form.get_document("count_by").unwrap(), &doc! { "stars": "rating" });
        let indexes = settings.indexes();
        let names: Vec<&str> = indexes.iter().map(|index| index.name.as_str()).collect();
        let [order, child] = [&settings.order_index, &settings.child_index].map(String::as_str);
        assert_eq!(names, [order, child, "product_id_1_rating_1"]);
        let index_of = |number: usize| settings.values_index(&settings.computed[number].of);
        assert_eq!(
            [index_of(0), index_of(1), index_of(3)],
            ["product_id_1_rating_1", order, child]
        );
    }

    #[test]
    fn further_subsets_have_settings_and_indexes() {
        let settings = Settings::example();
        assert!(!settings.stored_form("review").contains_key("further_subsets"));
        let settings = settings.with_best();
        let best = doc! {
            "order": ["-stars", "-review_id"],
            "size": 3_i64,
            "filter": [["stars", [["$gte", 4]]]],
            "embedded_fields": ["stars"],
        };
        let form = settings.stored_form("review");
        assert_eq!(
            form.get_document("further_subsets").unwrap(),
            &doc! { "top_rated": best }
        );
        assert_eq!(settings.indexes()[2].name, "product_id_1_stars_-1_review_id_-1");
        let mut same = settings.clone();
        same.further[0].order = same.order.clone();
        assert_eq!(same.indexes().len(), 2);
        assert_eq!(settings.most_embedded(), 13);
        assert!(settings.scalar_fields().any(|field| field.as_str() == "stars"));
    }

    #[test]
    fn indexes_are_named_by_their_definitions() {
        let order = doc! { "product_id": 1, "published_date": -1, "review_id": -1 };
        let expected = [
            PlannedIndex::new("product_id_1_published_date_-1_review_id_-1", order),
            PlannedIndex::new("product_id_1_review_id_1", doc! { "product_id": 1, "review_id": 1 }).unique(),
        ];
        assert_eq!(Settings::example().indexes(), expected);
    }
}
