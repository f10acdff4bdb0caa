//! Transactions of the caller in spawned futures, which must be `Send`: the form in the documentation.

use mongo_patterns::mongodb::error::Result;
use mongo_patterns_testkit as testkit;
use mongodb::bson::Document;

use support::common::{all, spread, trades};
use support::subset::*;
use support::{embedded as embedded_support, outlier as outlier_support};

#[tokio::test]
async fn a_transaction_over_all_patterns_is_spawned() {
    testkit::run(async |db| {
        let products = products(db).await;
        let trades = trades(db).await;
        let books = outlier_support::books(db).await;
        books.insert(&outlier_support::book(2, 0)).await.unwrap();
        let patrons = embedded_support::patrons(db);
        embedded_support::plant(db, &embedded_support::patron("joe", [])).await;
        let client = trades.collection().client().clone();
        let task = tokio::spawn({
            let (products, trades, books, patrons) = (products.clone(), trades.clone(), books.clone(), patrons.clone());
            async move {
                let mut session = client.start_session().await?;
                session
                    .start_transaction()
                    .and_run2(async move |session| {
                        products.insert(&review(1)).session(&mut *session).await?;
                        trades.append(&123, &spread(0)).session(&mut *session).await?;
                        books.push(2, &"user00".to_owned()).session(&mut *session).await?;
                        let home = embedded_support::address("home");
                        patrons.add_child("joe", &home).session(session).await?;
                        Result::Ok(())
                    })
                    .await
            }
        });
        task.await.unwrap().unwrap();
        assert_eq!(embedded(db).await, [1]);
        assert_eq!(trades.newest(&123, 5).await.unwrap(), [spread(0)]);
        assert_eq!(books.count(2).await.unwrap().total(), 1);
        assert_eq!(embedded_support::ids(db, "joe").await.len(), 1);
        let reviews: Vec<Document> = all(&reviews(db)).await;
        assert_eq!(reviews.len(), 1);
        assert_eq!(products.child(1, 1).await.unwrap(), Some(review(1)));
    })
    .await;
}
