//! Elements of unique lists are compared as the server compares them, by every call.

use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::{OutlierRepository, Pushed};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp, doc};
use proptest::prelude::*;
use proptest::sample::select;

use support::model::check_cases;
use support::outlier::{builder, clear, ready};

type Lists = OutlierRepository<Document, Bson>;

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

/// Pairs of adjacent values, and values with several representations.
fn numbers() -> Vec<Bson> {
    let integers = [0, 1, -1, 10, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN];
    let doubles = "0 -0 1 -1 0.1 0.5 -0.5 10 9007199254740992 9223372036854775808 -9223372036854775808 1e22 1e23 1e300 \
        2.2250738585072014e-308 5e-324 1.7976931348623157e308 inf -inf NaN";
    let doubles = doubles.split_whitespace().map(|text| text.parse().unwrap());
    let decimals = "0 -0 0E+10 1 1.0 10E-1 -1 1E+1 0.1 0.10 0.5 -0.50 9007199254740993 9223372036854775807 \
        9223372036854775808 1E+22 1E+23 99999999999999991611392 0.1000000000000000055511151231257827 1E+6144 1E-6176 \
        Infinity -Infinity NaN -NaN";
    // Not the one form that the standard has for a number: the server takes it for zero.
    let mut not_canonical = [0xff; 16];
    not_canonical[15] = 0x6f;
    let int32 = [0, 1, -1, 10, i32::MAX].map(Bson::Int32);
    (integers.map(Bson::Int64).into_iter())
        .chain(int32)
        .chain(doubles.map(Bson::Double))
        .chain([Bson::Double(f64::from_bits(0xfff8_0000_0000_0001))])
        .chain(decimals.split_whitespace().map(decimal))
        .chain([Bson::Decimal128(Decimal128::from_bytes(not_canonical))])
        .collect()
}

fn others() -> Vec<Bson> {
    let binary = |subtype, bytes: &[u8]| {
        Bson::Binary(Binary {
            subtype,
            bytes: bytes.to_vec(),
        })
    };
    let regex = |pattern: &str, options: &str| {
        Bson::RegularExpression(Regex {
            pattern: pattern.try_into().unwrap(),
            options: options.try_into().unwrap(),
        })
    };
    let scope = |code: &str, scope| {
        Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
            code: code.to_owned(),
            scope,
        })
    };
    vec![
        Bson::Null,
        true.into(),
        false.into(),
        "".into(),
        "a".into(),
        "A".into(),
        "a\", \"y\": \"b".into(),
        "$a".into(),
        "ä".into(),
        "1".into(),
        Bson::Symbol("a".to_owned()),
        Bson::Symbol("".to_owned()),
        Bson::JavaScriptCode("a".to_owned()),
        scope("a", doc! {}),
        scope("a", doc! { "b": 1 }),
        scope("a", doc! { "b": 2 }),
        regex("a", ""),
        regex("a", "i"),
        regex("A", "i"),
        binary(BinarySubtype::Generic, b"a"),
        binary(BinarySubtype::Generic, b""),
        binary(BinarySubtype::UserDefined(0x80), b"a"),
        binary(BinarySubtype::BinaryOld, b"a"),
        ObjectId::from_bytes([1; 12]).into(),
        ObjectId::from_bytes([2; 12]).into(),
        DateTime::from_millis(1).into(),
        DateTime::from_millis(-1).into(),
        Bson::Timestamp(Timestamp { time: 0, increment: 1 }),
        Bson::Timestamp(Timestamp { time: 1, increment: 0 }),
        Bson::MinKey,
        Bson::MaxKey,
        doc! {}.into(),
        doc! { "x": "a\", \"y\": \"b" }.into(),
        doc! { "x": "a", "y": "b" }.into(),
        doc! { "y": "b", "x": "a" }.into(),
        doc! { "a": Bson::Null }.into(),
        doc! { "$gt": 1 }.into(),
    ]
}

/// A value, also one within documents and arrays, though an element of a unique list is not an array itself.
fn values() -> impl Strategy<Value = Bson> {
    let scalar = || prop_oneof![3 => select(numbers()), 2 => select(others())];
    let any_number = prop_oneof![
        any::<i64>().prop_map(Bson::Int64),
        any::<u64>().prop_map(|bits| Bson::Double(f64::from_bits(bits))),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
    ];
    let leaf = prop_oneof![6 => scalar(), 1 => any_number];
    let nested = leaf.clone().prop_recursive(2, 6, 3, |inner| {
        let name = select(vec!["a", "b"]);
        let document = prop::collection::vec((name, inner.clone()), 0..3);
        let document = document.prop_map(|fields| {
            let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
            Bson::Document(fields.collect())
        });
        let array = prop::collection::vec(inner, 0..3).prop_map(Bson::Array);
        prop_oneof![document, array]
    });
    let wrapped = nested.prop_map(|value| match value {
        Bson::Array(_) => doc! { "a": value }.into(),
        value => value,
    });
    prop_oneof![3 => leaf, 1 => wrapped]
}

