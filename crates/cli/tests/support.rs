//! Helpers that the tests share.

use std::borrow::Borrow;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Database, IndexModel};
use serde_json::Value;
pub use serde_json::json;

/// 2023-10-26T15:47:03Z.
pub const SECOND: i64 = 1_698_335_223;

/// Splits a line into its words, of which there are as many as the array has.
pub const fn words<const N: usize>(line: &'static str) -> [&'static str; N] {
    let (mut words, mut rest, mut n) = ([""; N], line, 0);
    while n < N {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b' ' {
            end += 1;
        }
        let (word, others) = rest.split_at(end);
        words[n] = word;
        rest = if others.is_empty() { "" } else { others.split_at(1).1 };
        n += 1;
    }
    assert!(rest.is_empty(), "there are more words");
    words
}

/// The settings of the tests' buckets, as options.
pub const BUCKETS: [&str; 12] =
    words("--collection trades --flat flat --key customerId --items history --time date --key-type int");

/// The settings of the tests' products and reviews, as options.
pub const REVIEWS: [&str; 14] = words(
    "--collection product --children-collection review --subset reviews \
        --parent product_id --child-id review_id --order -date --size 2",
);

/// The settings of patrons whose addresses are in a second collection.
pub const PATRONS: [&str; 9] =
    words("embedded --collection patron --children addresses --source address --reference patron_id");

/// The result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Returns the lines of standard output, as JSON.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{self:?}")))
            .collect()
    }

    /// Returns the lines of this type.
    #[track_caller]
    pub fn lines(&self, of_type: &str) -> Vec<Value> {
        let mut lines = self.json();
        lines.retain(|line| line["type"] == of_type);
        lines
    }

    /// Checks that the exit code is 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Checks the exit code, and that standard error has this text.
    #[track_caller]
    pub fn says(&self, code: i32, text: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains(text), "{text}: {self:?}");
    }

    /// Checks that standard output has these texts.
    #[track_caller]
    pub fn shows<const N: usize>(&self, texts: [&str; N]) {
        for text in texts {
            assert!(self.out.contains(text), "{text}: {self:?}");
        }
    }

    /// Checks that the lines of standard output have at most 80 columns.
    #[track_caller]
    pub fn fits_80_columns(&self) {
        let wide = self.out.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{}", self.out);
    }

    /// Checks the exit code, and these fields of the first line.
    #[track_caller]
    pub fn begins(&self, code: i32, fields: Value) {
        self.has(code, &self.json()[0], fields);
    }

    /// Checks the exit code, and these fields of the summary.
    #[track_caller]
    pub fn ends(&self, code: i32, fields: Value) {
        self.has(code, &self.summary(), fields);
    }

    #[track_caller]
    fn has(&self, code: i32, line: &Value, fields: Value) {
        let names = fields.as_object().unwrap().keys();
        let found = Value::Object(names.map(|name| (name.clone(), line[name].clone())).collect());
        assert_eq!((self.code, found), (Some(code), fields), "{self:?}");
    }

    /// Returns the summary, which is the last line.
    #[track_caller]
    pub fn summary(&self) -> Value {
        let last = self.json().pop().unwrap_or_else(|| panic!("{self:?}"));
        assert_eq!(last["type"], "summary", "{self:?}");
        last
    }
}

/// Returns the program, without settings from the environment, in the temporary directory.
pub fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mongo-patterns"));
    program
        .env_remove("MONGODB_URI")
        .env_remove("MONGODB_PASSWORD")
        .current_dir(std::env::temp_dir());
    program.stdin(Stdio::null());
    program
}

/// Returns the program for the database of a test, which the connection string names: commands in its output omit it.
pub fn on(db: &TestDatabase) -> Command {
    through(db, db.server().uri())
}

/// Does what [`on`] does, by another connection string.
pub fn through(db: &TestDatabase, uri: &str) -> Command {
    let mut program = program();
    let (address, options) = uri.split_once('?').unwrap_or((uri, ""));
    let (address, name) = (address.trim_end_matches('/'), db.database().name());
    program.env("MONGODB_URI", format!("{address}/{name}?{options}"));
    program
}

