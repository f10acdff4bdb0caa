//! Finite numbers of stored documents, of any numeric type: compared exactly, and added as the server adds them.

mod decimal;

use std::cmp::Ordering;

use mongodb::bson::{Bson, Decimal128, RawBsonRef};

use self::decimal::Decimal;

/// How much sums of doubles may differ, relative to the sum of the absolute values. The server adds in other orders.
pub const TOLERANCE: f64 = 1e-9;

/// The greatest exponent of the first digit of a Decimal128.
const LAST_EXPONENT: i64 = 6144;

/// The largest integer up to which a double represents every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal128(Decimal128),
}

impl Number {
    /// Returns the number that a value is. `None` for NaN, infinity, and values of other types.
    pub fn of(value: RawBsonRef<'_>) -> Option<Self> {
        Some(match value {
            RawBsonRef::Int32(value) => Self::Int32(value),
            RawBsonRef::Int64(value) => Self::Int64(value),
            RawBsonRef::Double(value) if value.is_finite() => Self::Double(value),
            RawBsonRef::Decimal128(value) => {
                Decimal::of(value)?;
                Self::Decimal128(value)
            }
            _ => return None,
        })
    }

    /// Returns the number that a value is. `None` for NaN, infinity, and values of other types.
    pub fn of_value(value: &Bson) -> Option<Self> {
        Self::of(match value {
            Bson::Int32(value) => RawBsonRef::Int32(*value),
            Bson::Int64(value) => RawBsonRef::Int64(*value),
            Bson::Double(value) => RawBsonRef::Double(*value),
            Bson::Decimal128(value) => RawBsonRef::Decimal128(*value),
            _ => return None,
        })
    }

    /// Returns the integer that it is, of any type.
    pub fn whole(self) -> Option<i64> {
        self.integer().or_else(|| self.exact().integer())
    }

    /// Returns a text that equal numbers of all types share, and no others.
    pub(crate) fn canonical(self) -> String {
        match self.whole() {
            Some(value) => value.to_string(),
            None => self.exact().text(),
        }
    }

    /// Returns it with its own type.
    pub fn to_bson(self) -> Bson {
        match self {
            Self::Int32(value) => Bson::Int32(value),
            Self::Int64(value) => Bson::Int64(value),
            Self::Double(value) => Bson::Double(value),
            Self::Decimal128(value) => Bson::Decimal128(value),
        }
    }

    /// Compares by value, as the server does for all numeric types.
    pub fn compare(self, other: Self) -> Ordering {
        match (self.integer(), other.integer(), self, other) {
            (Some(a), Some(b), ..) => a.cmp(&b),
            (.., Self::Double(a), Self::Double(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            _ => self.exact().compare(&other.exact()),
        }
    }

    /// Returns whether the sum of this number of such values is certainly of the same type.
    pub fn can_be_added(self, times: u32) -> bool {
        match self {
            Self::Int32(_) => true,
            Self::Int64(value) => value.unsigned_abs() <= i64::MAX.unsigned_abs() / u64::from(times.max(1)),
            Self::Double(value) => value.abs() <= f64::MAX / f64::from(times.max(1)),
            Self::Decimal128(_) => self
                .exact()
                .first_exponent()
                .is_none_or(|first| first + i64::from(times.max(1).ilog10()) < LAST_EXPONENT),
        }
    }

    fn integer(self) -> Option<i64> {
        match self {
            Self::Int32(value) => Some(value.into()),
            Self::Int64(value) => Some(value),
            #[allow(clippy::cast_possible_truncation)] // in the range where doubles are exact
            Self::Double(value) if value.fract() == 0.0 && value.abs() <= EXACT => Some(value as i64),
            Self::Double(_) | Self::Decimal128(_) => None,
        }
    }

    fn exact(self) -> Decimal {
        match self {
            Self::Int32(value) => Decimal::from_integer(value.into()),
            Self::Int64(value) => Decimal::from_integer(value.into()),
            Self::Double(value) => Decimal::double(value),
            Self::Decimal128(value) => Decimal::of(value).unwrap_or_default(),
        }
    }

    /// Returns the nearest double.
    #[allow(clippy::cast_precision_loss)] // this is its purpose
    fn approximate(self) -> f64 {
        match self {
            Self::Int32(value) => value.into(),
            Self::Int64(value) => value as f64,
            Self::Double(value) => value,
            Self::Decimal128(value) => value.to_string().parse().unwrap_or(f64::INFINITY),
        }
    }
}

/// A sum of numbers. It has the type that the server gives it: decimals before doubles, before int64, before int32. A sum of
/// integers beyond int64 is a double.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    integers: i128,
    is_long: bool,
    doubles: Option<f64>,
    decimals: Option<Decimal>,
    /// The sum of the absolute values.
    size: f64,
}

impl Sum {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        self.size += number.approximate().abs();
        match number {
            Number::Int32(value) => self.integers += i128::from(value),
            Number::Int64(value) => {
                self.integers += i128::from(value);
                self.is_long = true;
            }
            Number::Double(value) => *self.doubles.get_or_insert(0.0) += value,
            Number::Decimal128(_) => {
                let exact = number.exact();
                self.decimals = Some(match &self.decimals {
                    Some(sum) => sum.plus(&exact).rounded(),
                    None => exact,
                });
            }
        }
    }

