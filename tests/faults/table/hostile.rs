//! Every public operation on documents of which another program has changed one at random.
//!
//! - A call ends, and does not panic.
//! - A call that reads writes nothing, and neither does one that fails and promises to take effect as a whole or not at all.
//! - An error contains no value of a document.

use std::cell::RefCell;
use std::error::Error as _;
use std::panic::{AssertUnwindSafe, set_hook, take_hook};
use std::thread;

use fastrand::Rng;
use futures::FutureExt;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::case::Case;
use super::operation::{Promise, Suite};
use super::read_only::CATALOG;
use crate::cluster::users::stored;
use support::common::{STUCK, all, drop_all};

/// A part of each value that is stored here.
const VALUE: &str = "changed by another";

thread_local! {
    /// The panics of this thread outside of the tests.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// One of several workers, each of which runs a part of all operations.
struct Part {
    number: usize,
    step: usize,
    rounds: u64,
}

/// What came of some cases.
#[derive(Default)]
struct Checked {
    returned: usize,
    refused: usize,
    problems: Vec<String>,
}

/// Runs one of `of` operations, each in `rounds` cases.
pub(super) fn run(suites: &[Suite], workers: usize, of: usize, rounds: u64) {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        if panic
            .location()
            .is_some_and(|place| !place.file().starts_with("tests/"))
        {
            PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
        }
        before(panic);
    }));
    let work = |number| {
        let part = Part {
            number,
            step: workers * of,
            rounds,
        };
        let all = RefCell::new(Checked::default());
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(testkit::run(async |db| {
            for suite in suites {
                let checked = check(db, suite, &part).await;
                all.borrow_mut().extend(checked);
            }
        }));
        all.into_inner()
    };
    let mut all = Checked::default();
    thread::scope(|scope| {
        let work = &work;
        let workers = (0..workers).map(|number| scope.spawn(move || work(number)));
        let workers: Vec<_> = workers.collect();
        workers
            .into_iter()
            .for_each(|worker| all.extend(worker.join().unwrap()));
    });
    println!("{} calls returned, {} were refused", all.returned, all.refused);
    assert!(all.problems.is_empty(), "{:#?}", all.problems);
    assert!(all.returned > 50 && all.refused > 5, "changes that no call has seen");
}

impl Checked {
    fn extend(&mut self, other: Self) {
        self.returned += other.returned;
        self.refused += other.refused;
        self.problems.extend(other.problems);
    }
}

