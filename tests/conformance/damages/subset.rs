//! Reviews: fifteen of each product, of which the product embeds the ten newest.

use mongo_patterns::subset::{Problem, Unrepaired};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};

use super::model::Outcome::{Left, Restored};
use super::model::{Damage, Model, Stored, calls, damage, delete, insert, update};
use support::subset::{Products, Review, add_product, day, product, products, review_of, reviews, wrong};

pub(crate) struct Children(Products);

impl Children {
    /// Stores the products 1 to 8 and 10 with reviews, and product 9 without any, and damages them.
    pub(crate) async fn damaged(db: &TestDatabase, products: Products) -> Products {
        fill(db, &products).await;
        damage(db, &Self::damages()).await;
        db.recorder().clear();
        products
    }
}

async fn fill(db: &TestDatabase, products: &Products) {
    for id in 2..=10 {
        add_product(db, id).await;
    }
    for id in (1..=8).chain([10]) {
        let children: Vec<Review> = (0..15).map(|n| review_of(id, n, n.into())).collect();
        products.insert_many(&children).await.unwrap();
    }
}

impl Model for Children {
    const COLLECTIONS: &'static [Stored] = &[
        ["product", "_id", "reviews", "_id"],
        ["review", "product_id", "review_id", "review_id"],
    ];
    const IS_ONE_REPAIR: bool = false;

    async fn new(db: &TestDatabase) -> Self {
        let products = products(db).await;
        fill(db, &products).await;
        Self(products)
    }

    #[rustfmt::skip] // a kind of damage in a line
    fn damages() -> Vec<Damage<Self>> {
        let damage = |owner: Bson, write, problem, outcome| Damage::<Self> {
            problems: vec![("product", owner.clone(), problem)],
            owner,
            writes: vec![write],
            related: None,
            outcome,
        };
        let stale = |id: i32, write, outcome| damage(id.into(), write, Problem::Stale, outcome);
        let not_stored = |id: i32, write, children| {
            damage(id.into(), write, Problem::NotStored { children }, Left(Unrepaired::NotStored))
        };
        let change = |id, change: Document| stale(id, update("product", doc! { "_id": id }, change), Restored);
        let orphan = |owner, review| {
            damage(owner, insert("review", review), Problem::Orphaned { children: 1 }, Left(Unrepaired::NoParent))
        };
        let review = |n: i32| doc! { "review_id": n, "review_author": "Kristina", "published_date": day(n.into()) };
        vec![
            change(2, doc! { "$set": { "reviews.3.review_author": "Pablo" } }),
            change(3, doc! { "$unset": { "reviews": 1 } }),
            change(4, doc! { "$pop": { "reviews": 1 } }),
            change(5, doc! { "$set": { "reviews": "none" } }),
            change(6, doc! { "$push": { "reviews": { "$each": [], "$sort": { "published_date": 1 } } } }),
            not_stored(7, delete("review", doc! { "product_id": 7, "review_id": 14 }), 1),
            not_stored(8, delete("review", doc! { "product_id": 8 }), 10),
            not_stored(10, update("product", doc! { "_id": 10 }, doc! { "$push": { "reviews": review(99) } }), 1),
            orphan(90.into(), serialize_to_document(&review_of(90, 1, 1)).unwrap()),
            orphan(Bson::Null, doc! { "review_id": 1 }),
        ]
    }

    async fn judge(db: &TestDatabase) {
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    }

    async fn write(&self, owner: Bson, n: i32) -> mongo_patterns::Result<()> {
        let newest = review_of(owner.as_i32().unwrap(), 99 + n, (99 + n).into());
        self.0.insert(&newest).await.map(drop)
    }

    calls!();
}
