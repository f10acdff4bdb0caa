//! Positions among the intervals of an id.

mongo_patterns_core::number_token! {
    /// A position among the intervals of an id, from a page of [`intervals`](crate::IntervalRepository::intervals).
    IntervalToken(i64), i64::MIN, i64::MAX
}

#[cfg(test)]
mod tests {
    use super::IntervalToken;

    #[test]
    fn a_time_can_be_before_1970() {
        let token = IntervalToken::after(-17);
        assert_eq!(token.to_string().parse::<IntervalToken>().unwrap(), token);
        for forged in ["-0", "--1", "1.0", "9223372036854775808"] {
            assert!(forged.parse::<IntervalToken>().is_err(), "{forged}");
        }
    }
}
