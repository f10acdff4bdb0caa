//! Ids and fields that look like operators, paths or expressions are values, in every call of every pattern.

mod model;
mod patterns;

use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Regex, Timestamp, Uuid, cstr, doc};

use super::each;
use model::{AnyValues, Values};
use patterns::{Contacts, Embedded, Histories, Intervals, Items, Lists, Orders, Subsets};

type New = for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, Box<dyn AnyValues>>;

const fn of<V: Values>(name: &'static str) -> (&'static str, New) {
    (name, |db| {
        Box::pin(async move { Box::new(V::new(db).await) as Box<dyn AnyValues> })
    })
}

async fn for_each(test: impl AsyncFn(&TestDatabase, &dyn AnyValues) + Sync) {
    let all = [
        of::<Items>("bucket"),
        of::<Embedded>("embedded"),
        of::<Histories>("history"),
        of::<Intervals>("intervals"),
        of::<Lists>("outlier"),
        of::<Orders>("reference"),
        of::<Contacts>("schema"),
        of::<Subsets>("subset"),
    ];
    let one = async |db: &TestDatabase, (_, new): (&'static str, New)| {
        let values = new(db).await;
        test(db, &*values).await;
    };
    each(all, |(name, _)| name, one).await;
}

#[tokio::test]
async fn an_id_of_any_type_is_one_value() {
    for_each(ids).await;
}

/// Such as `{ "$date": 5 }`, which is not the date that it describes.
#[tokio::test]
async fn extended_json_is_stored_literally() {
    for_each(extended_json).await;
}

#[tokio::test]
async fn fields_of_any_name_and_type_are_stored_literally() {
    for_each(fields).await;
}

fn ids_of_all_types() -> Vec<Bson> {
    vec![
        "$name".into(),
        "$$ROOT".into(),
        "".into(),
        "a.b".into(),
        ".*".into(),
        7.into(),
        (1_i64 << 60).into(),
        (-1.5).into(),
        f64::NAN.into(),
        false.into(),
        ObjectId::from_bytes([7; 12]).into(),
        Uuid::from_bytes([7; 16]).into(),
        DateTime::from_millis(-1).into(),
        Bson::Timestamp(Timestamp { time: 7, increment: 7 }),
        doc! {}.into(),
        doc! { "a": [1, Bson::Null], "b": { "c": "$name" } }.into(),
    ]
}

fn operators() -> Vec<Bson> {
    let operators = [
        doc! { "$gt": "" },
        doc! { "$ne": 1 },
        doc! { "$exists": true },
        doc! { "$literal": "a" },
        doc! { "$eq": 1, "a": 2 },
    ];
    operators.map(Bson::from).to_vec()
}

async fn ids(_: &TestDatabase, values: &dyn AnyValues) {
    let (mut ids, absent) = (ids_of_all_types(), operators());
    if values.operators() {
        ids.extend(absent.clone());
    }
    ids.retain(|id| values.is_id(id));
    if !values.operators() {
        values.put(&ids[0], &doc! { "number": 0 }).await;
    }
    // One that matches nothing does not match all.
    for id in absent {
        assert_eq!(values.read(&id).await, [] as [Document; 0], "{id}");
        assert!(!values.remove(&id).await, "{id}");
    }
    for (number, id) in (0..).zip(&ids).skip(usize::from(!values.operators())) {
        values.put(id, &doc! { "number": number }).await;
    }
    let check = async |from: usize| {
        for (number, id) in ids.iter().enumerate().skip(from) {
            let read = values.read(id).await;
            assert!(!read.is_empty(), "{id}");
            for document in read {
                assert_eq!(
                    document.get_i32("number").ok(),
                    i32::try_from(number).ok(),
                    "{id}: {document}"
                );
            }
        }
    };
    check(0).await;
    assert_eq!(values.findings().await, 0);
    for (number, id) in ids.iter().enumerate() {
        assert!(values.remove(id).await, "{id}");
        assert_eq!(values.read(id).await, [] as [Document; 0], "{id}");
        if number % 8 == 0 {
            check(number + 1).await;
        }
    }
    assert_eq!(values.findings().await, 0);
}

/// Fields that would be an operator, a path, an expression, or of a type that drivers no longer write.
fn hostile() -> Vec<Document> {
    let regex = Regex {
        pattern: cstr!(".*").into(),
        options: cstr!("i").into(),
    };
    vec![
        doc! { "$each": [1, 2], "$position": 0, "$slice": 0 },
        doc! { "a.b": 1, "$set": { "name": "$name" }, "$": "$number" },
        doc! { "x": "$$ROOT", "y": "$x", "deep": { "$literal": [{ "$inc": { "a.b": 1 } }], "c": ["$$NOW", "$$REMOVE"] } },
        doc! { "": 1, "$ref": 1, "$id": 2, "0": "zero", "4": { "0": 4 } },
        doc! { "undefined": Bson::Undefined, "in": { "undefined": Bson::Undefined, "symbol": Bson::Symbol("s".to_owned()) } },
        doc! { "code": Bson::JavaScriptCode("f()".to_owned()), "regex": regex, "min": Bson::MinKey, "max": Bson::MaxKey },
        doc! { "nan": f64::NAN, "null": Bson::Null, "zero": -0.0, "array": [Bson::Array(vec![]), Bson::Int64(1), Bson::Null] },
    ]
}

async fn fields(_: &TestDatabase, values: &dyn AnyValues) {
    let hostile = hostile();
    let id = |number: usize| Bson::from(format!("${number}"));
    for (number, fields) in hostile.iter().enumerate() {
        values.put(&id(number), fields).await;
    }
    // As text, in which NaN is equal.
    let text = |value: Option<&Bson>| format!("{value:?}");
    for (number, fields) in hostile.into_iter().enumerate() {
        let read = values.read(&id(number)).await;
        assert!(!read.is_empty(), "{fields}");
        for document in read {
            for (name, value) in &fields {
                assert_eq!(text(document.get(name)), text(Some(value)), "{name}: {document}");
            }
            if document.contains_key("v") {
                assert_eq!(
                    text(document.get("v")),
                    text(Some(&fields.clone().into())),
                    "{document}"
                );
            }
        }
    }
    assert_eq!(values.findings().await, 0);
}

async fn extended_json(db: &TestDatabase, values: &dyn AnyValues) {
    let oid = doc! { "$oid": "65398fb70000000000000000" };
    let literal = doc! { "date": { "$date": 5_i64 }, "long": [{ "$numberLong": "1" }], "oid": oid };
    values.put(&"a".into(), &doc! { "literal": &literal }).await;
    let database = db.plain_client().database(db.database().name());
    let mut found = Vec::new();
    for name in database.list_collection_names().await.unwrap() {
        let collection = database.collection::<RawDocumentBuf>(&name);
        let documents = collection.find(doc! {}).await.unwrap();
        let documents: Vec<RawDocumentBuf> = documents.try_collect().await.unwrap();
        for document in documents {
            // Without serde, which would decode it.
            find_literals(&Document::try_from(&document).unwrap().into(), &mut found);
        }
    }
    assert!(found.len() >= 2, "{found:?}");
    assert!(found.iter().all(|value| *value == literal.clone().into()), "{found:?}");
}

/// Finds the values of all fields `literal`.
fn find_literals(value: &Bson, found: &mut Vec<Bson>) {
    match value {
        Bson::Array(values) => values.iter().for_each(|value| find_literals(value, found)),
        Bson::Document(document) => {
            for (field, value) in document {
                match field.as_str() {
                    "literal" => found.push(value.clone()),
                    _ => find_literals(value, found),
                }
            }
        }
        _ => {}
    }
}
