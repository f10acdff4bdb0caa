//! The pattern written with the driver only.

use anyhow::{Context, Result};
use mongodb::bson::{Document, doc};
use mongodb::options::{Hint, ReturnDocument};

use super::collections::{CAP, Collections, THRESHOLD};

/// The repository's index, by its name.
const SEQ_INDEX: &str = "book_id_1_seq_1";

fn is_flagged() -> Document {
    doc! { "$eq": ["$has_extras", true] }
}

fn stored(field: &str) -> Document {
    doc! { "$ifNull": [field, []] }
}

fn with_user(array: &str, user: &str) -> Document {
    doc! { "$concatArrays": [stored(array), { "$slice": [{ "$literal": [user] }, "$$room"] }] }
}

/// Pushes with the commands of the repository.
pub(super) async fn push(collections: &Collections, id: i32, user: &str) -> Result<()> {
    let either = |condition: Document| vec![doc! { "customers_purchased": { "$type": "array" } }, condition];
    let absent = doc! { "$exists": false };
    let has_room = doc! {
        "_id": { "$eq": id },
        "has_extras": { "$ne": true },
        "customers_purchased.49": &absent,
        "$or": either(doc! { "customers_purchased": &absent }),
    };
    let push = doc! { "$push": { "customers_purchased": { "$each": [user] } } };
    if collections.sales.update_one(has_room, push).await?.matched_count > 0 {
        return Ok(());
    }
    let array = "$customers_purchased";
    let size = doc! { "$size": stored(array) };
    let room = doc! { "$cond": [is_flagged(), 0, { "$subtract": [50, &size] }] };
    let with_room = |value: Document| doc! { "$let": { "vars": { "room": &room }, "in": value } };
    let pushed = with_room(doc! { "$cond": [{ "$gt": ["$$room", 0] }, with_user(array, user), array] });
    let flagged = with_room(doc! { "$cond": [{ "$lt": ["$$room", 1] }, true, "$has_extras"] });
    let before = collections
        .sales
        .find_one_and_update(
            doc! { "_id": { "$eq": id }, "$or": either(doc! { "customers_purchased": null }) },
            vec![doc! { "$set": { "customers_purchased": pushed, "has_extras": flagged } }],
        )
        .projection(doc! { "_id": 0, "flagged": is_flagged(), "size": size })
        .await?
        .context("the book does not exist")?;
    if before.get_bool("flagged")? {
        fill(collections, id, user, i32::try_from(CAP)?).await?;
    }
    Ok(())
}

/// Sends the command of a push to a known outlier, or the second of those to another one. The overflow document is not full.
pub(super) async fn fill(collections: &Collections, id: i32, user: &str, cap: i32) -> Result<()> {
    let extras = "$customers_purchased_extra";
    let is_count = doc! { "$and": [
        { "$in": [{ "$type": "$count" }, ["int", "long", "double"]] },
        { "$eq": [{ "$mod": ["$count", 1] }, 0] },
    ] };
    let room = doc! { "$cond": [is_count, { "$subtract": [cap, "$count"] }, 0] };
    let if_taken = |value: Document, stored: &str| {
        let value = doc! { "$cond": [{ "$gt": ["$$room", 0] }, value, stored] };
        doc! { "$let": { "vars": { "room": &room }, "in": value } }
    };
    let total = doc! { "$min": [cap, { "$add": ["$count", 1] }] };
    let set = doc! {
        "count": if_taken(total, "$count"),
        "customers_purchased_extra": if_taken(with_user(extras, user), extras),
    };
    collections
        .extras
        .find_one_and_update(doc! { "book_id": { "$eq": id } }, vec![doc! { "$set": set }])
        .sort(doc! { "seq": -1 })
        .projection(doc! { "seq": 1, "count": 1 })
        .hint(Hint::Name(SEQ_INDEX.to_owned()))
        .await?
        .context("the book has no overflow documents")?;
    Ok(())
}

/// Pushes to an array without a bound.
pub(super) async fn push_unbounded(collections: &Collections, id: i32, user: &str) -> Result<()> {
    let push = doc! { "$push": { "customers_purchased": user } };
    collections.sales.update_one(doc! { "_id": id }, push).await?;
    Ok(())
}

/// Follows the manual's logic: reads the flag, pushes to one of the two collections, and sets the flag if the array is
/// too long.
pub(super) async fn push_as_in_the_manual(collections: &Collections, id: i32, user: &str) -> Result<()> {
    let flag = doc! { "has_extras": 1 };
    let found = collections.sales.find_one(doc! { "_id": id }).projection(flag).await?;
    let found = found.context("the book does not exist")?;
    if found.get_bool("has_extras").unwrap_or(false) {
        return push_to_the_manuals_extras(collections, id, user).await;
    }
    let push = doc! { "$push": { "customers_purchased": user } };
    let after = collections
        .sales
        .find_one_and_update(doc! { "_id": id }, push)
        .projection(doc! { "customers_purchased": 1 })
        .return_document(ReturnDocument::After)
        .await?
        .context("the book does not exist")?;
    if after.get_array("customers_purchased")?.len() as u64 > THRESHOLD {
        let flag = doc! { "$set": { "has_extras": true } };
        collections.sales.update_one(doc! { "_id": id }, flag).await?;
    }
    Ok(())
}

async fn push_to_the_manuals_extras(collections: &Collections, id: i32, user: &str) -> Result<()> {
    let push = doc! { "$push": { "customers_purchased_extra": user } };
    let update = collections.extras.update_one(doc! { "book_id": id }, push);
    update.upsert(true).await?;
    Ok(())
}
