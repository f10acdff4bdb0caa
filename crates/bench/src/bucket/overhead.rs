//! The overhead of the repository over the same commands by hand.

use anyhow::Result;
use futures::FutureExt;
use mongodb::Database;

use super::append::{self, BY_HAND, REPOSITORY, VERBATIM};
use super::pages::{self, Form, Reader};
use super::trade::Trade;
use crate::alternate::{Alternative, Turns, alternate};
use crate::bench::Bench;
use crate::measure::Entry;
use crate::report::{Comparison, Section};

const PAGES: u64 = 100;
const REPOSITORY_REPEATED: &str = "append, repeated";
const BY_HAND_REPEATED: &str = "by hand, repeated";
const PAGE: &str = "page";
const PAGE_REPEATED: &str = "page, repeated";
const FIND: &str = "find and skip by hand";

const TEXT: &str = "\
The same command by the repository and by hand, alternating after each operation, and after each 64 concurrent \
operations, on a dedicated thread. CPU is the CPU time of that thread, including system time, in the median turn of a \
round. Two forms run twice: the ratio of the second to the first is the error of the method. With single operations, \
the client waits for the server each time and has cold caches. By hand, the item is encoded by `serialize_to_bson`, \
the usual way, which turns a document such as `{ \"$date\": 5 }` into a date. The last row encodes it as an insert \
does, so that any item is returned as it was stored; so does the repository.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("overhead", "Overhead of the repository", TEXT);
    let single = Turns {
        turns: bench.pick(2000, 32),
        concurrency: 1,
    };
    let concurrent = Turns {
        turns: bench.pick(100, 4),
        concurrency: 64,
    };
    for (title, turns) in [("Append", single), ("Append, 64 concurrent", concurrent)] {
        section.add(&Comparison::new(title, "append", append(bench, turns).await?));
    }
    pages::fill(bench, PAGES).await?;
    for (title, turns) in [
        ("Read a page of ten items", single),
        ("Read a page, 64 concurrent", concurrent),
    ] {
        section.add(&Comparison::new(title, "page", read(bench, turns).await?));
    }
    Ok(section)
}

async fn append(bench: &Bench<'_>, turns: Turns) -> Result<Vec<Entry>> {
    let items = Trade::spread(turns.turns * turns.concurrency * (bench.rounds as u64 + 1));
    let prepare = |database: Database| {
        async move {
            let mut alternatives = Vec::new();
            for (name, form, collection) in [
                (REPOSITORY, REPOSITORY, "overhead_1"),
                (BY_HAND, BY_HAND, "overhead_2"),
                (REPOSITORY_REPEATED, REPOSITORY, "overhead_3"),
                (BY_HAND_REPEATED, BY_HAND, "overhead_4"),
                (VERBATIM, VERBATIM, "overhead_5"),
            ] {
                alternatives.push(Alternative {
                    name,
                    ours: form == REPOSITORY,
                    operation: append::prepare(form, database.collection(collection), items.clone()).await?,
                });
            }
            Ok(alternatives)
        }
        .boxed()
    };
    alternate(bench, turns, BY_HAND, prepare).await
}

async fn read(bench: &Bench<'_>, turns: Turns) -> Result<Vec<Entry>> {
    let prepare = |database: Database| {
        async move {
            let reader = Reader::new(&database.collection("pages"), &database.collection("pages_flat"), PAGES)?;
            let forms = [
                (PAGE, Form::Number),
                (FIND, Form::ByHand),
                (PAGE_REPEATED, Form::Number),
                (BY_HAND_REPEATED, Form::ByHand),
            ];
            let alternatives = forms.map(|(name, form)| Alternative {
                name,
                ours: matches!(form, Form::Number),
                operation: reader.operation(form, 2),
            });
            Ok(alternatives.into())
        }
        .boxed()
    };
    alternate(bench, turns, FIND, prepare).await
}
