//! The settings of a repository, checked by its builder.

pub(crate) mod figure;
pub(crate) mod filter;
pub(crate) mod subset;

use std::time::Duration;

use mongo_patterns_core::catalog::{OwnField, OwnFields, Owned};
use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use self::figure::{Figure, Kind};
use self::subset::CheckedSubset;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The subsets, at least one. The first one has no filter, and gives pages and migrations their order.
    pub(crate) subsets: Vec<CheckedSubset>,
    /// The fields of the parent that depend on all children: first their number, if the user wants it.
    pub(crate) figures: Vec<Figure>,
    /// The number of writes to the subsets.
    pub(crate) version: FieldName,
    /// The `_id` of the parent, in a child.
    pub(crate) parent: FieldName,
    /// The id of a child, unique among the children of a parent.
    pub(crate) child_id: FieldName,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// The name of the index of the first order, which reads name in their hints.
    pub(crate) order_index: String,
    /// The name of the unique index of the child ids, which writes name in their hints.
    pub(crate) child_index: String,
}

impl Settings {
    pub(crate) fn first(&self) -> &CheckedSubset {
        &self.subsets[0]
    }

    /// Returns the maximum number of children that a parent embeds, each counted in every subset.
    pub(crate) fn most_embedded(&self) -> u32 {
        let sizes = self.subsets.iter().map(|subset| subset.size);
        sizes.fold(0, u32::saturating_add)
    }

    /// Returns the maximum number of rows with values of figures.
    pub(crate) fn most_computed(&self) -> u32 {
        u32::try_from(self.computed().count()).unwrap_or(u32::MAX)
    }

    fn order_keys(&self, subset: &CheckedSubset) -> Document {
        let mut keys = doc! { self.parent.as_str(): 1 };
        keys.extend(subset.sort());
        keys
    }

    fn child_keys(&self) -> Document {
        doc! { self.parent.as_str(): 1, self.child_id.as_str(): 1 }
    }

    /// Returns the name of the index of the order of a subset.
    pub(crate) fn index_of(&self, subset: &CheckedSubset) -> String {
        name(&self.order_keys(subset))
    }

    /// Names the indexes by their definitions.
    pub(crate) fn name_indexes(&mut self) {
        self.order_index = self.index_of(self.first());
        self.child_index = name(&self.child_keys());
    }

    /// Returns the field with the number of all children.
    pub(crate) fn total(&self) -> Option<&FieldName> {
        let mut figures = self.figures.iter();
        let total = figures.find(|figure| figure.kind == Kind::Count);
        total.map(|total| &total.field)
    }

    /// Returns the figures that are computed from values of the children. Commands number them.
    pub(crate) fn computed(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.kind != Kind::Count)
    }

    /// Returns the fields of the children from which fields of the parent are computed, each once.
    pub(crate) fn sources(&self) -> Vec<&FieldName> {
        let mut sources = Vec::new();
        for computed in self.computed() {
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
            None if self.is_first_of_order(of) => self.order_index.clone(),
            None => self.child_index.clone(),
        }
    }

    /// Returns the keys of the index that only the values of a field need.
    fn values_keys(&self, of: &FieldName) -> Option<Document> {
        let needs_own = !self.is_first_of_order(of) && *of != self.child_id;
        needs_own.then(|| doc! { self.parent.as_str(): 1, of.as_str(): 1 })
    }

    fn is_first_of_order(&self, field: &FieldName) -> bool {
        self.first().order.first().is_some_and(|(first, _)| first == field)
    }

    /// Returns the fields of a child that must not be arrays: their indexes would have each element.
    pub(crate) fn scalar_fields(&self) -> impl Iterator<Item = &FieldName> {
        let orders = self.subsets.iter().flat_map(|subset| &subset.order);
        let order = orders.map(|(field, _)| field);
        order.chain(self.computed().map(|computed| &computed.of))
    }

    /// Returns the fields of every child, by their settings.
    pub(crate) fn fields_of_child(&self) -> Vec<(&'static str, &str)> {
        vec![("parent", self.parent.as_str()), ("child_id", self.child_id.as_str())]
    }

    /// Returns the fields of the parents that only repositories write.
    pub(crate) fn own_fields<'a>(&'a self, parents: &'a Collection<RawDocumentBuf>) -> OwnFields<'a> {
        let mut fields = vec![OwnField::of_types("version", self.version.as_str(), &["int", "long"])];
        let numbers = ["int", "long", "double", "decimal"];
        let total = self.total().map(FieldName::as_str);
        fields.extend(total.map(|total| OwnField::of_types("total", total, &numbers)));
        OwnFields {
            collection: parents,
            fields,
        }
    }

    /// Returns what no other repository may own. The array of the first subset can be one of embedded children too.
    pub(crate) fn owned(
        &self,
        parents: &Collection<RawDocumentBuf>,
        children: &Collection<RawDocumentBuf>,
    ) -> Vec<Owned> {
        let mut owned = vec![
            Owned::parents(parents).with_dependents("delete_parent", Some(children)),
            Owned::children(children),
            Owned::field(parents, self.first().field.as_str(), "Subset::new").shared_as("children"),
            Owned::field(parents, self.version.as_str(), "version_field"),
        ];
        let further = self.subsets[1..].iter();
        owned.extend(further.map(|subset| Owned::field(parents, subset.field.as_str(), "Subset::new")));
        let figures = self.figures.iter();
        owned.extend(figures.map(|figure| Owned::field(parents, figure.field.as_str(), figure.kind.method())));
        owned
    }

    /// Returns the settings of the stored form.
    pub(crate) fn stored_form(&self, children: &str) -> Document {
        let mut form = doc! {
            "subset": self.first().field.as_str(),
            "version": self.version.as_str(),
            "total": self.total().map(FieldName::as_str),
            "children_collection": children,
            "parent": self.parent.as_str(),
            "child_id": self.child_id.as_str(),
        };
        let mut first = self.first().stored_form();
        first.remove("filter");
        form.extend(first);
        for kind in [Kind::Sum, Kind::Min, Kind::Max, Kind::CountBy] {
            let figures = self.figures.iter().filter(|figure| figure.kind == kind);
            let fields = figures.map(|figure| (&figure.field, figure.of.as_str().into()));
            insert_sorted(&mut form, kind.name(), fields.collect());
        }
        let further = self.subsets[1..].iter();
        let further = further.map(|subset| (&subset.field, subset.stored_form().into()));
        insert_sorted(&mut form, "further_subsets", further.collect());
        form
    }

    /// Returns the indexes of the children.
    pub(crate) fn indexes(&self) -> Vec<PlannedIndex> {
        let mut indexes = vec![PlannedIndex::new(&self.child_index, self.child_keys()).unique()];
        if self.order_index != self.child_index {
            indexes.insert(0, PlannedIndex::new(&self.order_index, self.order_keys(self.first())));
        }
        let of_values = self.sources().into_iter().filter_map(|of| self.values_keys(of));
        for keys in of_values.chain(self.subsets.iter().map(|subset| self.order_keys(subset))) {
            let name = name(&keys);
            if !indexes.iter().any(|index| index.name == name) {
                indexes.push(PlannedIndex::new(name, keys));
            }
        }
        indexes
    }
}

