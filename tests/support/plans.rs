//! Commands of plans and of runs, in a form that can be compared.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document};

/// The essence of a command: without the id of this call, and without fields that the driver adds or omits.
pub fn essence(command: &Document) -> Document {
    let mut essence = Document::new();
    let name = command.keys().next().unwrap();
    essence.insert(name, command.get(name));
    for field in [
        "pipeline",
        "documents",
        "filter",
        "sort",
        "skip",
        "limit",
        "projection",
        "hint",
        "indexes",
        "collation",
        "allowDiskUse",
    ] {
        if let Some(value) = command.get(field) {
            essence.insert(field, as_int64(value));
        }
    }
    for delete in command
        .get_array("deletes")
        .into_iter()
        .flatten()
        .filter_map(Bson::as_document)
    {
        essence.insert("q", as_int64(delete.get("q").unwrap()));
        essence.insert("delete_limit", as_int64(delete.get("limit").unwrap()));
    }
    for update in command
        .get_array("updates")
        .into_iter()
        .flatten()
        .filter_map(Bson::as_document)
    {
        essence.insert("q", as_int64(update.get("q").unwrap()));
        essence.insert("u", as_int64(update.get("u").unwrap()));
        essence.insert("upsert", update.get_bool("upsert").unwrap_or(false));
    }
    essence
}

/// Numbers of one type, and object ids of one value.
fn as_int64(value: &Bson) -> Bson {
    match value {
        Bson::Int32(number) => i64::from(*number).into(),
        Bson::ObjectId(_) => ObjectId::from_bytes([0; 12]).into(),
        Bson::Array(values) => values.iter().map(as_int64).collect::<Vec<_>>().into(),
        Bson::Document(document) => {
            let fields = document.iter().map(|(name, value)| (name.clone(), as_int64(value)));
            fields.collect::<Document>().into()
        }
        other => other.clone(),
    }
}

/// The server groups documents in no order. Each document has a transaction, which begins with a read of it.
pub fn by_document(commands: Vec<Document>) -> Vec<Document> {
    let begins = |command: &Document| {
        let projection = command.get_document("projection");
        projection.is_ok_and(|projection| projection.contains_key("bytes"))
    };
    let mut transactions: Vec<Vec<Document>> = vec![Vec::new()];
    for command in commands {
        if begins(&command) {
            transactions.push(Vec::new());
        }
        transactions.last_mut().unwrap().push(command);
    }
    transactions[1..].sort_by_key(|transaction| transaction[0].to_string());
    transactions.concat()
}
