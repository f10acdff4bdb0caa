//! The subsets of a parent after the first one.

use mongo_patterns_core::FieldName;
use mongodb::bson::{Bson, Document, doc};

use super::filter::{Filter, storable};
use super::order::{Direction, order_names};

/// A further subset of a parent.
#[derive(Clone, Debug)]
pub(crate) struct FurtherSubset {
    /// The array of the parent.
    pub(crate) field: FieldName,
    /// The order of the children. It ends with their id, which makes it total.
    pub(crate) order: Vec<(FieldName, Direction)>,
    /// The maximum number of embedded children.
    pub(crate) size: u32,
    /// The children among which the first ones are embedded.
    pub(crate) filter: Filter,
    /// The embedded fields of a child; `None` means all but `_id` and the parent.
    pub(crate) embedded_fields: Option<Vec<FieldName>>,
}

impl FurtherSubset {
    /// Returns the settings of the stored form.
    pub(super) fn stored_form(&self) -> Document {
        let names = |fields: &[FieldName]| fields.iter().map(|field| field.as_str().into()).collect::<Vec<Bson>>();
        let filter = self.filter.query();
        doc! {
            "order": order_names(&self.order),
            "size": i64::from(self.size),
            "filter": (!filter.is_empty()).then(|| storable(&filter.clone().into())),
            "embedded_fields": self.embedded_fields.as_deref().map(names),
        }
    }
}
