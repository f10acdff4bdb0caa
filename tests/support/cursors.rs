//! Cursors that the server closes.

use mongo_patterns_testkit::TestDatabase;
use mongodb::Database;
use mongodb::bson::doc;

use crate::common::elsewhere;

/// Closes the idle cursors of a database, as the server does after ten minutes.
async fn close_cursors(database: Database) {
    let admin = database.client().database("admin");
    let of_database = doc! { "$regexMatch": { "input": "$ns", "regex": format!("^{}\\.", database.name()) } };
    let stages = [
        doc! { "$currentOp": { "allUsers": true, "idleCursors": true } },
        doc! { "$match": { "type": "idleCursor", "$expr": of_database } },
    ];
    let mut found = admin.aggregate(stages).await.unwrap();
    while found.advance().await.unwrap() {
        let found = found.deserialize_current().unwrap();
        let (_, collection) = found.get_str("ns").unwrap().split_once('.').unwrap();
        let cursor = found.get_document("cursor").unwrap().get_i64("cursorId").unwrap();
        let kill = doc! { "killCursors": collection, "cursors": [cursor] };
        database.run_command(kill).await.unwrap();
    }
}

/// Returns a callback that closes all idle cursors of the database.
pub fn closing<T>(db: &TestDatabase) -> impl Fn(T) + Send + 'static {
    let (uri, database) = (db.server().uri().to_owned(), db.database().name().to_owned());
    move |_| elsewhere(&uri, &database, close_cursors)
}

/// Returns how often a read has continued after a cursor that was closed.
pub fn resumed(db: &TestDatabase) -> usize {
    let continues = |text: &str| {
        let is_walk = text.contains("\"min\": {");
        is_walk || text.contains(r#"{ "$gt": ["$mongo_patterns_position", "#)
    };
    let commands = db.recorder().commands();
    let commands = commands
        .iter()
        .filter(|command| ["find", "aggregate"].contains(&&*command.name));
    commands
        .filter(|command| continues(&command.command.to_string()))
        .count()
}
