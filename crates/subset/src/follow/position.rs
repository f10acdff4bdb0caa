//! Which time of the cluster a resume token stands for.

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{self, Bson, Timestamp, doc};
use mongodb::change_stream::event::ResumeToken;

use crate::repository::Shared;

/// A token is a key of an index as hexadecimal text, and the first thing in it is a timestamp: its type, its seconds,
/// and its number within them. `None` for a form of another server.
pub(crate) fn time_of(token: &ResumeToken) -> Option<Timestamp> {
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

/// The moment before, as there are several changes of one time where a transaction made them.
pub(crate) fn before(time: Timestamp) -> Timestamp {
    Timestamp {
        increment: time.increment.saturating_sub(1),
        ..time
    }
}

/// The time of the last write that the primary has, or those of all shards that have children.
pub(crate) async fn last_write(shared: &Shared) -> Result<Timestamp> {
    let children = &shared.children;
    let database = children.client().database(&children.namespace().db);
    let find = doc! { "find": children.name(), "projection": { "_id": 1 }, "limit": 1, "singleBatch": true };
    let reply = database.run_command(find).await?;
    match reply.get("operationTime") {
        Some(Bson::Timestamp(time)) => Ok(*time),
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            "the server does not tell the time of its last write, so it cannot be told when it is caught up: use until(..)",
        )),
    }
}

#[cfg(test)]
mod tests {
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