async fn check(db: &TestDatabase, suite: &Suite, part: &Part) -> Checked {
    let mut checked = Checked::default();
    drop_all(db).await;
    for number in (part.number..suite.operations.len()).step_by(part.step) {
        let case = Case::new(db, suite, number);
        for round in 0..part.rounds {
            let name = format!("{}, round {round}", suite.name(case.operation));
            // Repeatable, and another one for each operation.
            let seed = name
                .bytes()
                .fold(0, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
            match run_case(&case, &mut Rng::with_seed(seed)).await {
                Ok(true) => checked.returned += 1,
                Ok(false) => checked.refused += 1,
                Err(problem) => checked.problems.push(format!("{name}: {problem}")),
            }
        }
    }
    checked
}

/// Returns whether the call returned, or a problem.
async fn run_case(case: &Case<'_>, rng: &mut Rng) -> Result<bool, String> {
    let db = case.db;
    let operation = case.operation;
    let (model, _) = case.begin().await;
    let Some(change) = change(db, case.suite.collections, rng).await else {
        return Ok(true);
    };
    let plain = db.plain_client().database(db.database().name());
    let contents = async || {
        let mut contents = stored(&plain).await;
        // Its settings are those of the repository.
        contents.remove(CATALOG);
        format!("{contents:?}")
    };
    let before = contents().await;
    let call = AssertUnwindSafe(model.run(case.number)).catch_unwind();
    let ended = timeout(STUCK, call)
        .await
        .map_err(|_| format!("{change}: it does not end"))?;
    let panics = PANICS.take();
    if !panics.is_empty() {
        return Err(format!("{change}: {panics:?}"));
    }
    // An operation can panic that compares what it reads.
    let Ok(ended) = ended else { return Ok(true) };
    let is_same = contents().await == before;
    let Err(error) = ended else {
        let is_allowed = operation.promise != Promise::Reads || is_same;
        return is_allowed
            .then_some(true)
            .ok_or(format!("{change}: a read has written"));
    };
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let text = format!("{error} {error:?} {cause}");
    if text.contains(VALUE) && !change.starts_with(CATALOG) {
        return Err(format!("{change}: a value is in {text}"));
    }
    let is_whole = matches!(operation.promise, Promise::Reads | Promise::Atomic);
    // A session can have a transaction before.
    let is_alone = !operation.in_session && !operation.is_after_a_call;
    if is_whole && is_alone && !error.is_outcome_unknown() && !is_same {
        return Err(format!("{change}: a call has written that failed: {text}"));
    }
    Ok(false)
}

/// Changes a stored document, as another program could. Returns the change as text; `None` if no document was found that can be
/// changed.
async fn change(db: &TestDatabase, collections: &[&str], rng: &mut Rng) -> Option<String> {
    for _ in 0..20 {
        let name = collections[rng.usize(..collections.len())];
        let collection = db.plain_collection::<Document>(name);
        let documents = all(&collection).await;
        if documents.is_empty() {
            continue;
        }
        let document = &documents[rng.usize(..documents.len())];
        let mut changed = document.clone();
        let path = change_field(&mut changed, rng);
        let filter = doc! { "_id": document.get("_id") };
        let is_stored = if changed.get("_id") == document.get("_id") {
            collection.replace_one(filter, &changed).await.is_ok()
        } else {
            collection.insert_one(&changed).await.is_ok() && collection.delete_one(filter).await.is_ok()
        };
        if is_stored {
            return Some(format!("{name} {path}"));
        }
    }
    None
}

/// Changes a field of a document, or of a document in it. Returns its path and the new value.
fn change_field(document: &mut Document, rng: &mut Rng) -> String {
    if document.is_empty() {
        document.insert("added", VALUE);
        return "added".to_owned();
    }
    let field = document.keys().nth(rng.usize(..document.len())).cloned().unwrap();
    let stored = document.get_mut(&field).unwrap();
    let deeper = match stored {
        _ if rng.bool() => None,
        Bson::Document(inner) => Some(change_field(inner, rng)),
        Bson::Array(elements) if !elements.is_empty() => {
            let at = rng.usize(..elements.len());
            match &mut elements[at] {
                Bson::Document(inner) if rng.bool() => Some(format!("{at}.{}", change_field(inner, rng))),
                element => {
                    *element = value(rng);
                    Some(format!("{at} = {element:?}"))
                }
            }
        }
        _ => None,
    };
    if let Some(deeper) = deeper {
        return format!("{field}.{deeper}");
    }
    if rng.u8(..4) == 0 {
        document.remove(&field);
        return format!("{field} removed");
    }
    let value = value(rng);
    let text = format!("{field} = {value:?}");
    document.insert(field, value);
    text
}

fn value(rng: &mut Rng) -> Bson {
    #[rustfmt::skip] // several in a line
    let values = [
        Bson::Null, Bson::Undefined, Bson::MinKey, Bson::MaxKey, true.into(), (-1).into(), 7.into(), i64::MIN.into(),
        i64::MAX.into(), 2.5.into(), f64::NAN.into(), f64::INFINITY.into(), "".into(), VALUE.into(), "$count".into(),
        vec![Bson::Null, VALUE.into()].into(), Bson::Array(Vec::new()), doc! {}.into(),
        doc! { "id": VALUE, "n": 1 }.into(), ObjectId::new().into(), DateTime::MIN.into(), DateTime::MAX.into(),
        DateTime::from_millis(5).into(),
    ];
    values[rng.usize(..values.len())].clone()
}
