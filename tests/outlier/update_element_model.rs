//! Updates of single elements against a model in memory: the elements of a list in their order.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};
use proptest::prelude::*;

use crate::outlier::update_element::{CAP, Orders, THRESHOLD, by, elements};
use support::model::{Sequence, check_random};
use support::outlier::*;

#[derive(Clone, Debug)]
enum Call {
    Push(i32),
    Update(i32, i32),
    Remove(usize),
    Refresh,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| {
        let books = builder(db)
            .threshold(THRESHOLD as u32)
            .max_overflow_elements(CAP as u32);
        let books: Orders = ready(db, books).await;
        let user = || 0..6_i32;
        let call = prop_oneof![
            4 => user().prop_map(Call::Push),
            4 => (user(), 0..3_i32).prop_map(|(user, by)| Call::Update(user, by)),
            2 => (0..20_usize).prop_map(Call::Remove),
            1 => Just(Call::Refresh),
        ];
        check_random(db, call, async |Sequence { calls, .. }| {
            books.delete(2).await.unwrap();
            let document = doc! { "_id": 2, "customers_purchased": [] };
            books.insert(&document).await.unwrap();
            let mut stored: Vec<Document> = Vec::new();
            for (number, call) in calls.into_iter().enumerate() {
                match call {
                    Call::Push(user) => {
                        let new = doc! { "user": user, "number": number as i64, "copies": 0 };
                        books.push(2, &new).await.unwrap();
                        stored.push(new);
                    }
                    Call::Update(user, copies) => {
                        let inc = doc! { "$inc": { "copies": copies } };
                        let updated = books.update_element(2, by(user), inc).await;
                        match stored.iter_mut().find(|order| order.get_i32("user").ok() == Some(user)) {
                            Some(order) => {
                                assert_eq!(updated.unwrap().modified, copies != 0);
                                let before = order.get_i32("copies").unwrap();
                                order.insert("copies", before + copies);
                            }
                            None => assert_eq!(updated.unwrap_err().kind(), ErrorKind::NotFound),
                        }
                    }
                    Call::Remove(rank) if !stored.is_empty() => {
                        let gone = stored.remove(rank % stored.len());
                        assert!(books.remove(2, &gone).await.unwrap().found);
                    }
                    Call::Remove(_) => {}
                    Call::Refresh => drop(books.refresh(2).await.unwrap()),
                }
                assert_eq!(elements(&books).await, stored);
            }
            // It closes the gaps of removals.
            books.refresh(2).await.unwrap();
            assert_eq!(elements(&books).await, stored);
            assert_eq!(violations(db, THRESHOLD, CAP).await, Vec::<String>::new());
        })
        .await;
    })
    .await;
}
