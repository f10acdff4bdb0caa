//! The `_id` of a bucket: the key, `_`, the second, and a suffix where one second opened several.

use std::fmt;
use std::str::FromStr;

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};

/// Ten digits hold every second from 1970 to 2286, and today's have ten anyway, as in MongoDB's manual.
pub(crate) const SECOND_DIGITS: usize = 10;
pub(crate) const LAST_SECOND: i64 = 9_999_999_999;
pub(crate) const SUFFIX_DIGITS: usize = 6;
pub(crate) const LAST_SUFFIX: u32 = 999_999;

/// Which second a new bucket carries in its `_id`, and so where it stands among the buckets of its key.
///
/// ```no_run
/// # use mongo_patterns_bucket::{BucketRepository, IdPolicy};
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     collection: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let trades = BucketRepository::<u32, Document>::builder(collection)
///     .key_field("customerId")
///     .items_field("history")
///     .id_policy(IdPolicy::Monotonic)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdPolicy {
    /// The second of the item that opens it, as in MongoDB's manual. Opening costs nothing extra. An item that comes
    /// late and opens a bucket opens it among the older ones.
    #[default]
    ItemTime,
    /// That second, but never before a bucket of the key that existed when the append was called: pages are in the order
    /// in which they were opened, and a late item goes to the end. Two buckets that different writers open at the same
    /// moment stand in either order. Opening a bucket costs two more round trips: one that finds no open bucket, and a
    /// read of the newest one.
    ///
    /// While items are not later than the newest bucket, new ones get suffixes of its second. After 1,000,000 buckets of
    /// one second, an append that would open another one is [`InvalidTime`](ErrorKind::InvalidTime).
    Monotonic,
}

/// What follows the key in the `_id` of a bucket: the second, and the suffix, from 1, where there is one.
///
/// Tails compare as text. Buckets from other hands can have seconds of other widths, and a sign.
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

    /// The tail of the same bucket in the form that we give, so that text sorts as time does: seconds of ten digits.
    /// What is before 1970 has no such form and becomes the first second. `None` for what is after 2286.
    pub(crate) fn normal(self) -> Option<String> {
        let second = self.number();
        if second > i128::from(LAST_SECOND) {
            return None;
        }
        let suffix = if second < 0 { 0 } else { self.suffix };
        with_suffix(&format!("{:0SECOND_DIGITS$}", second.max(0)), suffix).ok()
    }

    /// The second as a number.
    pub(crate) fn number(self) -> i128 {
        self.second.parse().unwrap_or_default() // a sign and 20 digits at most
    }

    /// The first tail after this one in the same second.
    pub(crate) fn successor(self) -> Result<String> {
        with_suffix(self.second, self.suffix + 1)
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The second of a time, if an `_id` can hold it.
pub(crate) fn second(time: DateTime) -> Result<i64> {
    let second = time.timestamp_millis().div_euclid(1000);
    if !(0..=LAST_SECOND).contains(&second) {
        return Err(Error::new(
            ErrorKind::InvalidTime,
            "the item's time is out of range: bucket ids hold seconds from 1970-01-01T00:00:00Z to 2286-11-20T17:46:39Z",
        ));
    }
    Ok(second)
}

/// A second as the `_id` holds it.
pub(crate) fn digits(second: i64) -> String {
    format!("{second:0SECOND_DIGITS$}")
}

/// The second of a time, as the `_id` holds it.
pub(crate) fn second_text(time: DateTime) -> Result<String> {
    second(time).map(digits)
}

/// The tail of a bucket of this second; no suffix means the first one.
pub(crate) fn with_suffix(second: &str, suffix: u32) -> Result<String> {
    match suffix {
        0 => Ok(second.to_owned()),
        1..=LAST_SUFFIX => Ok(format!("{second}_{suffix:0SUFFIX_DIGITS$}")),
        _ => Err(Error::new(
            ErrorKind::InvalidTime,
            "one second of this key has 1,000,000 buckets, and no more fit: spread the times, or use larger pages",
        )),
    }
}

/// A place between the pages of a key: right after, or right before, the page that it was taken from.
///
/// Its text is short, safe in a URL, and holds nothing but the time at which that page was opened, so a web service
/// can hand it out. Someone who makes one up gets another place among the pages of the key that the service passes,
/// and nothing else. It stays good when pages are added, removed or filled.
///
/// ```
/// use mongo_patterns_bucket::PageToken;
///
/// let token: PageToken = "1698335223_000001".parse()?;
/// assert_eq!(token.to_string(), "1698335223_000001");
/// assert!("' || true".parse::<PageToken>().is_err());
/// # Ok::<(), mongo_patterns_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PageToken(String);

impl PageToken {
    pub(crate) fn from_tail(tail: &str) -> Self {
        Self(tail.to_owned())
    }

    pub(crate) fn tail(&self) -> &str {
        &self.0
    }
}

impl FromStr for PageToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match Tail::parse(text) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(Error::new(
                ErrorKind::InvalidArgument,
                "this is no page token: pass one on as it was handed out",
            )),
        }
    }
}

impl TryFrom<String> for PageToken {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<PageToken> for String {
    fn from(token: PageToken) -> Self {
        token.0
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
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
    fn tails_are_read_strictly() {
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

    #[test]
    fn a_token_survives_serde_and_rejects_what_it_is_not() {
        let token: PageToken = "1698335223".parse().unwrap();
        let document = mongodb::bson::serialize_to_bson(&token).unwrap();
        assert_eq!(document.as_str(), Some("1698335223"));
        assert_eq!(
            mongodb::bson::deserialize_from_bson::<PageToken>(document).unwrap(),
            token
        );
        for text in ["", "x", "1698335223'", "$gt", "999999999999999999999"] {
            let error = text.parse::<PageToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        }
    }
}
