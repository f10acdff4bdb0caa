//! What the repository costs over the same commands by hand.

use anyhow::Result;
use futures::FutureExt;
use mongodb::Database;

use super::append::{self, BY_HAND, REPOSITORY, VERBATIM};
use super::pages::{self, Form, Reader};
use super::trade::Trade;
use crate::Bench;
use crate::alternate::{Alternative, Turns, alternate};
use crate::measure::Entry;
use crate::report::{Comparison, Section};

const REPOSITORY_AGAIN: &str = "append, once more";
const BY_HAND_AGAIN: &str = "by hand, once more";
const PAGE: &str = "page";
const PAGE_AGAIN: &str = "page, once more";
const FIND: &str = "find and skip by hand";

const TEXT: &str = "\
The same command by the repository and by hand, in turns of one operation, and in turns of 64 that are under way at \
once, on a thread that does nothing else. CPU is that thread's, the system's part of it included, and of a round the \
median turn's. Two forms are there twice: the ratio of the second to the first is what the method cannot tell apart. \
In turns of one, the client waits for the server each time and finds its caches cold. By hand, the item is encoded by \
`serialize_to_bson`, as one would, which makes a date of a document such as `{ \"$date\": 5 }` in it. The last row \
encodes it as an insert does, so that any item comes back as it went in, as does the repository.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("overhead", "What the repository adds", TEXT);
    let alone = Turns {
        turns: bench.pick(2000, 32),
        at_once: 1,
    };
    let together = Turns {
        turns: bench.pick(100, 4),
        at_once: 64,
    };
    for (title, turns) in [("Append", alone), ("Append, 64 at once", together)] {
        section.add(&Comparison::new(title, "append", append(bench, turns).await?));
    }
    pages::fill(bench, 100).await?;
    for (title, turns) in [
        ("Read a page of ten items", alone),
        ("Read a page, 64 at once", together),
    ] {
        section.add(&Comparison::new(title, "page", read(bench, turns).await?));
    }
    Ok(section)
}

async fn append(bench: &Bench<'_>, turns: Turns) -> Result<Vec<Entry>> {
    let items = Trade::spread(turns.turns * turns.at_once * (bench.rounds as u64 + 1));
    let prepare = |database: Database| {
        async move {
            let mut alternatives = Vec::new();
            for (name, form, collection) in [
                (REPOSITORY, REPOSITORY, "overhead_1"),
                (BY_HAND, BY_HAND, "overhead_2"),
                (REPOSITORY_AGAIN, REPOSITORY, "overhead_3"),
                (BY_HAND_AGAIN, BY_HAND, "overhead_4"),
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
            let reader = Reader::new(&database.collection("pages"), &database.collection("pages_flat"))?;
            let forms = [
                (PAGE, Form::Number),
                (FIND, Form::ByHand),
                (PAGE_AGAIN, Form::Number),
                (BY_HAND_AGAIN, Form::ByHand),
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
