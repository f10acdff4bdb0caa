//! The same writes by the driver alone.

use anyhow::Result;
use futures::{FutureExt, TryStreamExt};
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::options::ReturnDocument;

use super::policies::{Policies, change};

fn counted(number: u64) -> Document {
    let mut update = change(number);
    update.insert("$inc", doc! { "revision": 1 });
    update.insert("$currentDate", doc! { "dateSet": true });
    update
}

/// Updates a policy without a history.
pub(super) async fn update_one(policies: &Policies, id: i64, number: u64) -> Result<()> {
    policies
        .current
        .update_one(doc! { "policyId": id }, counted(number))
        .await?;
    Ok(())
}

/// Follows the manual, "Keep a History of Document Versions": an update, and a copy by `$merge`.
pub(super) async fn update_and_merge(policies: &Policies, id: i64, number: u64) -> Result<()> {
    update_one(policies, id, number).await?;
    let copy = [
        doc! { "$match": { "policyId": id } },
        doc! { "$set": { "_id": ObjectId::new() } },
        doc! { "$merge": { "into": policies.revisions.name(), "on": "_id", "whenNotMatched": "insert" } },
    ];
    let merged: Vec<Document> = policies.current.aggregate(copy).await?.try_collect().await?;
    drop(merged);
    Ok(())
}

/// Updates and copies a policy in a transaction, which the driver retries after a conflict.
pub(super) async fn in_a_transaction(policies: &Policies, id: i64, number: u64) -> Result<()> {
    let mut session = policies.current.client().start_session().await?;
    let run = session
        .start_transaction()
        .and_run(policies.clone(), move |session, policies| {
            update_and_copy(policies, id, number, session).boxed()
        });
    Ok(run.await?)
}

async fn update_and_copy(policies: &Policies, id: i64, number: u64, session: &mut ClientSession) -> Result<(), Error> {
    let update = policies
        .current
        .find_one_and_update(doc! { "policyId": id }, counted(number))
        .return_document(ReturnDocument::After);
    let updated = update.session(&mut *session).await?;
    let mut copy = updated.ok_or_else(|| Error::custom("the policy is missing"))?;
    copy.insert("_id", ObjectId::new());
    policies.revisions.insert_one(copy).session(session).await?;
    Ok(())
}
