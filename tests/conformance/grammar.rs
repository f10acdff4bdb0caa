//! What the lists of all patterns have in common.

use futures::TryStreamExt;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::pages::Pages;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::options::assert_in_transaction;
use support::archive::{sales, users};
use support::bucket::untimed;
use support::{history, intervals, outlier, subset};

fn assert_refused(db: &TestDatabase, call: &str, error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{call}: {error:?}");
    assert_eq!(db.recorder().names(), [""; 0], "{call} sends nothing");
}

/// Reads a list of five items, by calls that take the list as a service builds it for a request.
macro_rules! check_list {
    ($db:expr, $list:expr) => {{
        let name = stringify!($list);
        let all: Vec<_> = $list.limit(2).stream().try_collect().await.unwrap();
        assert_eq!(all.len(), 5, "{name}");

        // A handler with two optional parameters.
        let (mut forward, mut after, mut previous) = (Vec::new(), None, None);
        loop {
            let page = $list.limit(2).after(after).before(None).page().await.unwrap();
            assert!(forward.len() < 5, "{name} has no end");
            forward.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
            previous = page.previous;
            assert_eq!(previous.is_none(), forward.len() == 2, "{name}");
        }
        assert_eq!(forward, all, "{name}");
        assert!(previous.is_some(), "{name}");

        let first = $list.limit(3).page().await.unwrap();
        let (token, start) = (first.last_token, first.next);
        let rest = $list.after(token).page().await.unwrap();
        assert_eq!(rest.items[..], all[3..], "{name}");
        assert!(rest.next.is_none(), "{name}");
        let back = $list
            .limit(2)
            .after(None)
            .before(rest.previous.clone())
            .page()
            .await
            .unwrap();
        assert_eq!(back.items[..], all[1..3], "{name}");
        let back = $list.limit(2).before(back.previous).page().await.unwrap();
        assert_eq!(back.items[..], all[..1], "{name}");
        assert!(back.previous.is_none(), "{name}");
        let beyond = $list.after(rest.last_token).page().await.unwrap();
        assert!(beyond.items.is_empty() && beyond.next.is_none(), "{name}");

        let db: &TestDatabase = $db;
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        db.recorder().clear();
        let inside: Vec<_> = $list
            .limit(2)
            .session(&mut session)
            .stream()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(inside, all, "{name}");
        assert!(assert_in_transaction(db, &session) >= 1, "{name}");
        session.abort_transaction().await.unwrap();

        db.recorder().clear();
        let both = $list.after(start.clone()).before(start.clone()).page().await;
        assert_refused(db, name, &both.unwrap_err());
        let before = $list.before(start).stream().try_next().await;
        assert_refused(db, name, &before.unwrap_err());
        assert_refused(db, name, &$list.limit(0).page().await.unwrap_err());
        assert_refused(db, name, &$list.limit(0).stream().try_next().await.unwrap_err());
        all
    }};
}

/// Reads a list by time, in both orders.
macro_rules! check_ordered {
    ($db:expr, $list:expr) => {{
        let mut oldest_first = check_list!($db, $list);
        let newest_first = check_list!($db, $list.newest_first());
        oldest_first.reverse();
        assert_eq!(oldest_first, newest_first, "{}", stringify!($list));
    }};
}

#[tokio::test]
async fn lists_by_time_have_pages_and_streams_in_both_orders() {
    testkit::run(async |db| {
        let trades: BucketRepository<u32, Document> = untimed(db).page_size(1).build().unwrap();
        trades.ensure_indexes().await.unwrap();
        let policies = history::with_policy(db).await;
        let prices = intervals::prices(db).await;
        prices.insert(&intervals::price("pants", 0)).await.unwrap();
        for n in 0..5 {
            trades.append(&1, &doc! { "n": n }).await.unwrap();
        }
        for n in 1..5 {
            policies.update(1, doc! { "$set": { "n": n } }).await.unwrap();
            prices.update("pants", intervals::to(n)).await.unwrap();
        }
        let archive = sales::archive(db).await;
        sales::plant(db, [1, 2, 3].map(|id| sales::sale(id, sales::old(id.into())))).await;
        let archived = [4, 5].map(|id| sales::sale(id, sales::old(id.into())));
        sales::archived(db).insert_many(archived).await.unwrap();
        let trash = users::trash(db).await;
        for id in 1..=5 {
            users::users(db).insert_one(users::user(id)).await.unwrap();
            trash.delete(id).await.unwrap();
        }

        check_ordered!(db, trades.buckets(&1));
        check_ordered!(db, trades.items(&1));
        check_ordered!(db, policies.revisions(1));
        check_ordered!(db, prices.intervals("pants"));
        check_ordered!(db, archive.list(doc! {}));
        check_ordered!(db, trash.list());
    })
    .await;
}

#[tokio::test]
async fn lists_in_another_order_have_pages_and_streams() {
    testkit::run(async |db| {
        let products = subset::products(db).await;
        let reviews: Vec<_> = (0..5).map(|id| subset::review_of(1, id, id.into())).collect();
        products.insert_many(&reviews).await.unwrap();
        let pages = Pages::<Document>::over(db.collection::<Document>("review"));
        let pages = pages.sort(doc! { "review_id": 1 }).build().unwrap();
        pages.ensure_index().await.unwrap();

        check_list!(db, products.children(1));
        check_list!(db, products.children_of_subset(1, "reviews"));
        check_list!(db, pages.list());
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_a_cursor_refuses_a_session_and_reads_nothing() {
    testkit::run(async |db| {
        let books = outlier::books(db).await;
        let contacts = SchemaRepository::<Document>::builder(db.collection::<Document>("contacts"));
        let contacts = contacts.step(1, |old: Document| Ok(old)).build().unwrap();
        let mut session = db.client().start_session().await.unwrap();
        db.recorder().clear();
        let elements = books.elements(1).session(&mut session).stream().try_next().await;
        assert_refused(db, "elements", &elements.unwrap_err());
        let found = contacts.find(doc! {}).session(&mut session).stream().try_next().await;
        assert_refused(db, "schema::find", &found.unwrap_err());
    })
    .await;
}