/// The same value in another type or form, where it has one.
fn twin(value: &Bson) -> Bson {
    match value {
        #[allow(clippy::cast_precision_loss)] // it need not be the same
        Bson::Int64(number) => Bson::Double(*number as f64),
        Bson::Int32(number) => decimal(&number.to_string()),
        Bson::Double(number) if number.is_finite() => {
            let text: Result<Decimal128, _> = format!("{number:e}").parse();
            text.map_or(value.clone(), Bson::Decimal128)
        }
        Bson::Double(number) if number.is_nan() => decimal("NaN"),
        Bson::Double(number) => Bson::Double(-number),
        Bson::Decimal128(number) => {
            let text = number.to_string();
            text.parse::<f64>().map_or(Bson::Double(f64::NAN), Bson::Double)
        }
        Bson::String(text) => Bson::Symbol(text.clone()),
        Bson::Document(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), twin(value)));
            Bson::Document(fields.collect())
        }
        Bson::Array(values) => Bson::Array(values.iter().map(twin).collect()),
        value => value.clone(),
    }
}

/// Whether the server takes each pair for equal.
async fn server_says(db: &TestDatabase, pairs: &[(Bson, Bson)]) -> Vec<bool> {
    let literal = |value: &Bson| doc! { "$literal": value };
    let equal = pairs.iter().map(|(a, b)| doc! { "$eq": [literal(a), literal(b)] });
    let equal: Vec<Document> = equal.collect();
    let one = db.plain_collection::<Document>("one");
    one.delete_many(doc! {}).await.unwrap();
    one.insert_one(doc! {}).await.unwrap();
    let stages = [doc! { "$project": { "equal": equal } }];
    let mut cursor = one.aggregate(stages).await.unwrap();
    assert!(cursor.advance().await.unwrap());
    let row = cursor.deserialize_current().unwrap();
    let equal = row.get_array("equal").unwrap().iter();
    equal.map(|equal| equal.as_bool().unwrap()).collect()
}

/// Returns whether `insert` accepts a list of these elements.
async fn inserts(lists: &Lists, elements: &[Bson]) -> bool {
    let list = doc! { "_id": 1, "customers_purchased": elements };
    match lists.insert(&list).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{list}: {error:?}");
            false
        }
    }
}

/// Of all pairs of values of a kind: those that are equal for the server are refused, and one list takes a value of each set of
/// equal ones. Of two kinds, any two differ; the random pairs of the other test have them.
#[tokio::test]
async fn an_insert_takes_for_equal_what_the_server_does() {
    testkit::run(async |db| {
        let lists: Lists = ready(db, builder(db).threshold(100).unique_elements()).await;
        for kind in [numbers(), others()] {
            let pairs: Vec<(usize, usize)> = (0..kind.len()).flat_map(|a| (0..=a).map(move |b| (a, b))).collect();
            let mut has_equal = vec![false; kind.len()];
            for pairs in pairs.chunks(500) {
                let values = pairs.iter().map(|(a, b)| (kind[*a].clone(), kind[*b].clone()));
                let values: Vec<(Bson, Bson)> = values.collect();
                let equal = server_says(db, &values).await;
                for ((a, b), equal) in pairs.iter().zip(equal) {
                    if equal {
                        has_equal[*a] |= a != b;
                        let both = [kind[*a].clone(), kind[*b].clone()];
                        assert!(!inserts(&lists, &both).await, "{both:?} are equal");
                    }
                }
            }
            let different = kind.into_iter().zip(has_equal).filter(|(_, has_equal)| !has_equal);
            let different: Vec<Bson> = different.map(|(value, _)| value).collect();
            for (index, last) in different.iter().enumerate() {
                clear(db).await;
                let all_so_far = &different[..=index];
                assert!(inserts(&lists, all_so_far).await, "{last:?} equals none before it");
            }
            clear(db).await;
        }
    })
    .await;
}

/// `insert`, and `push_unique` next to an element of the array, and next to an overflow element.
async fn check(db: &TestDatabase, lists: &Lists, a: &Bson, b: &Bson) {
    let equal = server_says(db, &[(a.clone(), b.clone())]).await[0];
    clear(db).await;
    assert_eq!(
        inserts(lists, &[a.clone(), b.clone()]).await,
        !equal,
        "insert {a:?} {b:?}"
    );
    let filler = |n: i32| Bson::from(format!("filler {n}"));
    for before in [vec![a.clone()], vec![filler(1), filler(2), a.clone()]] {
        clear(db).await;
        let list = doc! { "_id": 1, "customers_purchased": before };
        lists.insert(&list).await.unwrap();
        let pushed = lists.push_unique(1, b).await.unwrap();
        assert_eq!(pushed == Pushed::AlreadyThere, equal, "push {list} {b:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn all_calls_compare_elements_alike() {
    let pairs = (values(), values(), any::<bool>());
    testkit::run(async |db| {
        let lists: Lists = ready(db, builder(db).threshold(2).unique_elements()).await;
        check_cases(100, &pairs, async |(a, b, is_twin)| {
            let b = if is_twin { twin(&a) } else { b };
            check(db, &lists, &a, &b).await;
        });
    })
    .await;
}
