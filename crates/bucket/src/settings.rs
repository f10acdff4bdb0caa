//! The checked settings of a repository.
//!
//! # Design
//!
//! ## Why does the name of the index contain its definition?
//!
//! Every write names the index in its hint. With the field names, the page size and the windows in the name, the index of
//! other settings cannot serve the write.

pub(crate) mod figures;
pub(crate) mod window;

use std::time::Duration;

use mongo_patterns_core::catalog::{OwnField, OwnFields, Owned};
use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::{Collection, Namespace};

use self::figures::Figures;
use self::window::Windows;

/// The setting of the type of the keys in the catalog.
pub(crate) const KEY_TYPE: &str = "key_type";

/// The setting of the figures in the catalog.
pub(crate) const FIGURES: &str = "figures";

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) namespace: Namespace,
    pub(crate) key: FieldName,
    /// The BSON type of the keys, by its name in `$jsonSchema`: `int` for all types of integers.
    pub(crate) key_type: &'static str,
    pub(crate) items: FieldName,
    pub(crate) count: FieldName,
    pub(crate) time: Option<FieldName>,
    /// The field of an item that identifies it among the items of its key.
    pub(crate) item_id: Option<FieldName>,
    /// The figures of a bucket, if it has any.
    pub(crate) figures: Option<Figures>,
    /// The windows of time that have buckets of their own, if there are any.
    pub(crate) windows: Option<Windows>,
    /// The seconds after which the server deletes a bucket, from the time of its last item.
    pub(crate) expire_after: Option<u32>,
    pub(crate) page_size: u32,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// The name of the index on the open buckets.
    pub(crate) open_index: String,
}

/// Returns the name of the index on the open buckets.
pub(crate) fn open_index(key: &FieldName, count: &FieldName, page_size: u32, windows: Option<&Windows>) -> String {
    let name = format!("{key}_1_{count}_lt_{page_size}");
    match windows {
        None => name,
        Some(Windows { field, seconds }) => format!("{name}_{field}_{seconds}s"),
    }
}

impl Settings {
    /// Returns the page size as filters and the index have it.
    pub(crate) fn page_size_bson(&self) -> i32 {
        i32::try_from(self.page_size).unwrap_or(i32::MAX)
    }

    /// Returns the fields of the index on the open buckets.
    pub(crate) fn open_fields(&self) -> Vec<&str> {
        let window = self.windows.iter().map(|windows| windows.field.as_str());
        [self.key.as_str()].into_iter().chain(window).collect()
    }

    /// Returns the index that writes with this page size need.
    pub(crate) fn open_index_for(&self, page_size: u32) -> PlannedIndex {
        let name = open_index(&self.key, &self.count, page_size, self.windows.as_ref());
        let fields = self.open_fields().into_iter();
        let open = doc! { self.count.as_str(): { "$lt": i32::try_from(page_size).unwrap_or(i32::MAX) } };
        PlannedIndex::new(name, fields.map(|field| (field.to_owned(), 1.into())).collect())
            .unique()
            .partial(open)
    }

    /// Returns the path of the item ids in a bucket, such as `history.tradeId`.
    pub(crate) fn item_id_path(&self) -> Option<String> {
        let field = self.item_id.as_ref()?;
        Some(format!("{}.{field}", self.items))
    }

    /// Returns the name of the index on the item ids.
    pub(crate) fn item_index(&self) -> Option<String> {
        Some(format!("{}_1_{}_1", self.key, self.item_id_path()?))
    }

    /// Returns the fields of a bucket that only repositories write.
    pub(crate) fn own_fields<'a>(&'a self, buckets: &'a Collection<RawDocumentBuf>) -> OwnFields<'a> {
        let numbers = ["int", "long", "double", "decimal"];
        let mut fields = vec![OwnField::of_types("count", self.count.as_str(), &numbers)];
        let figures = self.figures.iter();
        fields.extend(figures.map(|figures| OwnField::of_types(FIGURES, figures.field.as_str(), &["object"])));
        let windows = self.windows.iter();
        fields.extend(windows.map(|windows| OwnField::of_types("window", windows.field.as_str(), &["date"])));
        OwnFields {
            collection: buckets,
            fields,
        }
    }

    /// Returns what no other repository may own.
    pub(crate) fn owned(&self, buckets: &Collection<RawDocumentBuf>) -> Vec<Owned> {
        let mut owned = vec![
            Owned::whole_documents(buckets),
            Owned::field(buckets, self.items.as_str(), "items_field"),
            Owned::field(buckets, self.count.as_str(), "count_field"),
        ];
        let figures = self.figures.iter();
        owned.extend(figures.map(|figures| Owned::field(buckets, figures.field.as_str(), "figures_field")));
        let windows = self.windows.iter();
        owned.extend(windows.map(|windows| Owned::field(buckets, windows.field.as_str(), "window_field")));
        owned
    }

    /// Returns the indexes of a collection with these settings.
    pub(crate) fn indexes(&self) -> Vec<PlannedIndex> {
        let mut indexes = vec![self.open_index_for(self.page_size)];
        if let (Some(name), Some(path)) = (self.item_index(), self.item_id_path()) {
            indexes.push(PlannedIndex::new(name, doc! { self.key.as_str(): 1, path: 1 }).unique());
        }
        indexes.extend(self.expiry_index());
        indexes
    }

