//! The cluster times of resume tokens.

use mongodb::bson::{self, Bson, Timestamp};
use mongodb::change_stream::event::ResumeToken;

use super::{Target, commands};
use crate::error::{Error, ErrorKind, Result};
use crate::send;

/// Returns the cluster time of a token. `None` for a token of another form, from another server.
///
/// A token is an index key as hexadecimal text. It begins with a timestamp: the type, the seconds and the increment.
pub(super) fn time_of(token: &ResumeToken) -> Option<Timestamp> {
    const TIMESTAMP: &str = "82";
    let token = bson::serialize_to_bson(token).ok()?;
    let data = token.as_document()?.get_str("_data").ok()?;
    let digits = data.strip_prefix(TIMESTAMP)?;
    let digits = digits
        .get(..16)
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    let [time, increment] = [number >> 32, number & 0xffff_ffff].map(|half| u32::try_from(half).ok());
    Some(Timestamp {
        time: time?,
        increment: increment?,
    })
}

/// Returns the time before. The changes of a transaction share one time, so more of them may follow.
pub(super) fn before(time: Timestamp) -> Timestamp {
    Timestamp {
        increment: time.increment.saturating_sub(1),
        ..time
    }
}

/// Returns the time of the last write of the primary, or of all shards that have documents of the collections.
pub(super) async fn last_write(target: &dyn Target) -> Result<Timestamp> {
    let watched = target.watched();
    let database = watched.client().database(&watched.namespace().db);
    let mut last = None;
    for collection in [watched.name()].into_iter().chain(target.further()) {
        let reply = send::run_read(&database, commands::any_document(collection)).await?;
        if let Some(Bson::Timestamp(time)) = reply.get("operationTime") {
            last = last.max(Some(*time));
        }
    }
    last.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the server does not report the time of its last write, so the follower cannot know when it is current: use until(..)",
        )
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn token(data: &str) -> ResumeToken {
        bson::deserialize_from_bson(Bson::Document(doc! { "_data": data })).unwrap()
    }

    #[test]
    fn a_token_begins_with_its_time() {
        let time = time_of(&token("8265A1B2C3000000072B0229296E04")).unwrap();
        assert_eq!((time.time, time.increment), (0x65A1_B2C3, 7));
        assert_eq!(before(time).increment, 6);
        for other in [
            "",
            "82",
            "8265A1B2C30000",
            "8165A1B2C3000000072B",
            "82+5A1B2C3000000072B",
            "82é",
        ] {
            assert_eq!(time_of(&token(other)), None, "{other}");
        }
    }
}
