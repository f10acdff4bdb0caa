//! The pattern written with the driver only.

use anyhow::Result;
use mongodb::bson::{Bson, Document, Regex, cstr, doc, serialize_to_bson, serialize_to_raw_document_buf};
use mongodb::options::{Hint, IndexOptions, TimeseriesGranularity, TimeseriesOptions};
use mongodb::{Collection, Database, IndexModel};
use serde::{Deserialize, Serialize};

use super::trade::Trade;

/// The repository's index, by its name.
pub(super) const OPEN_INDEX: &str = "customerId_1_count_lt_10";

/// A bucket of the manual, as an application would declare it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Bucket<History> {
    #[serde(rename = "_id")]
    pub(super) id: String,
    #[serde(rename = "customerId")]
    pub(super) customer: u32,
    pub(super) count: i32,
    pub(super) history: History,
}

pub(super) fn ids_of(customer: u32) -> Result<Regex> {
    Ok(Regex {
        pattern: format!("^{customer}_").try_into()?,
        options: cstr!("").into(),
    })
}

/// Appends with the command of the repository: the same filter, hint and update.
pub(super) async fn append(collection: &Collection<Document>, customer: u32, trade: &Trade) -> Result<()> {
    append_encoded(collection, customer, trade, serialize_to_bson(trade)?).await
}

/// Does the same for items of any content. `serialize_to_bson` interprets a document such as `{ "$date": 5 }` as
/// extended JSON, and turns it into a date. The encoding of an insert does not, nor does the repository.
pub(super) async fn append_verbatim(collection: &Collection<Document>, customer: u32, trade: &Trade) -> Result<()> {
    let item = Document::try_from(&serialize_to_raw_document_buf(trade)?)?;
    append_encoded(collection, customer, trade, item.into()).await
}

async fn append_encoded(collection: &Collection<Document>, customer: u32, trade: &Trade, item: Bson) -> Result<()> {
    let customer_field = i32::try_from(customer)?;
    let filter = doc! { "_id": ids_of(customer)?, "customerId": customer_field, "count": { "$lt": 10 } };
    collection
        .update_one(filter, update(customer, trade, item)?)
        .upsert(true)
        .hint(Hint::Name(OPEN_INDEX.to_owned()))
        .await?;
    Ok(())
}

/// Appends with the manual's command, literally: no equality on the key, and no index except that of `_id`.
pub(super) async fn naive_append(collection: &Collection<Document>, customer: u32, trade: &Trade) -> Result<()> {
    let filter = doc! { "_id": ids_of(customer)?, "count": { "$lt": 10 } };
    collection
        .update_one(filter, update(customer, trade, serialize_to_bson(trade)?)?)
        .upsert(true)
        .await?;
    Ok(())
}

pub(super) fn update(customer: u32, trade: &Trade, item: Bson) -> Result<Document> {
    Ok(doc! {
        "$push": { "history": item },
        "$inc": { "count": 1 },
        "$setOnInsert": { "_id": format!("{customer}_{}", trade.second()), "customerId": i32::try_from(customer)? },
    })
}

/// Creates an empty collection for one document per item, with the index that its pages need.
pub(super) async fn flat(collection: &Collection<Document>) -> Result<()> {
    super::collection::empty(collection).await?;
    Ok(index(collection).await?)
}

/// Creates an index by customer and date.
pub(super) async fn index(collection: &Collection<Document>) -> mongodb::error::Result<()> {
    let keys = doc! { "customerId": 1, "date": 1 };
    let options = IndexOptions::builder().name("customerId_1_date_1".to_owned()).build();
    let index = IndexModel::builder().keys(keys).options(options).build();
    collection.create_index(index).await.map(|_| ())
}

/// Creates an empty time series collection.
pub(super) async fn time_series(
    collection: &Collection<Document>,
    granularity: Option<TimeseriesGranularity>,
) -> Result<()> {
    collection.drop().await?;
    let mut options = TimeseriesOptions::builder()
        .time_field("date".to_owned())
        .meta_field(Some("customerId".to_owned()))
        .build();
    options.granularity = granularity;
    let database = database(collection);
    Ok(database
        .create_collection(collection.name())
        .timeseries(options)
        .await?)
}

pub(super) fn database(collection: &Collection<Document>) -> Database {
    collection.client().database(&collection.namespace().db)
}
