//! Orders of two tenants.

use futures::TryStreamExt;
use mongo_patterns::list::Page;
use mongo_patterns::pages::{DocumentToken, Pages};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, Uuid, cstr, doc};

pub fn stored(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("orders")
}

/// Returns pages without their index.
pub fn pages(db: &TestDatabase, filter: Document, sort: Document) -> Pages<Document> {
    let orders = Pages::over(db.collection::<Document>("orders"));
    orders.filter(filter).sort(sort).build().unwrap()
}

/// Returns pages with their index.
pub async fn ready(db: &TestDatabase, filter: Document, sort: Document) -> Pages<Document> {
    let pages = pages(db, filter, sort);
    pages.ensure_index().await.unwrap();
    db.recorder().clear();
    pages
}

/// A value of one of many types, or none. Few of each type differ.
fn value(n: i32) -> Option<Bson> {
    let k = n / 16 % 7;
    let byte = u8::try_from(k).unwrap();
    Some(match n % 16 {
        0 => return None,
        1 => Bson::Null,
        2 => k.into(),
        3 => (i64::from(k) << 40).into(),
        4 => (f64::from(k) + 0.5).into(),
        5 => f64::from(k).into(),
        6 => Bson::Decimal128(format!("{k}.50").parse::<Decimal128>().unwrap()),
        7 => format!("s{k}").into(),
        8 => DateTime::from_millis(k.into()).into(),
        9 => ObjectId::from_bytes([byte; 12]).into(),
        10 => (k > 3).into(),
        11 => doc! { "a": k, "$b": 1 }.into(),
        12 => Binary::from_uuid(Uuid::from_bytes([byte; 16])).into(),
        13 => Timestamp {
            time: byte.into(),
            increment: 1,
        }
        .into(),
        14 => [Bson::MinKey, Bson::MaxKey, f64::NAN.into(), Bson::Undefined][usize::from(byte % 4)].clone(),
        _ => Bson::RegularExpression(Regex {
            pattern: cstr!("s.*").into(),
            options: cstr!("").into(),
        }),
    })
}

/// An `_id` of one of several types.
fn id(n: i32) -> Bson {
    match n % 9 {
        0 => format!("id{n}").into(),
        1 => ObjectId::from_bytes([n.to_be_bytes(); 3].concat().try_into().unwrap()).into(),
        2 => (f64::from(n) + 0.5).into(),
        3 => doc! { "n": n }.into(),
        4 => DateTime::from_millis(n.into()).into(),
        5 => Bson::Decimal128(format!("{n}.25").parse::<Decimal128>().unwrap()),
        6 => Binary::from_uuid(Uuid::from_bytes([n.to_be_bytes(); 4].concat().try_into().unwrap())).into(),
        _ => n.into(),
    }
}

/// An order with values of many types in `rank`, `score` and `inner.rank`.
pub fn order(n: i32) -> Document {
    let mut order = doc! { "_id": id(n), "tenant": n / 3 % 2, "n": n };
    let inner = match (n / 5 % 4, value(n / 5)) {
        (0, _) => Some(n.into()),
        (1, _) => None,
        (_, None) => Some(doc! {}.into()),
        (_, Some(rank)) => Some(doc! { "rank": rank }.into()),
    };
    let group = [Some(Bson::Null), None, Some(1.into())][usize::try_from(n % 3).unwrap()].clone();
    let fields = [
        ("rank", value(n)),
        ("score", value(n / 7)),
        ("inner", inner),
        ("group", group),
    ];
    let fields = fields.into_iter();
    order.extend(fields.filter_map(|(field, value)| Some((field.to_owned(), value?))));
    order
}

pub async fn plant(db: &TestDatabase, orders: impl IntoIterator<Item = Document>) {
    stored(db).insert_many(orders).await.unwrap();
}

/// Returns what the server finds, in the order of the sort, and then of the `_id`, in the direction of the last field.
pub async fn sorted(db: &TestDatabase, filter: Document, mut sort: Document) -> Vec<Bson> {
    let last = sort.values().last().cloned().unwrap_or_else(|| 1.into());
    sort.entry("_id").or_insert(last);
    let found = stored(db).find(filter).sort(sort).allow_disk_use(true).await.unwrap();
    ids(&found.try_collect::<Vec<Document>>().await.unwrap())
}

pub fn ids(documents: &[Document]) -> Vec<Bson> {
    let ids = documents.iter().map(|document| document.get("_id").unwrap().clone());
    ids.collect()
}

/// Returns the token that a service gets back in a link.
pub fn linked(token: &DocumentToken) -> DocumentToken {
    token.to_string().parse().unwrap()
}

/// Reads all pages forward. Returns the `_id`s, and the last page.
pub async fn forward(pages: &Pages<Document>, limit: u32) -> (Vec<Bson>, Page<Document, DocumentToken>) {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let is_first = after.is_none();
        let page = pages.list().limit(limit).after(after).page().await.unwrap();
        assert_eq!(page.previous.is_none(), is_first);
        assert!(page.next.is_none() || page.items.len() == limit as usize);
        all.extend(ids(&page.items));
        match &page.next {
            Some(next) => after = Some(linked(next)),
            None => return (all, page),
        }
    }
}

/// Reads all pages before one, backward. Returns the `_id`s in the order of the sort, with those of the page.
pub async fn backward(pages: &Pages<Document>, limit: u32, last: Page<Document, DocumentToken>) -> Vec<Bson> {
    let (mut all, mut before) = (ids(&last.items), last.previous);
    while let Some(previous) = before {
        let page = pages
            .list()
            .limit(limit)
            .before(linked(&previous))
            .page()
            .await
            .unwrap();
        assert!(page.next.is_some());
        all.splice(0..0, ids(&page.items));
        before = page.previous;
    }
    all
}
