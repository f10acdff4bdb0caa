//! Every public operation by a user with the role `read`.
//!
//! - A call that reads returns what it returns for a user who may write.
//! - Any other call is refused as [`Unauthorized`](ErrorKind::Unauthorized), or has nothing to write but its settings in the
//!   catalog.
//! - Nothing is written, and the error has neither the user nor a value of a document.

use std::error::Error as _;
use std::panic::AssertUnwindSafe;
use std::thread;

use futures::FutureExt;
use mongo_patterns::ErrorKind;
use mongodb::Database;
use mongodb::bson::{Bson, Document};
use tokio::runtime::Builder;

use super::operation::{Of, Promise, Suite};
use crate::cluster::users::{READER, SECRET, Secured, stored};

pub(super) const CATALOG: &str = "mongo_patterns";

/// One of several workers, each of which runs a part of all operations in a database of its own.
struct Worker {
    number: usize,
    of: usize,
    reader: Database,
    root: Database,
}

/// The names of the operations with each outcome.
#[derive(Default)]
struct Checked {
    returned: Vec<String>,
    refused: Vec<String>,
    failed: Vec<String>,
}

pub(super) fn run(suites: &[Suite], workers: usize) {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let names: Vec<String> = (0..workers).map(|number| format!("shop{number}")).collect();
    let secured = runtime().block_on(Secured::start(&names));
    let work = |number: usize, name: &str| {
        runtime().block_on(async {
            let worker = Worker {
                number,
                of: workers,
                reader: secured.reader(name).await,
                root: secured.root(name).await,
            };
            let mut all = Checked::default();
            for suite in suites {
                all.extend(check(suite, &worker).await);
            }
            all
        })
    };
    let mut all = Checked::default();
    thread::scope(|scope| {
        let workers = names.iter().enumerate();
        let workers: Vec<_> = workers
            .map(|(worker, name)| scope.spawn(move || work(worker, name)))
            .collect();
        workers
            .into_iter()
            .for_each(|worker| all.extend(worker.join().unwrap()));
    });
    println!(
        "{} calls returned, {} were refused",
        all.returned.len(),
        all.refused.len()
    );
    assert!(all.failed.is_empty(), "{:#?}", all.failed);
    assert!(
        all.returned.len() > 100 && all.refused.len() > 100,
        "a table without calls"
    );
}

impl Checked {
    fn extend(&mut self, other: Self) {
        self.returned.extend(other.returned);
        self.refused.extend(other.refused);
        self.failed.extend(other.failed);
    }
}

async fn check(suite: &Suite, worker: &Worker) -> Checked {
    let mut checked = Checked::default();
    worker.root.drop().await.unwrap();
    for number in (worker.number..suite.operations.len()).step_by(worker.of) {
        let name = suite.name(&suite.operations[number]);
        let outcome = AssertUnwindSafe(is_refused(suite, number, worker)).catch_unwind();
        match outcome.await {
            Ok(true) => checked.refused.push(name),
            Ok(false) => checked.returned.push(name),
            Err(_) => checked.failed.push(name),
        }
    }
    checked
}

/// Returns whether the call was refused.
async fn is_refused(suite: &Suite, number: usize, Worker { reader, root, .. }: &Worker) -> bool {
    let operation = &suite.operations[number];
    let name = operation.name();
    let of = |database| (suite.process)(Of { database, plain: root });
    let (by_reader, by_root) = (of(reader), of(root));
    suite.empty(root).await;
    by_root.fill().await;
    by_root.prepare(number).await;
    let mut before = stored(root).await;
    let read = by_reader.run(number).await;
    assert_eq!(stored(root).await, before, "{name}");
    before.remove(CATALOG);
    match read {
        Ok(read) => {
            assert_eq!(read, by_root.run(number).await.unwrap(), "{name}");
            let mut after = stored(root).await;
            after.remove(CATALOG);
            assert_eq!(after, before, "{name}: there was something to write");
            false
        }
        Err(error) => {
            assert_ne!(operation.promise, Promise::Reads, "{name}: {error:?}");
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{name}: {error:?}");
            assert!(!error.is_outcome_unknown(), "{name}: {error:?}");
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            let text = format!("{error} {error:?} {cause}");
            let documents = before.values().flat_map(|(_, documents)| documents);
            let mut secrets = vec![READER.to_owned(), SECRET.to_owned()];
            secrets.extend(documents.flat_map(values));
            for secret in secrets {
                assert!(!text.contains(&secret), "{name}: {secret} is in {text}");
            }
            true
        }
    }
}

/// Returns the strings of a document that are long enough to be found by chance nowhere else.
fn values(document: &Document) -> Vec<String> {
    let of_value = |value: &Bson| match value {
        Bson::String(text) if text.len() > 4 => vec![text.clone()],
        Bson::Document(document) => values(document),
        Bson::Array(elements) => elements.iter().filter_map(Bson::as_document).flat_map(values).collect(),
        _ => Vec::new(),
    };
    document.values().flat_map(of_value).collect()
}
