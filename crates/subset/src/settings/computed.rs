//! Fields of the parent that are computed from a field of all its children.

use mongo_patterns_core::FieldName;
use mongodb::bson::Bson;

/// What a computed field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Sum,
    Min,
    Max,
    /// The number of children with each value.
    CountBy,
}

/// A field of the parent, and the field of the children from which it is computed.
#[derive(Clone, Debug)]
pub(crate) struct ComputedField {
    pub(crate) figure: Figure,
    /// The field of a child.
    pub(crate) of: FieldName,
    /// The field of the parent.
    pub(crate) field: FieldName,
}

impl Figure {
    pub(crate) const ALL: [Self; 4] = [Self::Sum, Self::Min, Self::Max, Self::CountBy];

    /// Returns the name of the setting.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::CountBy => "count_by",
        }
    }

    /// Returns whether it is the value of one child, which an index finds.
    pub(crate) fn is_extreme(self) -> bool {
        matches!(self, Self::Min | Self::Max)
    }

    /// Returns the value for a parent without children.
    pub(crate) fn of_none(self) -> Bson {
        match self {
            Self::Sum => Bson::Int32(0),
            Self::Min | Self::Max => Bson::Null,
            Self::CountBy => Bson::Array(Vec::new()),
        }
    }
}
