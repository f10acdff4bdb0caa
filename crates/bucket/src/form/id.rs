//! The `_id` of a bucket: the key, `_`, the second, and a suffix where one second has several buckets.

use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::bson::DateTime;

/// Ten digits hold every second from 1970 to 2286. The seconds of today have ten digits anyway, as in MongoDB's manual.
pub(crate) const SECOND_DIGITS: usize = 10;
pub(crate) const LAST_SECOND: i64 = 9_999_999_999;
pub(crate) const SUFFIX_DIGITS: usize = 6;
pub(crate) const LAST_SUFFIX: u32 = 999_999;

/// The part of a bucket's `_id` after the key: the second, and the suffix, from 1, if there is one.
///
/// Tails are ordered as text. In buckets of other programs the second can have another number of digits, and a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail<'a> {
    pub(crate) second: &'a str,
    pub(crate) suffix: u32,
}

impl<'a> Tail<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (second, suffix) = match text.split_once('_') {
            None => (text, 0),
            Some((second, suffix)) if suffix.len() == SUFFIX_DIGITS && is_digits(suffix) => {
                (second, suffix.parse().ok()?)
            }
            Some(_) => return None,
        };
        let digits = second.strip_prefix('-').unwrap_or(second);
        ((1..=20).contains(&digits.len()) && is_digits(digits)).then_some(Self { second, suffix })
    }

    /// Returns the tail with a second of ten digits, so that the order of the text is the order of time. A second before
    /// 1970 becomes the first second. `None` after the year 2286.
    pub(crate) fn normalized(self) -> Option<String> {
        let second = self.number();
        if second > i128::from(LAST_SECOND) {
            return None;
        }
        let suffix = if second < 0 { 0 } else { self.suffix };
        with_suffix(&format!("{:0SECOND_DIGITS$}", second.max(0)), suffix).ok()
    }

    /// Returns the second as a number.
    pub(crate) fn number(self) -> i128 {
        self.second.parse().unwrap_or_default() // a sign and 20 digits at most
    }

    /// Returns the next tail of the same second.
    pub(crate) fn successor(self) -> Result<String> {
        with_suffix(self.second, self.suffix + 1)
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the second of a time, if an `_id` can hold it.
pub(crate) fn second(time: DateTime) -> Result<i64> {
    let second = time.timestamp_millis().div_euclid(1000);
    if !(0..=LAST_SECOND).contains(&second) {
        return Err(Error::new(
            ErrorKind::InvalidTime,
            "the time of the item is out of range: use one from 1970-01-01T00:00:00Z to 2286-11-20T17:46:39Z",
        ));
    }
    Ok(second)
}

/// Returns a second as the `_id` has it.
pub(crate) fn digits(second: i64) -> String {
    format!("{second:0SECOND_DIGITS$}")
}

/// Returns the second of a time, as the `_id` has it.
pub(crate) fn second_text(time: DateTime) -> Result<String> {
    second(time).map(digits)
}

/// Returns the second of a time, as the `_id` has it, at least the first and at most the last.
pub(crate) fn nearest_second_text(time: DateTime) -> String {
    digits(time.timestamp_millis().div_euclid(1000).clamp(0, LAST_SECOND))
}

/// Returns the tail of a bucket of this second. The first one, 0, has no suffix.
pub(crate) fn with_suffix(second: &str, suffix: u32) -> Result<String> {
    match suffix {
        0 => Ok(second.to_owned()),
        1..=LAST_SUFFIX => Ok(format!("{second}_{suffix:0SUFFIX_DIGITS$}")),
        _ => Err(Error::new(
            ErrorKind::InvalidTime,
            "a second of the key has 1,000,000 buckets, which is the limit: spread the times, or use larger pages",
        )),
    }
}

/// Returns the key in a bucket's `_id`, and the tail after it.
pub(crate) fn key_of_id<K: Key>(id: &str) -> Option<(EncodedKey, &str)> {
    let (text, tail) = id.split_once('_')?;
    let key = K::decode_key(text)?.encode_key().ok()?;
    Tail::parse(tail).is_some().then_some((key, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_a_fixed_width_and_a_range() {
        let text = |millis| second_text(DateTime::from_millis(millis));
        assert_eq!(text(1_698_335_223_434).unwrap(), "1698335223");
        assert_eq!(text(852_076_800_000).unwrap(), "0852076800", "1997 has nine digits");
        assert_eq!(text(0).unwrap(), "0000000000");
        assert_eq!(text(9_999_999_999_999).unwrap(), "9999999999");
        for millis in [-1, 10_000_000_000_000, i64::MIN, i64::MAX] {
            assert_eq!(text(millis).unwrap_err().kind(), ErrorKind::InvalidTime, "{millis}");
        }
    }

    #[test]
    fn suffixes_sort_between_seconds() {
        let mut tails = vec![
            "1698335223".to_owned(),
            with_suffix("1698335223", 1).unwrap(),
            with_suffix("1698335223", 999_999).unwrap(),
            "1698335224".to_owned(),
        ];
        let expected = tails.clone();
        tails.sort();
        assert_eq!(tails, expected);
        assert_eq!(
            with_suffix("1698335223", 1_000_000).unwrap_err().kind(),
            ErrorKind::InvalidTime
        );
    }

    #[test]
    fn a_tail_is_parsed_strictly() {
        let tail = Tail::parse("1698335223_000041").unwrap();
        assert_eq!((tail.second, tail.suffix), ("1698335223", 41));
        assert_eq!(tail.successor().unwrap(), "1698335223_000042");
        assert!(Tail::parse("852076800").is_some() && Tail::parse("-86400").is_some());
        for text in [
            "",
            "-",
            "_000001",
            "3_1698335223",
            "1698335223_1",
            "1698335223_00000x",
            "12a",
            "1_000001_000001",
        ] {
            assert_eq!(Tail::parse(text), None, "{text}");
        }
    }
}