    /// Returns the TTL index, which excludes buckets whose figures are marked as not current.
    fn expiry_index(&self) -> Option<PlannedIndex> {
        let (seconds, figures) = (self.expire_after?, self.figures.as_ref()?);
        let times = format!("{}.{}", figures.field, figures.times()?.field);
        let last = format!("{times}.last");
        let index = PlannedIndex::new(format!("{last}_1"), doc! { last: 1 });
        Some(
            index
                .partial(doc! { format!("{times}.count"): { "$gt": 0 } })
                .expiring(seconds),
        )
    }

    /// Returns the fields of a bucket, by their settings.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &str)> {
        let mut fields = vec![
            ("key", self.key.as_str()),
            ("items", self.items.as_str()),
            ("count", self.count.as_str()),
        ];
        fields.extend(self.windows.iter().map(|windows| ("window", windows.field.as_str())));
        fields
    }

    /// Returns the start of the names of the indexes on open buckets, whatever the page size and the windows are.
    pub(crate) fn index_family(&self) -> String {
        format!("{}_1_{}_lt_", self.key, self.count)
    }

    /// Returns the settings of the stored form.
    pub(crate) fn stored_form(&self) -> Document {
        let mut settings = doc! {
            "key": self.key.as_str(),
            KEY_TYPE: self.key_type,
            "items": self.items.as_str(),
            "count": self.count.as_str(),
            "time": self.time.as_ref().map(FieldName::as_str),
            "item_id": self.item_id.as_ref().map(FieldName::as_str),
            "page_size": self.page_size_bson(),
        };
        // Not for collections without figures, whose entries stay as they were.
        if let Some(figures) = &self.figures {
            settings.insert(FIGURES, figures.stored_form());
        }
        if let Some(seconds) = self.expire_after {
            settings.insert("expire_after_seconds", i64::from(seconds));
        }
        if let Some(windows) = &self.windows {
            settings.insert("window", windows.stored_form());
        }
        settings
    }

    /// Returns the same settings with another page size.
    pub(crate) fn stored_form_of_size(&self, page_size: u32) -> Document {
        let mut settings = self.stored_form();
        settings.insert("page_size", i32::try_from(page_size).unwrap_or(i32::MAX));
        settings
    }
}

#[cfg(any(test, fuzzing))]
impl Settings {
    /// Returns the settings of the manual's example.
    pub(crate) fn example() -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        Self {
            namespace: Namespace::new("shop", "trades"),
            key: field("customerId"),
            key_type: "int",
            items: field("history"),
            count: field("count"),
            time: Some(field("date")),
            item_id: None,
            figures: None,
            windows: None,
            expire_after: None,
            page_size: 10,
            retry: RetryPolicy::default(),
            max_time: None,
            open_index: open_index(&field("customerId"), &field("count"), 10, None),
        }
    }
}

/// Returns the settings of the manual's example, with sums and extremes of some fields, and counts of others.
#[cfg(any(test, fuzzing))]
pub(crate) fn with_figures(numbers: &[&str], labels: &[&str], times: bool) -> Settings {
    use self::figures::{GivenFigures, Kind};
    let mut given = GivenFigures {
        first_and_last: times,
        ..GivenFigures::default()
    };
    for name in numbers {
        let kinds = [Kind::Sum, Kind::Min, Kind::Max];
        given.fields.extend(kinds.map(|kind| (kind, (*name).to_owned())));
    }
    given
        .fields
        .extend(labels.iter().map(|name| (Kind::Counts, (*name).to_owned())));
    let settings = Settings::example();
    Settings {
        figures: given.build(settings.time.as_ref()).expect("valid settings"),
        ..settings
    }
}

/// Returns the settings of the manual's example, with windows of an hour.
#[cfg(any(test, fuzzing))]
pub(crate) fn with_windows() -> Settings {
    let mut settings = Settings::example();
    let windows = Windows::new(self::window::Window::Hour, "window".to_owned(), settings.time.as_ref());
    let windows = windows.expect("valid settings");
    settings.open_index = open_index(&settings.key, &settings.count, 10, Some(&windows));
    settings.windows = Some(windows);
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_windows_has_their_start_and_the_name_their_length() {
        let settings = with_windows();
        let keys = doc! { "customerId": 1, "window": 1 };
        let open = PlannedIndex::new("customerId_1_count_lt_10_window_3600s", keys).unique();
        assert_eq!(settings.indexes(), [open.partial(doc! { "count": { "$lt": 10 } })]);
        assert!(settings.open_index.starts_with(&settings.index_family()));
        let stored = doc! { "field": "window", "seconds": 3600_i64 };
        assert_eq!(settings.stored_form().get_document("window").unwrap(), &stored);
        assert_eq!(Settings::example().stored_form().get("window"), None);
    }

    #[test]
    fn an_expiry_has_an_index_on_the_time_of_the_last_item() {
        let settings = Settings {
            expire_after: Some(3600),
            ..with_figures(&[], &[], true)
        };
        let expiry = PlannedIndex::new("figures.date.last_1", doc! { "figures.date.last": 1 });
        let expiry = expiry
            .partial(doc! { "figures.date.count": { "$gt": 0 } })
            .expiring(3600);
        assert_eq!(settings.indexes().last(), Some(&expiry));
        assert_eq!(Settings::example().stored_form().get("expire_after_seconds"), None);
    }

    #[test]
    fn the_index_is_named_by_its_definition() {
        let open = PlannedIndex::new("customerId_1_count_lt_10", doc! { "customerId": 1 }).unique();
        let open = open.partial(doc! { "count": { "$lt": 10 } });
        assert_eq!(Settings::example().indexes(), [open]);
    }
}
