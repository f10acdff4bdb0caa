//! A client is killed between any two commands of a call: what was acknowledged is there, what is read is right, verify
//! names what is left over, and repair clears it away.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::outlier::Problem;
use mongo_patterns_testkit::{self as testkit, CommandRecorder, FailPoint, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;

use crate::common::support::{end_transactions, quiet};
use crate::outlier::support::*;

/// The manual's book on some server: what is killed is recorded.
struct Place<'a> {
    /// Where it is that of the tests.
    db: Option<&'a TestDatabase>,
    recorder: CommandRecorder,
    recorded: Client,
    plain: Client,
    database: String,
}

impl Place<'_> {
    fn books(&self, client: &Client) -> Books {
        builder_in(&client.database(&self.database))
            .threshold(5)
            .max_extras_elements(10)
            .build()
            .unwrap()
    }

    async fn plant(&self, elements: usize) {
        let database = self.plain.database(&self.database);
        for name in ["sales", "extra_sales"] {
            let collection = database.collection::<Document>(name);
            collection.delete_many(doc! {}).await.unwrap();
        }
        let books = self.books(&self.plain);
        books.ensure_indexes().await.unwrap();
        if elements > 0 {
            books.insert(&book(2, elements)).await.unwrap();
        }
    }

    /// Makes a call whose client disappears after this number of commands. Returns whether it did not come to that.
    async fn kill_at(&self, commands: usize, call: impl Future<Output = ()>) -> bool {
        let block = || FailPoint::on(&[]).times(1).block(Duration::from_millis(1));
        let planned = self.db.map(|db| (db, block().plan(db, commands - 1)));
        let begun = self.begun().await;
        let sent = self.recorder.sent(commands);
        let done = tokio::select! {
            biased;
            () = sent => false,
            () = call => true,
        };
        if let Some((db, planned)) = planned {
            if !done {
                planned.met(db, Duration::from_secs(2)).await;
            }
            planned.end();
            quiet(db).await;
            end_transactions(db).await;
        } else {
            // A standalone refuses those of transactions before it counts them.
            let commands = self.recorder.commands().into_iter();
            let sent = commands.filter(|sent| !sent.command.contains_key("autocommit")).count();
            let sent = i64::try_from(sent).unwrap();
            let all_begun = async { while self.begun().await < begun + sent {} };
            // One that was not written any more never comes.
            let _ = tokio::time::timeout(Duration::from_secs(2), all_begun).await;
        }
        self.settle().await;
        done
    }

    /// How many commands of a repository the server has begun: without others, those that were sent to it are there.
    async fn begun(&self) -> i64 {
        let admin = self.plain.database("admin");
        let status = admin.run_command(doc! { "serverStatus": 1 }).await.unwrap();
        let commands = status
            .get_document("metrics")
            .unwrap()
            .get_document("commands")
            .unwrap();
        let names = [
            "aggregate",
            "delete",
            "find",
            "findAndModify",
            "insert",
            "listIndexes",
            "update",
        ];
        let totals = names.map(|name| commands.get_document(name).unwrap().get_i64("total").unwrap());
        totals.iter().sum()
    }

    /// Until the server has done with what it was sent.
    async fn settle(&self) {
        let admin = self.plain.database("admin");
        let of_books = ["sales", "extra_sales"].map(|name| format!("{}.{name}", self.database));
        let under_way = [
            doc! { "$currentOp": {} },
            doc! { "$match": { "ns": { "$in": &of_books } } },
        ];
        while admin
            .aggregate(under_way.clone())
            .await
            .unwrap()
            .advance()
            .await
            .unwrap()
        {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Push,
    PushMany,
    Remove,
    Insert,
    Delete,
}

async fn call(books: &Books, call: Call, before: usize) {
    let further = users(before..before + 28);
    match call {
        Call::Push => drop(books.push(2, &further[0]).await.unwrap()),
        Call::PushMany => drop(books.push_many(2, &further).await.unwrap()),
        Call::Remove => drop(books.remove(2, &users(before - 1..before)[0]).await.unwrap()),
        Call::Insert => drop(books.insert(&book(2, 28)).await.unwrap()),
        Call::Delete => drop(books.delete(2).await.unwrap()),
    }
}

async fn killed_anywhere(place: &Place<'_>) -> usize {
    let mut killed = 0;
    let calls = [
        (Call::Push, 5),
        (Call::Push, 15),
        (Call::PushMany, 3),
        (Call::PushMany, 12),
        (Call::Remove, 12),
        (Call::Insert, 0),
        (Call::Delete, 4),
        (Call::Delete, 28),
    ];
    for (what, before) in calls {
        for commands in 1.. {
            place.plant(before).await;
            place.recorder.clear();
            let books = place.books(&place.recorded);
            let done = place.kill_at(commands, call(&books, what, before)).await;
            killed += usize::from(!done);
            check(place, what, before, commands).await;
            if done {
                break;
            }
        }
    }
    killed
}

async fn check(place: &Place<'_>, what: Call, before: usize, commands: usize) {
    let at = format!("{what:?} of {before}, killed at {commands}");
    let books = place.books(&place.plain);
    let read = books.get_full(2).await.unwrap().map(|book| book.customers_purchased);
    let number = read.as_ref().map_or(0, Vec::len);
    assert_eq!(read.clone().unwrap_or_default(), users(0..number), "{at}");
    match what {
        Call::Push | Call::PushMany => assert!(number >= before, "{at}: {number}"),
        Call::Remove => assert!(number == before || number == before - 1, "{at}: {number}"),
        Call::Insert => assert!(number <= 28, "{at}: {number}"),
        Call::Delete => assert!(read.is_none() || number == before, "{at}: {number}"),
    }
    for finding in findings(&books).await {
        let is_atomic = place.db.is_some() && what == Call::Delete;
        assert!(!is_atomic, "{at}: {finding:?}");
        let expected = match what {
            Call::Delete => Problem::Orphaned,
            _ => Problem::FlagWithoutOverflow,
        };
        assert_eq!(finding.problem, expected, "{at}");
    }
    let repaired: Vec<_> = books.repair().delete_orphans().stream().try_collect().await.unwrap();
    assert!(repaired.iter().all(|repaired| repaired.unrepaired.is_none()), "{at}");
    assert_eq!(findings(&books).await, [], "{at}");
    let again = books.get_full(2).await.unwrap().map(|book| book.customers_purchased);
    assert_eq!(again, read, "{at}");
    if read.is_none() {
        // nothing conflicts with a new one
        books.insert(&book(2, 28)).await.unwrap();
    }
}

#[tokio::test]
async fn on_a_replica_set() {
    testkit::run(async |db| {
        let place = Place {
            db: Some(db),
            recorder: db.recorder().clone(),
            recorded: db.client().clone(),
            plain: db.plain_client().clone(),
            database: db.database().name().to_owned(),
        };
        let killed = killed_anywhere(&place).await;
        println!("killed {killed} times");
        assert!(killed >= 20, "{killed}");
    })
    .await;
}

#[tokio::test]
async fn on_a_standalone() {
    let standalone = testkit::Mongod::start(testkit::MongodOptions::new().standalone())
        .await
        .unwrap();
    let mut options = ClientOptions::parse(standalone.uri()).await.unwrap();
    let plain = Client::with_options(options.clone()).unwrap();
    let recorder = CommandRecorder::new();
    recorder.attach(&mut options);
    let place = Place {
        db: None,
        recorder,
        recorded: Client::with_options(options).unwrap(),
        plain,
        database: "test".to_owned(),
    };
    let killed = killed_anywhere(&place).await;
    println!("killed {killed} times");
    assert!(killed >= 20, "{killed}");
}
