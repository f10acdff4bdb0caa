//! Figures: fields of the parent that depend on all of its children.

use mongo_patterns_core::FieldName;
use mongodb::bson::Bson;

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The number of children.
    Count,
    Sum,
    Min,
    Max,
    /// The number of children with each value.
    CountBy,
}

/// A field of the parent, and the field of the children from which it is computed.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) kind: Kind,
    /// The field of a child. The number of children takes their id.
    pub(crate) of: FieldName,
    /// The field of the parent.
    pub(crate) field: FieldName,
}

impl Figure {
    /// Returns whether it is computed from the values of this field.
    pub(crate) fn is_from(&self, source: &FieldName) -> bool {
        self.kind != Kind::Count && self.of == *source
    }
}

impl Kind {
    /// Returns the name of the setting, and of the value in the row of a source.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "total",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::CountBy => "count_by",
        }
    }

    /// Returns the method of the builder that names its field.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Count => "total_field",
            computed => computed.name(),
        }
    }

    /// Returns whether it is the value of one child, which an index finds.
    pub(crate) fn is_extreme(self) -> bool {
        matches!(self, Self::Min | Self::Max)
    }

    /// Returns the value for a parent without children.
    pub(crate) fn of_none(self) -> Bson {
        match self {
            Self::Count | Self::Sum => Bson::Int32(0),
            Self::Min | Self::Max => Bson::Null,
            Self::CountBy => Bson::Array(Vec::new()),
        }
    }
}
