use mongodb::bson::{RawDocumentBuf, rawdoc};
use proptest::prelude::*;

use super::*;
use crate::error::{Error, ErrorKind};

fn text(key: &(impl EncodeKey + ?Sized)) -> String {
    key.encode_key().unwrap().text().to_owned()
}

fn stored(value: impl Into<Bson>) -> RawDocumentBuf {
    let value: Bson = value.into();
    mongodb::bson::serialize_to_raw_document_buf(&mongodb::bson::doc! { "k": value }).unwrap()
}

fn from_stored<K: Key>(value: impl Into<Bson>) -> Option<K> {
    K::from_stored(stored(value).get("k").unwrap().unwrap())
}

#[test]
fn texts_are_the_manuals() {
    assert_eq!(text(&123_u32), "123");
    assert_eq!(text(&-5_i64), "-5");
    assert_eq!(text("a.b@example.com"), "a.b@example.com");
    assert_eq!(text("12_3"), "12%5F3");
    assert_eq!(text("50%_\0"), "50%25%5F%00");
    assert_eq!(text(r"auth0|7 DOMAIN\user"), r"auth0|7 DOMAIN\user");
    assert_eq!(text(r"\|\\|"), r"%5C|\%5C|");
    assert_eq!(text(""), "");
    let uuid = Uuid::parse_str("936DA01F-9ABD-4D9D-80C7-02AF85C822A8").unwrap();
    assert_eq!(text(&uuid), "936da01f-9abd-4d9d-80c7-02af85c822a8");
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Name(String);

impl AsKey for Name {
    type Key = String;

    fn to_key(&self) -> String {
        self.0.clone()
    }

    /// No empty ones.
    fn from_key(key: String) -> Option<Self> {
        (!key.is_empty()).then_some(Self(key))
    }
}

#[test]
fn a_type_of_the_users_is_encoded_as_the_key_that_it_stands_for() {
    let name = Name("12_3%".to_owned());
    assert_eq!(name.encode_key(), "12_3%".encode_key());
    assert_eq!(Name::decode_key("12%5F3%25"), Some(name.clone()));
    assert_eq!(from_stored("12_3%"), Some(name));
    assert_eq!(Name::decode_key("12_3"), None, "no text of a key");
    assert_eq!((Name::decode_key(""), from_stored::<Name>("")), (None, None));
    assert_eq!(from_stored::<Name>(5), None);
    assert_eq!(Name::BSON_TYPES, String::BSON_TYPES);
    assert_eq!(Name::expressions("$k"), String::expressions("$k"));
    let long = Name("x".repeat(MAX_KEY_BYTES + 1));
    assert_eq!(
        long.encode_key(),
        Err(KeyError::TooLong {
            bytes: MAX_KEY_BYTES + 1
        })
    );
}

#[test]
fn values_are_those_a_shell_writes() {
    assert_eq!(123_u64.encode_key().unwrap().value(), &Bson::Int32(123));
    assert_eq!((1_i64 << 40).encode_key().unwrap().value(), &Bson::Int64(1 << 40));
    assert_eq!("12_3".encode_key().unwrap().value(), &Bson::String("12_3".into()));
}

#[test]
fn keys_out_of_range_are_refused() {
    assert_eq!(u64::MAX.encode_key(), Err(KeyError::OutOfRange));
    assert!("x".repeat(MAX_KEY_BYTES).encode_key().is_ok());
    assert_eq!(
        "_".repeat(MAX_KEY_BYTES).encode_key(),
        Err(KeyError::TooLong {
            bytes: 3 * MAX_KEY_BYTES
        })
    );
    let error = Error::from(KeyError::TooLong { bytes: 2000 });
    assert_eq!(error.kind(), ErrorKind::InvalidKey);
    assert!(error.is_invalid_input());
}

#[test]
fn only_texts_of_keys_are_decoded() {
    for text in ["", "+5", "05", "-0", "5 ", "1e3", "99999999999999999999"] {
        assert_eq!(i64::decode_key(text), None, "{text}");
    }
    assert_eq!(u64::decode_key("18446744073709551615"), None);
    for text in ["a_b", "a%", "a%5", "a%5f", "a%41", "\0", "%5C", "%5Ca", r"\|"] {
        assert_eq!(String::decode_key(text), None, "{text}");
    }
    assert_eq!(ObjectId::decode_key("65398FB70000000000000000"), None);
    assert_eq!(
        Uuid::decode_key("936da01f9abd4d9d80c702af85c822a8"),
        None,
        "without hyphens"
    );
}

#[test]
fn numbers_are_read_from_any_numeric_type() {
    assert_eq!(from_stored::<u32>(123), Some(123));
    assert_eq!(from_stored::<u32>(123_i64), Some(123));
    assert_eq!(from_stored::<u32>(123.0), Some(123));
    assert_eq!(from_stored::<u32>(123.5), None);
    assert_eq!(from_stored::<u32>(-1), None);
    assert_eq!(from_stored::<i64>(f64::INFINITY), None);
    assert_eq!(from_stored::<u32>("123"), None);
    assert!(Uuid::from_stored(rawdoc! { "k": "x" }.get("k").unwrap().unwrap()).is_none());
}

#[test]
fn a_pattern_escapes_what_a_regular_expression_reads() {
    let pattern = |key: &str| key.encode_key().unwrap().pattern("");
    assert_eq!(pattern("123"), "^123_");
    assert_eq!(pattern("a.b|c"), r"^a\.b\|c_");
    assert_eq!(pattern(r"\^$?*+()[]{}"), r"^\\\^\$\?\*\+\(\)\[\]\{\}_");
    assert_eq!(7_u32.encode_key().unwrap().pattern("42"), "^7_42");
}

#[test]
fn an_encoded_key_does_not_show_itself() {
    assert!(!format!("{:?}", "alice".encode_key().unwrap()).contains("alice"));
}

#[test]
fn a_server_escapes_in_an_order_that_escapes_nothing_twice() {
    let replace = |input: Bson, find: &str, replacement: &str| {
        Bson::from(mongodb::bson::doc! { "$replaceAll": { "input": input, "find": find, "replacement": replacement } })
    };
    let text = replace("$k".into(), "%", "%25");
    let text = replace(replace(text, "_", "%5F"), "\0", "%00");
    assert_eq!(String::expressions("$k").text, replace(text, r"\|", "%5C|"));
    assert_eq!(String::expressions("$k").value, "$k".into());
}

/// As MongoDB 8.0 has it.
#[test]
fn a_server_prints_ids_itself() {
    let text = Bson::from(mongodb::bson::doc! { "$toString": "$k" });
    assert_eq!(Uuid::expressions("$k").text, text);
    assert_eq!(ObjectId::expressions("$k").text, text);
}

/// Texts of difficult characters: the separator, the escape, metacharacters, prefixes of each other.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![r"[12_%.*+|(\\^$\[\]a%5F25\x00]{0,8}", "\\PC{0,12}", any::<String>()]
}

