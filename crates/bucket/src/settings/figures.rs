//! The settings of figures.

use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::{Document, doc};

/// The figures that the buckets of a collection have.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// The field of a bucket that contains them.
    pub(crate) field: FieldName,
    /// The figures of the fields of an item, ordered by their names.
    pub(crate) fields: Vec<Figure>,
}

/// The figures of one field of an item.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // any combination is valid
pub(crate) struct Figure {
    pub(crate) field: FieldName,
    pub(crate) sum: bool,
    pub(crate) min: bool,
    pub(crate) max: bool,
    /// The number of items with each value.
    pub(crate) counts: bool,
    /// The first and the last time.
    pub(crate) times: bool,
}

/// A figure of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sum,
    Min,
    Max,
    Counts,
    Times,
}

/// The figures that a builder was given.
#[derive(Clone, Debug)]
pub(crate) struct GivenFigures {
    pub(crate) field: String,
    pub(crate) fields: Vec<(Kind, String)>,
    pub(crate) first_and_last: bool,
}

impl Default for GivenFigures {
    fn default() -> Self {
        Self {
            field: "figures".to_owned(),
            fields: Vec::new(),
            first_and_last: false,
        }
    }
}

impl GivenFigures {
    /// Checks the names.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration).
    pub(crate) fn build(self, time: Option<&FieldName>) -> Result<Option<Figures>> {
        let mut figures = Figures {
            field: FieldName::new(self.field)?,
            fields: Vec::new(),
        };
        for (kind, name) in self.fields {
            figures.add(kind, FieldName::in_array(name)?);
        }
        if self.first_and_last {
            let time = time.ok_or_else(|| {
                configuration("the first and last times of a bucket need a time field: call time_field(..)")
            })?;
            figures.add(Kind::Times, FieldName::in_array(time.as_str())?);
        }
        Ok(Some(figures).filter(|figures| !figures.fields.is_empty()))
    }
}

impl Figures {
    fn add(&mut self, kind: Kind, field: FieldName) {
        let place = self
            .fields
            .binary_search_by(|figure| figure.field.as_str().cmp(field.as_str()));
        let place = place.unwrap_or_else(|place| {
            self.fields.insert(place, Figure::new(field));
            place
        });
        let figure = &mut self.fields[place];
        match kind {
            Kind::Sum => figure.sum = true,
            Kind::Min => figure.min = true,
            Kind::Max => figure.max = true,
            Kind::Counts => figure.counts = true,
            Kind::Times => figure.times = true,
        }
    }

    /// Returns whether only a pipeline can update them.
    pub(crate) fn need_pipeline(&self) -> bool {
        self.fields.iter().any(|figure| figure.counts)
    }

    /// Returns the figure with the first and the last time.
    pub(crate) fn times(&self) -> Option<&Figure> {
        self.fields.iter().find(|figure| figure.times)
    }

    /// Returns the settings, as the catalog stores them.
    pub(crate) fn stored_form(&self) -> Document {
        let names = |is_kept: fn(&Figure) -> bool| -> Vec<&str> {
            let such = self.fields.iter().filter(|figure| is_kept(figure));
            such.map(|figure| figure.field.as_str()).collect()
        };
        doc! {
            "field": self.field.as_str(),
            "sum": names(|figure| figure.sum),
            "min": names(|figure| figure.min),
            "max": names(|figure| figure.max),
            "count_by": names(|figure| figure.counts),
            "first_and_last": self.times().is_some(),
        }
    }
}

impl Figure {
    fn new(field: FieldName) -> Self {
        Self {
            field,
            sum: false,
            min: false,
            max: false,
            counts: false,
            times: false,
        }
    }

    pub(crate) fn is_of_numbers(&self) -> bool {
        self.sum || self.min || self.max
    }
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;

    use super::*;

    fn given(fields: &[(Kind, &str)], first_and_last: bool) -> GivenFigures {
        let fields = fields.iter().map(|(kind, name)| (*kind, (*name).to_owned()));
        GivenFigures {
            fields: fields.collect(),
            first_and_last,
            ..GivenFigures::default()
        }
    }

    #[test]
    fn figures_are_grouped_by_their_fields() {
        let date = FieldName::new("date").unwrap();
        let of = [
            (Kind::Sum, "qty"),
            (Kind::Counts, "ticker"),
            (Kind::Max, "qty"),
            (Kind::Sum, "qty"),
        ];
        let figures = given(&of, true).build(Some(&date)).unwrap().unwrap();
        let expected = doc! {
            "field": "figures",
            "sum": ["qty"],
            "min": [],
            "max": ["qty"],
            "count_by": ["ticker"],
            "first_and_last": true,
        };
        assert_eq!(figures.stored_form(), expected);
        let fields: Vec<&str> = figures.fields.iter().map(|figure| figure.field.as_str()).collect();
        assert_eq!(fields, ["date", "qty", "ticker"]);
        assert!(given(&[], false).build(None).unwrap().is_none());
    }

    #[test]
    fn names_that_cannot_be_a_part_of_a_path_are_refused() {
        for name in ["", "a.b", "$sum", "0", "a\0"] {
            let error = given(&[(Kind::Sum, name)], false).build(None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{name:?}");
        }
        let error = given(&[], true).build(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
}
