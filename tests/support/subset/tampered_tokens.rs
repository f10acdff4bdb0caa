//! Values that a tampered token can have.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{self, Binary, Bson, DateTime, Decimal128, Regex, Timestamp, Uuid, cstr, doc};

pub fn values() -> Vec<Bson> {
    let regex = Regex {
        pattern: cstr!(".*").into(),
        options: cstr!("").into(),
    };
    let code = bson::JavaScriptCodeWithScope {
        code: "return true".to_owned(),
        scope: doc! { "a": 1 },
    };
    let deep = |levels: usize| (0..levels).fold(Bson::Null, |inner, _| doc! { "a": inner }.into());
    vec![
        Bson::Null,
        Bson::Undefined,
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Symbol("a".to_owned()),
        Bson::JavaScriptCode("return true".to_owned()),
        Bson::JavaScriptCodeWithScope(code),
        Bson::RegularExpression(regex),
        Bson::Timestamp(Timestamp { time: 0, increment: 0 }),
        Bson::Decimal128("1".parse::<Decimal128>().unwrap()),
        Bson::Double(f64::NAN),
        Bson::Double(f64::NEG_INFINITY),
        Bson::Int64(i64::MAX),
        Bson::Boolean(true),
        Bson::DateTime(DateTime::MAX),
        Bson::ObjectId(ObjectId::from_bytes([0xff; 12])),
        Bson::Binary(Binary::from_uuid(Uuid::from_bytes([1; 16]))),
        "".into(),
        "$product_id".into(),
        "a\0b".into(),
        "x".repeat(3000).into(),
        Bson::Array(vec![]),
        Bson::Array(vec![1.into(), 2.into()]),
        doc! {}.into(),
        doc! { "$gt": 0 }.into(),
        doc! { "$in": [1, 2, 3] }.into(),
        doc! { "$where": "true" }.into(),
        doc! { "product_id": 1 }.into(),
        doc! { "": { "$exists": false } }.into(),
        deep(15),
        deep(150),
    ]
}

pub fn token_of(values: impl Into<Bson>) -> String {
    let bytes = bson::serialize_to_vec(&doc! { "v": values.into() }).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