    /// Returns the sum.
    #[allow(clippy::cast_precision_loss)] // as the server adds integers to doubles
    pub fn to_bson(&self) -> Bson {
        if let Some(decimals) = &self.decimals {
            let mut sum = decimals.clone();
            if self.integers != 0 {
                sum = sum.plus(&Decimal::from_integer(self.integers));
            }
            if let Some(doubles) = self.doubles {
                sum = sum.plus(&Decimal::shortest(doubles));
            }
            return sum.rounded().to_bson();
        }
        if let Some(doubles) = self.doubles {
            return Bson::Double(doubles + self.integers as f64);
        }
        match (i32::try_from(self.integers), i64::try_from(self.integers)) {
            (Ok(sum), _) if !self.is_long => Bson::Int32(sum),
            (_, Ok(sum)) => Bson::Int64(sum),
            _ => Bson::Double(self.integers as f64),
        }
    }

    /// Returns whether a stored value is this sum: exactly, or almost if there are doubles in it.
    pub fn is(&self, stored: RawBsonRef<'_>) -> bool {
        let sum = self.to_bson();
        let (Some(stored), Some(sum)) = (Number::of(stored), Number::of_value(&sum)) else {
            return false;
        };
        let difference = (stored.approximate() - sum.approximate()).abs();
        // Stricter than the server's check, so that a repair sees what verification sees.
        stored.compare(sum) == Ordering::Equal || self.doubles.is_some() && difference <= self.size * TOLERANCE / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Number {
        Number::of(RawBsonRef::Decimal128(text.parse().unwrap())).unwrap()
    }

    fn sum(numbers: &[Number]) -> Bson {
        let mut sum = Sum::default();
        numbers.iter().for_each(|number| sum.add(*number));
        sum.to_bson()
    }

    #[test]
    fn numbers_of_different_types_are_compared_by_value() {
        use Number::{Double, Int32, Int64};
        let ascending = [
            decimal("-1E+6000"),
            Double(-1e300),
            Int64(i64::MIN),
            Double(-0.5),
            Int32(0),
            Double(5e-324),
            decimal("0.1"),
            // This double is above a tenth.
            Double(0.1),
            Int32(1),
            decimal("1.000000000000000000000000000000001"),
            Int64(i64::MAX - 1),
            Int64(i64::MAX),
            // It rounds up to 2 to the power of 63.
            Double(9_223_372_036_854_775_807.0),
            decimal("9.223372036854775809E+18"),
            Double(1e300),
            decimal("1E+6000"),
        ];
        for (n, a) in ascending.iter().enumerate() {
            for (m, b) in ascending.iter().enumerate() {
                assert_eq!(a.compare(*b), n.cmp(&m), "{a:?} {b:?}");
            }
        }
        for equal in [Int64(5), Double(5.0), decimal("5"), decimal("5.00"), decimal("0.5E+1")] {
            assert_eq!(Int32(5).compare(equal), Ordering::Equal, "{equal:?}");
        }
        assert_eq!(Double(-0.0).compare(decimal("0E+5")), Ordering::Equal);
    }

    #[test]
    fn nan_and_infinity_are_no_numbers() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Number::of(RawBsonRef::Double(value)), None);
        }
        for text in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(Number::of(RawBsonRef::Decimal128(text.parse().unwrap())), None);
        }
        assert_eq!(Number::of(RawBsonRef::String("5")), None);
        assert_eq!(Number::of(RawBsonRef::Null), None);
    }

    #[test]
    fn a_sum_has_the_type_that_the_server_gives_it() {
        use Number::{Double, Int32, Int64};
        assert_eq!(sum(&[]), Bson::Int32(0));
        assert_eq!(sum(&[Int32(1), Int32(2)]), Bson::Int32(3));
        assert_eq!(sum(&[Int32(i32::MAX), Int32(1)]), Bson::Int64(1 << 31));
        assert_eq!(sum(&[Int32(1), Int64(2)]), Bson::Int64(3));
        assert_eq!(sum(&[Int32(1), Double(0.5), Int64(2)]), Bson::Double(3.5));
        assert_eq!(
            sum(&[Int64(i64::MAX), Int64(1)]),
            Bson::Double(9_223_372_036_854_775_808.0)
        );
        let exact = |text: &str| Bson::Decimal128(text.parse().unwrap());
        assert_eq!(sum(&[decimal("0.1"), decimal("0.2")]), exact("0.3"));
        assert_eq!(
            sum(&[decimal("11.77"), decimal("12.00"), decimal("77.00")]),
            exact("100.77")
        );
        assert_eq!(sum(&[decimal("1.5"), Int32(2), Double(0.25)]), exact("3.75"));
        assert_eq!(sum(&[decimal("1"), decimal("-1")]), exact("0"));
        let all = "9999999999999999999999999999999999";
        assert_eq!(
            sum(&[decimal(all), decimal("1")]),
            exact("1000000000000000000000000000000000E+1")
        );
    }

    #[test]
    fn a_stored_sum_of_doubles_is_compared_with_a_tolerance() {
        let mut sum = Sum::default();
        [0.1, 0.2, 0.3].iter().for_each(|value| sum.add(Number::Double(*value)));
        assert!(sum.is(RawBsonRef::Double(0.6)) && sum.is(RawBsonRef::Double(0.6 + 1e-12)));
        assert!(!sum.is(RawBsonRef::Double(0.601)) && !sum.is(RawBsonRef::Double(f64::NAN)));
        let mut sum = Sum::default();
        sum.add(decimal("0.1"));
        assert!(sum.is(RawBsonRef::Decimal128("0.10".parse().unwrap())));
        assert!(!sum.is(RawBsonRef::Decimal128("0.1000000000000001".parse().unwrap())));
        assert!(!sum.is(RawBsonRef::Null));
    }

    #[test]
    fn values_whose_sum_could_overflow_are_known() {
        assert!(Number::Int64(i64::MAX / 10).can_be_added(10));
        assert!(!Number::Int64(i64::MAX / 10 + 1).can_be_added(10));
        assert!(!Number::Int64(i64::MIN).can_be_added(1));
        assert!(Number::Int32(i32::MIN).can_be_added(i32::MAX.unsigned_abs()));
        assert!(Number::Double(1e307).can_be_added(10) && !Number::Double(1e308).can_be_added(10));
        assert!(decimal("1E+6000").can_be_added(10) && !decimal("9E+6144").can_be_added(10));
    }
}