/// Inserts a document of settings by the names of fields, unless there are none.
fn insert_sorted(form: &mut Document, setting: &str, mut fields: Vec<(&FieldName, Bson)>) {
    fields.sort_unstable_by_key(|(field, _)| field.as_str());
    if !fields.is_empty() {
        let fields = fields.into_iter();
        let fields = fields.map(|(field, value)| (field.as_str().to_owned(), value));
        form.insert(setting, Document::from_iter(fields));
    }
}

/// Returns the name of an index with these keys.
fn name(keys: &Document) -> String {
    let parts = keys.iter().map(|(field, direction)| format!("{field}_{direction}"));
    parts.collect::<Vec<_>>().join("_")
}

#[cfg(any(test, fuzzing))]
impl Settings {
    pub(crate) fn example() -> Self {
        use self::subset::Direction::Descending;
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        let mut settings = Self {
            subsets: vec![CheckedSubset {
                field: field("reviews"),
                order: vec![(field("published_date"), Descending), (field("review_id"), Descending)],
                size: 10,
                filter: filter::Filter::default(),
                embedded_fields: None,
            }],
            figures: Vec::new(),
            version: field("reviews_version"),
            parent: field("product_id"),
            child_id: field("review_id"),
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
mod tests {
    use super::*;

    impl Settings {
        /// Adds fields of the parent that are computed from fields of the children.
        pub(crate) fn with_figures(mut self, figures: &[(Kind, &str, &str)]) -> Self {
            let field = |name: &str| FieldName::new(name).expect("a plain name");
            let figures = figures.iter().map(|(kind, of, parent_field)| Figure {
                kind: *kind,
                of: field(of),
                field: field(parent_field),
            });
            self.figures.extend(figures);
            self
        }

        /// Adds the number of children.
        pub(crate) fn with_total(mut self) -> Self {
            let total = Figure {
                kind: Kind::Count,
                of: self.child_id.clone(),
                field: FieldName::new("review_count").expect("a plain name"),
            };
            self.figures.insert(0, total);
            self
        }

        /// Adds a subset of the three best reviews, with only their stars.
        pub(crate) fn with_best(mut self) -> Self {
            use crate::settings::subset::Direction::Descending;
            let field = |name: &str| FieldName::new(name).expect("a plain name");
            self.subsets.push(CheckedSubset {
                field: field("top_rated"),
                order: vec![(field("stars"), Descending), (field("review_id"), Descending)],
                size: 3,
                filter: filter::Filter::new(doc! { "stars": { "$gte": 4 } }).expect("a plain filter"),
                embedded_fields: Some(vec![field("stars")]),
            });
            self
        }
    }

    #[test]
    fn computed_fields_have_settings_and_indexes() {
        let settings = Settings::example();
        assert!(!settings.stored_form("review").contains_key("sum"));
        let settings = settings.with_figures(&[
            (Kind::Sum, "rating", "rating_sum"),
            (Kind::Max, "published_date", "newest"),
            (Kind::CountBy, "rating", "stars"),
            (Kind::Sum, "review_id", "ids"),
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
        let index_of = |number: usize| settings.values_index(&settings.figures[number].of);
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
        same.subsets[1].order = same.first().order.clone();
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
