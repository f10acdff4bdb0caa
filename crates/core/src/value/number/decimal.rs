//! Decimal numbers with any number of digits.

use std::cmp::Ordering;
use std::num::NonZeroU64;

use bigdecimal::{BigDecimal, Context, RoundingMode, ToPrimitive};
use mongodb::bson::{Bson, Decimal128};

/// The digits of a Decimal128.
const DIGITS: NonZeroU64 = NonZeroU64::new(34).unwrap();

/// A finite decimal number.
#[derive(Clone, Debug, Default)]
pub(super) struct Decimal(BigDecimal);

impl Decimal {
    /// Returns the value of a finite number.
    pub(super) fn of(value: Decimal128) -> Option<Self> {
        value.to_string().parse().ok().map(Self)
    }

    pub(super) fn from_integer(value: i128) -> Self {
        Self(value.into())
    }

    /// Returns the exact value of a finite double, which has up to 767 digits.
    pub(super) fn double(value: f64) -> Self {
        Self(format!("{value:.767e}").parse().unwrap_or_default())
    }

    /// Returns the shortest decimal that a finite double stands for.
    pub(super) fn shortest(value: f64) -> Self {
        Self(format!("{value:e}").parse().unwrap_or_default())
    }

    /// Returns the exponent of the first digit. `None` for zero.
    pub(super) fn first_exponent(&self) -> Option<i64> {
        let (digits, scale) = self.0.as_bigint_and_scale();
        let is_zero = digits.sign() == bigdecimal::num_bigint::Sign::NoSign;
        let count = i64::try_from(self.0.digits()).unwrap_or(i64::MAX);
        (!is_zero).then(|| count - 1 - scale)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }

    /// Returns the digits without zeros at the end, and the exponent.
    pub(super) fn text(&self) -> String {
        let (digits, scale) = self.0.normalized().into_bigint_and_scale();
        format!("{digits}E{}", -scale)
    }

    pub(super) fn integer(&self) -> Option<i64> {
        let is_short = self.first_exponent().is_none_or(|first| (0..19).contains(&first));
        let integer = self.0.to_i64().filter(|_| is_short)?;
        (self.0 == integer).then_some(integer)
    }

    /// Returns the exact sum.
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self(&self.0 + &other.0)
    }

    /// Rounds to the digits of a Decimal128, a tie to the even digit.
    pub(super) fn rounded(self) -> Self {
        if self.0.digits() <= DIGITS.get() {
            return self;
        }
        Self(Context::new(DIGITS, RoundingMode::HalfEven).round_decimal(self.0))
    }

    /// Returns it as a Decimal128: infinity if it is too large for one.
    pub(super) fn to_bson(&self) -> Bson {
        let (digits, scale) = self.0.as_bigint_and_scale();
        let sign = if digits.sign() == bigdecimal::num_bigint::Sign::Minus {
            "-"
        } else {
            ""
        };
        let parse = |text: String| text.parse::<Decimal128>();
        let value = parse(format!("{digits}E{}", -scale));
        let value = value.or_else(|_| parse(format!("{sign}Infinity")));
        value.map_or(Bson::Null, Bson::Decimal128)
    }
}
