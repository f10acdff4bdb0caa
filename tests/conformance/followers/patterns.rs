//! The followers of all patterns.

use mongo_patterns::reference::OnReferences;
use mongodb::Database;
use mongodb::bson::doc;

use super::model::{Follows, NAME, follow, follower};
use support::history::follow::{assert_recorded, push_plainly};
use support::history::{builder as policies_builder, copies, current, items, policies, policy, push};
use support::reference::follow::{all_kinds_in, update_plainly};
use support::reference::{COLLECTIONS, add_customers, customer, customers, findings, order, ready, rename, stored};
use support::subset::follower::{assert_right, followed, write_plainly};
use support::subset::{Products, builder as products_builder, review_of, reviews};
use support::{history, reference};

const PARENTS: i32 = 3;

fn products(database: &Database) -> Products {
    products_builder(database).build().unwrap()
}

/// Reviews that other programs write.
pub(super) const REVIEWS: Follows = follower! {
    name: "subset",
    program: "follow-reviews",
    watched: &["review"],
    fill: |db| drop(followed(db, PARENTS).await),
    repository: |database| Box::new(products(database)),
    write_plainly: |db, round| write_plainly(&reviews(db), PARENTS, round.try_into().unwrap(), 12).await,
    write: |database, n| {
        let n = i32::try_from(n).unwrap();
        let review = review_of(1 + n % PARENTS, 2_000_000_000 + n, n.into());
        products(database).insert(&review).await.unwrap();
    },
    follow: |database, how| {
        let products = products(database);
        let mut following = products.follow(NAME);
        if !how.leaves_pre_images {
            following = following.enable_pre_images();
        }
        follow!(following, how)
    },
    check: |db, context| assert_right(db, &products(db.database()), context).await,
    needs_pre_images: true,
};

fn policies_in(database: &Database) -> history::Policies {
    policies_builder(database).build().unwrap()
}

/// Policies that other programs write.
pub(super) const POLICIES: Follows = follower! {
    name: "history",
    program: "follow-policies",
    watched: &["currentPolicies"],
    fill: |db| {
        let policies = policies(db).await;
        for id in 1..=3 {
            policies.insert(&policy(id)).await.unwrap();
        }
    },
    repository: |database| Box::new(policies_in(database)),
    // Policy 1 gets two updates, policy 2 is deleted and inserted again, and policy 3 is replaced.
    write_plainly: |db, round| {
        for n in 0..2 {
            push_plainly(db, 1, &format!("{round}-{n}")).await;
        }
        let current = current(db);
        current.delete_one(doc! { "policyId": 2 }).await.unwrap();
        let of = |id: i32| {
            let mut policy = policy(id);
            policy.insert("round", round);
            policy
        };
        current.insert_one(of(2)).await.unwrap();
        current.replace_one(doc! { "policyId": 3 }, of(3)).await.unwrap();
    },
    write: |database, n| {
        let pushed = push(&format!("own {n}"));
        policies_in(database).update(1, pushed).await.unwrap();
    },
    follow: |database, how| {
        let policies = policies_in(database);
        let mut following = policies.follow(NAME);
        if !how.leaves_pre_images {
            following = following.enable_pre_images();
        }
        follow!(following, how)
    },
    check: |db, context| {
        assert_recorded(db, &policies_in(db.database()), context).await;
        let copies = copies(db, 1).await;
        let stored = copies.iter().filter(|copy| !copy.contains_key("deleted"));
        let lengths: Vec<usize> = stored.map(|copy| items(copy).len()).collect();
        let grows = lengths.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(grows, "{context}: a state is stored twice: {lengths:?}");
    },
    needs_pre_images: true,
};

fn orders(database: &Database) -> reference::Orders {
    all_kinds_in(database).build().unwrap()
}

/// Sources and documents that other programs write.
pub(super) const ORDERS: Follows = follower! {
    name: "reference",
    program: "follow-orders",
    watched: &COLLECTIONS,
    fill: |db| {
        ready(db, all_kinds_in(db.database())).await;
        add_customers(db, 1..=3).await;
        stored(db).insert_many((1..=3).map(|id| order(id, id))).await.unwrap();
    },
    repository: |database| Box::new(orders(database)),
    // Source 1 is renamed, 2 is replaced, and 3 is deleted or inserted again.
    write_plainly: |db, round| {
        let name = round.to_string();
        update_plainly(db, 1, rename(&name)).await;
        let replace = async |id: i32| {
            let customers = customers(db);
            let replaced = customers.replace_one(doc! { "_id": id }, customer(id, &name));
            replaced.upsert(true).await.unwrap();
        };
        replace(2).await;
        match round % 2 {
            0 => drop(customers(db).delete_one(doc! { "_id": 3 }).await.unwrap()),
            _ => replace(3).await,
        }
        stored(db).replace_one(doc! { "_id": 1 }, order(1, 1)).await.unwrap();
        let added = doc! { "$set": { "products": [{ "_id": 1 }, { "_id": 3 }], "customer._id": 2 } };
        stored(db).update_one(doc! { "_id": 2 }, added).await.unwrap();
    },
    write: |database, n| {
        let rename = rename(&format!("own {n}"));
        orders(database).update_source(1, rename).await.unwrap();
    },
    follow: |database, how| {
        let orders = orders(database);
        follow!(orders.follow(NAME).on_missing(OnReferences::KeepCopy), how)
    },
    check: |db, context| assert_eq!(findings(&orders(db.database())).await, [], "{context}"),
    needs_pre_images: false,
};
