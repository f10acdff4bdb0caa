//! The pattern written with the driver only.

use anyhow::{Context, Result};
use futures::FutureExt;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::options::{Hint, ReturnDocument};

use super::collections::{Book, CAP, Collections, THRESHOLD};

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
    let array = "$customers_purchased";
    let size = doc! { "$size": stored(array) };
    let room = doc! { "$cond": [is_flagged(), 0, { "$subtract": [50, &size] }] };
    let with_room = |value: Document| doc! { "$let": { "vars": { "room": &room }, "in": value } };
    let pushed = with_room(doc! { "$cond": [{ "$gt": ["$$room", 0] }, with_user(array, user), array] });
    let flagged = with_room(doc! { "$cond": [{ "$lt": ["$$room", 1] }, true, "$has_extras"] });
    let either = [
        doc! { "customers_purchased": { "$type": "array" } },
        doc! { "customers_purchased": null },
    ];
    let before = collections
        .sales
        .find_one_and_update(
            doc! { "_id": { "$eq": id }, "$or": either.to_vec() },
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

/// Pushes to the overflow document at a position, without a search for the newest one and without a pipeline.
pub(super) async fn push_extra(collections: &Collections, id: i32, seq: i32, user: &str, cap: i32) -> Result<bool> {
    let filter = doc! { "book_id": id, "seq": seq, "count": { "$lt": cap } };
    let update = doc! { "$push": { "customers_purchased_extra": user }, "$inc": { "count": 1 } };
    let hint = Hint::Name(SEQ_INDEX.to_owned());
    let updated = collections.extras.update_one(filter, update).hint(hint).await?;
    Ok(updated.matched_count > 0)
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

/// Follows the manual's logic in an application that reads the book, adds the purchase, and writes the array back.
pub(super) async fn write_back(collections: &Collections, id: i32, user: &str) -> Result<()> {
    let found = collections.sales.find_one(doc! { "_id": id }).await?;
    let found = found.context("the book does not exist")?;
    if found.get_bool("has_extras").unwrap_or(false) {
        return push_to_the_manuals_extras(collections, id, user).await;
    }
    let book: Book = mongodb::bson::deserialize_from_document(found)?;
    let mut customers = book.customers_purchased;
    customers.push(user.to_owned());
    let mut set = doc! { "customers_purchased": &customers };
    if customers.len() as u64 > THRESHOLD {
        set.insert("has_extras", true);
    }
    collections
        .sales
        .update_one(doc! { "_id": id }, doc! { "$set": set })
        .await?;
    Ok(())
}

/// Follows the manual's logic for unique customers: searches for the customer first.
pub(super) async fn check_then_push(collections: &Collections, id: i32, user: &str) -> Result<()> {
    let there = doc! { "_id": id, "customers_purchased": user };
    let extra = doc! { "book_id": id, "customers_purchased_extra": user };
    if collections.sales.find_one(there).await?.is_some() || collections.extras.find_one(extra).await?.is_some() {
        return Ok(());
    }
    push_as_in_the_manual(collections, id, user).await
}

/// Pushes in a transaction, which the driver retries after a conflict.
pub(super) async fn push_in_a_transaction(collections: &Collections, id: i32, user: &str) -> Result<()> {
    let mut session = collections.sales.client().start_session().await?;
    let context = (collections.clone(), user.to_owned());
    let run = session
        .start_transaction()
        .and_run(context, move |session, (collections, user)| {
            in_transaction(collections, id, user, session).boxed()
        });
    Ok(run.await?)
}

async fn in_transaction(
    collections: &Collections,
    id: i32,
    user: &str,
    session: &mut ClientSession,
) -> Result<(), Error> {
    let flag = collections.sales.find_one(doc! { "_id": id });
    let found = flag.projection(doc! { "has_extras": 1 }).session(&mut *session).await?;
    let flagged = found.is_some_and(|found| found.get_bool("has_extras").unwrap_or(false));
    if flagged {
        let newest = collections
            .extras
            .find_one(doc! { "book_id": id })
            .sort(doc! { "seq": -1 });
        let newest = newest
            .projection(doc! { "seq": 1, "count": 1 })
            .session(&mut *session)
            .await?;
        let number = |field: &str| newest.as_ref().and_then(|newest| newest.get_i32(field).ok());
        let seq = match (number("seq"), number("count")) {
            (Some(seq), Some(count)) => seq + i32::from(count as u64 >= CAP),
            _ => 0,
        };
        let push = doc! { "$push": { "customers_purchased_extra": user }, "$inc": { "count": 1 } };
        let update = collections.extras.update_one(doc! { "book_id": id, "seq": seq }, push);
        update.upsert(true).session(&mut *session).await?;
    } else {
        let push = doc! { "$push": { "customers_purchased": user } };
        let update = collections.sales.find_one_and_update(doc! { "_id": id }, push);
        let update = update.projection(doc! { "customers_purchased": 1 });
        let before = update.session(&mut *session).await?;
        let size = before.and_then(|before| before.get_array("customers_purchased").ok().map(Vec::len));
        if size.unwrap_or(0) as u64 + 1 == THRESHOLD {
            let flag = doc! { "$set": { "has_extras": true } };
            let update = collections.sales.update_one(doc! { "_id": id }, flag);
            update.session(&mut *session).await?;
        }
    }
    Ok(())
}