pub fn ran(program: &mut Command) -> Ran {
    let output = program.output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a command of the bucket pattern.
pub fn bucket(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran(on(db).arg("bucket").args(BUCKETS).args(arguments))
}

/// Prints the profile that `init` suggests for a collection.
pub fn profile(db: &TestDatabase, collection: &str) -> Ran {
    ran(on(db).args(["init", collection, "--out", "-"]))
}

/// Fills a flat collection with `items` items, one per second, over `keys` keys from 0, with an index on the key.
pub async fn fill(db: &TestDatabase, keys: i64, items: i64) -> Vec<Document> {
    let documents: Vec<Document> = (0..items)
        .map(|n| doc! { "_id": n, "customerId": n % keys, "n": n, "date": DateTime::from_millis((SECOND + n) * 1000) })
        .collect();
    insert(db, "flat", &documents).await;
    index(db, "flat", doc! { "customerId": 1 }).await;
    documents
}

pub async fn insert(db: &TestDatabase, collection: &str, documents: impl IntoIterator<Item = impl Borrow<Document>>) {
    let database = db.plain_client().database(db.database().name());
    insert_in(&database, collection, documents).await;
}

pub async fn insert_in(
    database: &Database,
    collection: &str,
    documents: impl IntoIterator<Item = impl Borrow<Document>>,
) {
    let collection = database.collection::<Document>(collection);
    collection.insert_many(documents).await.unwrap();
}

pub async fn update(db: &TestDatabase, collection: &str, filter: Document, update: Document) {
    let collection = db.plain_collection::<Document>(collection);
    collection.update_many(filter, update).await.unwrap();
}

pub async fn index(db: &TestDatabase, collection: &str, keys: Document) {
    let index = IndexModel::builder().keys(keys).build();
    let collection = db.plain_collection::<Document>(collection);
    collection.create_index(index).await.unwrap();
}

pub async fn all(db: &TestDatabase, collection: &str) -> Vec<Document> {
    let collection = db.plain_collection::<Document>(collection);
    let find = collection.find(doc! {}).sort(doc! { "_id": 1 });
    find.await.unwrap().try_collect().await.unwrap()
}

pub fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Starts a program, and returns it when a line of its standard error has this text.
#[cfg(unix)]
pub fn until_it_shows(program: &mut Command, text: &str) -> Child {
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "the program ended");
    }
    child
}

/// Starts a migration of 20 keys of 100 items, for which the rate demands a pause of 100 seconds. It is in the first pause.
#[cfg(unix)]
pub async fn paused_migration(db: &TestDatabase) -> Child {
    fill(db, 20, 2000).await;
    let mut program = on(db);
    program.arg("bucket").args(BUCKETS).args(["migrate", "--rate", "1"]);
    until_it_shows(&mut program, "100 of 2,000")
}

/// Sends SIGINT, and returns the exit code.
#[cfg(unix)]
pub fn interrupt(child: &mut Child) -> Option<i32> {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
    child.wait().unwrap().code()
}

/// Returns how many documents an analysis found invalid for each reason, and the filter that finds them.
pub fn invalid_documents<const N: usize>(analyzed: &Ran, reasons: [&str; N]) -> ([Option<i64>; N], Document) {
    let lines = analyzed.json();
    let of = |reason: &str| {
        let line = lines.iter().find(|line| line["reason"] == reason)?;
        line["documents"].as_i64()
    };
    let query = lines.iter().find(|line| line["type"] == "invalid_query").unwrap();
    let filter = serde_json::from_value(query["filter"].clone()).unwrap();
    (reasons.map(of), filter)
}

#[track_caller]
pub fn refused(ran: &Ran, text: &str) {
    ran.says(2, text);
}

/// Waits until a condition is true. It is a failure after a minute.
pub async fn until(context: &str, is_true: impl AsyncFn() -> bool) {
    let mut poll = tokio::time::interval(Duration::from_millis(1));
    let until = async {
        while !is_true().await {
            poll.tick().await;
        }
    };
    let held = tokio::time::timeout(Duration::from_secs(60), until).await;
    held.unwrap_or_else(|_| panic!("{context} is stuck"));
}