proptest! {
    #[test]
    fn strings_come_back(key in hostile()) {
        let encoded = key.encode_key().unwrap();
        prop_assert!(!encoded.text().contains(['_', '\0']));
        let back = String::decode_key(encoded.text());
        prop_assert_eq!(back.as_ref(), Some(&key));
        prop_assert_eq!(from_stored::<String>(encoded.value().clone()), Some(key));
    }

    #[test]
    fn integers_come_back(key in any::<i64>()) {
        let encoded = key.encode_key().unwrap();
        prop_assert_eq!(i64::decode_key(encoded.text()), Some(key));
        prop_assert_eq!(from_stored::<i64>(encoded.value().clone()), Some(key));
    }

    #[test]
    fn object_ids_and_uuids_round_trip(bytes in any::<[u8; 16]>()) {
        let uuid = Uuid::from_bytes(bytes);
        let encoded = uuid.encode_key().unwrap();
        prop_assert_eq!(Uuid::decode_key(encoded.text()), Some(uuid));
        prop_assert_eq!(from_stored::<Uuid>(encoded.value().clone()), Some(uuid));
        let oid = ObjectId::from_bytes(bytes[..12].try_into().unwrap());
        let encoded = oid.encode_key().unwrap();
        prop_assert_eq!(ObjectId::decode_key(encoded.text()), Some(oid));
        prop_assert_eq!(from_stored::<ObjectId>(encoded.value().clone()), Some(oid));
    }

    #[test]
    fn no_key_has_anothers_ids(a in hostile(), b in hostile(), tail in "[0-9_]{1,20}") {
        let (encoded_a, encoded_b) = (a.encode_key().unwrap(), b.encode_key().unwrap());
        let id = encoded_a.id(&tail);
        prop_assert_eq!(encoded_a.tail(&id), Some(tail.as_str()));
        let range_of = |key: &EncodedKey| key.id("")..key.end();
        prop_assert!(range_of(&encoded_a).contains(&id));
        if a != b {
            prop_assert_eq!(encoded_b.tail(&id), None);
            prop_assert!(!range_of(&encoded_b).contains(&id));
        }
    }

    /// The ids of a key are adjacent, in the order of their tails.
    #[test]
    fn ids_sort_by_their_tails(key in hostile(), a in "[0-9_]{1,17}", b in "[0-9_]{1,17}") {
        let encoded = key.encode_key().unwrap();
        prop_assert_eq!(encoded.id(&a).cmp(&encoded.id(&b)), a.cmp(&b));
    }
}
