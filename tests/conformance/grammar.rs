//! What all calls of all patterns have in common.

use futures::TryStreamExt;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::pages::Pages;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::bucket::untimed;
use support::{history, intervals, outlier, subset};

fn assert_refused(db: &TestDatabase, errors: impl IntoIterator<Item = (&'static str, Error)>) {
    for (call, error) in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{call}: {error:?}");
    }
    assert_eq!(db.recorder().names(), [""; 0], "a refused call sends nothing");
}

/// A handler with two optional parameters, as a service has them.
macro_rules! read_all {
    ($pages:ident: $page:expr, $parts:ident) => {{
        let (mut after, mut parts) = (None, 0);
        loop {
            let page = $page.after(after).before(None).await.unwrap();
            parts += page.$parts.len();
            assert!(parts <= 5, "the list has no end");
            after = page.next;
            if after.is_none() {
                break parts;
            }
        }
    }};
}

#[tokio::test]
async fn a_token_that_is_none_changes_nothing_and_two_tokens_are_refused() {
    testkit::run(async |db| {
        let trades: BucketRepository<u32, Document> = one_item_pages(db).await;
        let products = subset::products(db).await;
        let reviews: Vec<_> = (0..5).map(|id| subset::review_of(1, id, id.into())).collect();
        products.insert_many(&reviews).await.unwrap();
        for n in 0..5_i64 {
            trades.append(&1, &doc! { "n": n }).await.unwrap();
        }
        let pages = Pages::<Document>::over(db.collection::<Document>("review"))
            .sort(doc! { "review_id": 1 })
            .build()
            .unwrap();
        pages.ensure_index().await.unwrap();

        assert_eq!(read_all!(trades: trades.pages(&1), pages), 5);
        assert_eq!(read_all!(products: products.children(1).limit(2), children), 5);
        assert_eq!(read_all!(pages: pages.page().limit(2), documents), 5);
        let (mut after, mut items) = (None, 0);
        loop {
            let page = trades
                .items(&1)
                .limit(2)
                .after(after)
                .page()
                .before(None)
                .await
                .unwrap();
            items += page.items.len();
            assert!(items <= 5, "the list has no end");
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(items, 5);

        let page = trades.pages(&1).await.unwrap().next;
        let item = trades.items(&1).limit(2).page().await.unwrap().next;
        let child = products.children(1).limit(2).await.unwrap().next;
        let document = pages.page().limit(2).await.unwrap().next;
        db.recorder().clear();
        let both = [
            (
                "bucket::pages",
                trades.pages(&1).after(page.clone()).before(page).await.unwrap_err(),
            ),
            (
                "bucket::items",
                trades
                    .items(&1)
                    .after(item.clone())
                    .page()
                    .before(item)
                    .await
                    .unwrap_err(),
            ),
            (
                "children",
                products
                    .children(1)
                    .after(child.clone())
                    .before(child)
                    .await
                    .unwrap_err(),
            ),
            (
                "pages",
                pages.page().after(document.clone()).before(document).await.unwrap_err(),
            ),
        ];
        assert_refused(db, both);
    })
    .await;
}

async fn one_item_pages(db: &TestDatabase) -> BucketRepository<u32, Document> {
    let trades = untimed::<u32, Document>(db).page_size(1).build().unwrap();
    trades.ensure_indexes().await.unwrap();
    trades
}

#[tokio::test]
async fn a_stream_refuses_a_session_and_reads_nothing() {
    testkit::run(async |db| {
        let books = outlier::books(db).await;
        let policies = history::policies(db).await;
        let prices = intervals::prices(db).await;
        let contacts = SchemaRepository::<Document>::builder(db.collection::<Document>("contacts"));
        let contacts = contacts.step(1, |old: Document| Ok(old)).build().unwrap();
        let mut session = db.client().start_session().await.unwrap();
        db.recorder().clear();
        let mut refused = Vec::new();
        let elements = books.elements(1).session(&mut session).stream().try_next().await;
        refused.push(("elements", elements.unwrap_err()));
        let revisions = policies.revisions(1).session(&mut session).stream().try_next().await;
        refused.push(("revisions", revisions.unwrap_err()));
        let intervals = prices
            .intervals("pants")
            .session(&mut session)
            .stream()
            .try_next()
            .await;
        refused.push(("intervals", intervals.unwrap_err()));
        let found = contacts.find(doc! {}).session(&mut session).stream().try_next().await;
        refused.push(("schema::find", found.unwrap_err()));
        assert_refused(db, refused);
    })
    .await;
}
