//! The supported update operators.

use mongodb::bson::Bson;

use crate::error::{Error, ErrorKind, Result};

/// An update operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Set,
    Unset,
    Inc,
    Mul,
    Min,
    Max,
    CurrentDate,
    Push,
    Pull,
    AddToSet,
}

impl Operator {
    pub(super) const ALL: [Self; 10] = [
        Self::Set,
        Self::Unset,
        Self::Inc,
        Self::Mul,
        Self::Min,
        Self::Max,
        Self::CurrentDate,
        Self::Push,
        Self::Pull,
        Self::AddToSet,
    ];

    /// Returns the operator of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.name() == name)
    }

    /// Returns the name in an update.
    pub fn name(self) -> &'static str {
        match self {
            Self::Set => "$set",
            Self::Unset => "$unset",
            Self::Inc => "$inc",
            Self::Mul => "$mul",
            Self::Min => "$min",
            Self::Max => "$max",
            Self::CurrentDate => "$currentDate",
            Self::Push => "$push",
            Self::Pull => "$pull",
            Self::AddToSet => "$addToSet",
        }
    }

    /// Returns whether the operator changes the elements of an array.
    pub fn is_of_arrays(self) -> bool {
        matches!(self, Self::Push | Self::Pull | Self::AddToSet)
    }

    /// Checks a value, as far as it does not depend on the stored one.
    pub(super) fn check(self, value: &Bson) -> Result<()> {
        match self {
            Self::Inc | Self::Mul if !is_number(value) => Err(refused(
                "the value of $inc or $mul is not a number, nothing was sent: pass a number",
            )),
            Self::CurrentDate if !is_date_type(value) => Err(refused(
                "the value of $currentDate is invalid, nothing was sent: pass true, or `{ \"$type\": \"date\" }` or `\"timestamp\"`",
            )),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(super) fn example(self) -> Bson {
        match self {
            Self::CurrentDate => true.into(),
            _ => 1.into(),
        }
    }
}

/// The error of an update that is not sent.
pub(super) fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn is_number(value: &Bson) -> bool {
    matches!(
        value,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)
    )
}

fn is_date_type(value: &Bson) -> bool {
    match value {
        Bson::Boolean(is_date) => *is_date,
        Bson::Document(value) => value.len() == 1 && matches!(value.get_str("$type"), Ok("date" | "timestamp")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn values_of_another_type_are_refused() {
        for operator in [Operator::Inc, Operator::Mul] {
            for value in [Bson::Null, "1".into(), doc! { "$gt": 1 }.into(), true.into()] {
                assert!(operator.check(&value).is_err(), "{operator:?} {value}");
            }
            for value in [Bson::Int32(1), Bson::Int64(1), Bson::Double(f64::NAN)] {
                assert!(operator.check(&value).is_ok(), "{operator:?} {value}");
            }
        }
        let date = Operator::CurrentDate;
        for value in [
            Bson::Boolean(false),
            1.into(),
            doc! {}.into(),
            doc! { "$type": "int" }.into(),
            doc! { "$type": "date", "a": 1 }.into(),
        ] {
            assert!(date.check(&value).is_err(), "{value}");
        }
        for value in [Bson::Boolean(true), doc! { "$type": "date" }.into()] {
            assert!(date.check(&value).is_ok(), "{value}");
        }
        assert!(Operator::Push.check(&doc! { "$each": [1] }.into()).is_ok());
    }
}
