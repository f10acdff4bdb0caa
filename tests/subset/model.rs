//! The subset repository compared with a model in memory.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::options::UpdateModifications;
use proptest::prelude::*;

use crate::subset::model_kinds::{Kind, Reviews, SIZE, in_order};
use support::model::{Sequence, check_random};
use support::subset::*;

#[derive(Clone, Debug)]
enum Call {
    AddParent,
    Insert(i32, i64),
    /// Reviews of either product: the product and the day.
    InsertMany(Vec<(usize, i32, i64)>),
    Update(i32, i64),
    /// Keeps the later one of the stored day and this one.
    Latest(i32, i64),
    /// Adds days, by a pipeline.
    Shift(i32, i64),
    Replace(i32, i64),
    Delete(i32),
    DeleteParent,
    Refresh,
    Get,
    Child(i32),
    Children(u32),
    ChildrenBack(u32),
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let (id, day) = (|| 0..8_i32, || 0..5_i64);
    let review = || (id(), day());
    let call = prop_oneof![
        1 => Just(Call::AddParent),
        10 => review().prop_map(|(id, day)| Call::Insert(id, day)),
        2 => prop::collection::vec((0..2_usize, id(), day()), 1..5).prop_map(Call::InsertMany),
        5 => review().prop_map(|(id, day)| Call::Update(id, day)),
        3 => review().prop_map(|(id, day)| Call::Latest(id, day)),
        2 => review().prop_map(|(id, days)| Call::Shift(id, days - 2)),
        2 => review().prop_map(|(id, day)| Call::Replace(id, day)),
        6 => id().prop_map(Call::Delete),
        1 => prop::bool::weighted(0.3).prop_map(|all| if all { Call::DeleteParent } else { Call::Refresh }),
        1 => Just(Call::Get),
        1 => id().prop_map(Call::Child),
        1 => (1..4_u32).prop_map(Call::Children),
        1 => (1..4_u32).prop_map(Call::ChildrenBack),
    ];
    (0..2_usize, call)
}

struct Model<'a> {
    db: &'a TestDatabase,
    products: &'a Products,
    kind: Kind,
    ids: [i32; 2],
    /// The reviews, if the product exists.
    stored: [Option<Reviews>; 2],
    /// Deleted products, whose `_id`s must not be used again.
    gone: [bool; 2],
}

/// Returns the update of a call.
fn update(call: &Call) -> UpdateModifications {
    match call {
        Call::Shift(_, days) => {
            let shifted = doc! { "$add": ["$published_date", days * 86_400_000] };
            vec![doc! { "$set": { "published_date": shifted } }].into()
        }
        Call::Latest(_, days) => doc! { "$max": { "published_date": day(*days) } }.into(),
        Call::Update(_, days) => doc! { "$set": { "published_date": day(*days) } }.into(),
        _ => panic!("not an update"),
    }
}

fn kind<T>(outcome: Result<T>) -> std::result::Result<T, ErrorKind> {
    outcome.map_err(|error| error.kind())
}

impl Model<'_> {
    fn is_shown(&self, reviews: &Reviews, id: i32) -> bool {
        self.kind.shown(reviews).iter().any(|(_, ids)| ids.contains(&id))
    }

    async fn run(&mut self, of: usize, call: Call) {
        let (products, product) = (self.products, self.ids[of]);
        let is_of_both = matches!(call, Call::InsertMany(_));
        match (self.stored[of].take(), call) {
            (None, Call::AddParent) if !self.gone[of] => {
                add_product(self.db, product).await;
                self.stored[of] = Some(Reviews::new());
            }
            (stored, Call::InsertMany(reviews)) => {
                self.stored[of] = stored;
                self.insert_many(reviews).await;
            }
            (stored, Call::DeleteParent) => {
                let deleted = products.delete_parent(product).await.unwrap();
                assert_eq!(deleted.found, stored.is_some());
                assert_eq!(deleted.documents, stored.map_or(0, |reviews| reviews.len() as u64 + 1));
                self.gone[of] |= deleted.found;
            }
            (None, call) => self.on_none(product, call).await,
            (Some(mut reviews), call) => {
                self.on(product, &mut reviews, call).await;
                self.stored[of] = Some(reviews);
            }
        }
        self.compare(of).await;
        if is_of_both {
            self.compare(1 - of).await;
        }
    }

    async fn on(&self, product: i32, reviews: &mut Reviews, call: Call) {
        let products = self.products;
        match call {
            Call::Insert(id, day) => {
                let inserted = kind(products.insert(&review_of(product, id, day)).await);
                let is_there = reviews.contains_key(&id);
                if is_there {
                    assert_eq!(inserted.unwrap_err(), ErrorKind::AlreadyExists);
                } else {
                    reviews.insert(id, day);
                    assert_eq!(inserted.unwrap().in_subset, self.is_shown(reviews, id));
                }
            }
            Call::Update(id, days) | Call::Latest(id, days) | Call::Shift(id, days) => {
                let updated = kind(products.update(product, id, update(&call)).await);
                match reviews.get_mut(&id) {
                    None => assert_eq!(updated.unwrap_err(), ErrorKind::ChildNotFound),
                    Some(stored) => {
                        *stored = match call {
                            Call::Latest(..) => days.max(*stored),
                            Call::Shift(..) => *stored + days,
                            _ => days,
                        };
                        assert_eq!(updated.unwrap().in_subset, self.is_shown(reviews, id));
                    }
                }
            }
            Call::Replace(id, day) => {
                let replaced = kind(products.replace(&review_of(product, id, day)).await);
                match reviews.get_mut(&id) {
                    None => assert_eq!(replaced.unwrap_err(), ErrorKind::ChildNotFound),
                    Some(stored) => {
                        *stored = day;
                        assert_eq!(replaced.unwrap().in_subset, self.is_shown(reviews, id));
                    }
                }
            }
            Call::Delete(id) => {
                let deleted = products.delete(product, id).await.unwrap();
                assert_eq!(deleted.found, reviews.remove(&id).is_some());
            }
            Call::Refresh => {
                let refreshed = products.refresh(product).await.unwrap();
                let shown = self.kind.shown(reviews);
                assert_eq!(
                    refreshed.embedded,
                    shown.iter().map(|(_, ids)| ids.len() as u64).sum::<u64>()
                );
            }
            Call::Get => {
                let shown = products.get(product).await.unwrap().unwrap().reviews;
                let shown: Vec<i32> = shown.iter().map(|review| review.review_id).collect();
                assert_eq!(shown, in_order(reviews)[..reviews.len().min(SIZE)]);
            }
            Call::Child(id) => {
                let child = products.child(product, id).await.unwrap();
                assert_eq!(child, reviews.get(&id).map(|day| review_of(product, id, *day)));
            }
            Call::Children(limit) => {
                let (mut read, mut token) = (Vec::new(), None);
                loop {
                    let page = products
                        .children(product)
                        .limit(limit)
                        .after(token)
                        .page()
                        .await
                        .unwrap();
                    read.extend(page.items.into_iter().map(|child| child.review_id));
                    token = page.next;
                    if token.is_none() {
                        break;
                    }
                }
                assert_eq!(read, in_order(reviews));
            }
            Call::ChildrenBack(limit) => self.children_back(product, reviews, limit).await,
            _ => {}
        }
    }

    /// Reads to the last page, and back.
    async fn children_back(&self, product: i32, reviews: &Reviews, limit: u32) {
        let (products, expected) = (self.products, in_order(reviews));
        let mut page = products.children(product).limit(1).page().await.unwrap();
        while let Some(next) = page.next.clone() {
            page = products.children(product).limit(1).after(next).page().await.unwrap();
        }
        let ids = |page: Vec<Review>| page.into_iter().map(|review| review.review_id).collect::<Vec<_>>();
        let (mut read, mut token) = (ids(page.items), page.previous);
        while let Some(position) = token {
            let page = products
                .children(product)
                .limit(limit)
                .before(position)
                .page()
                .await
                .unwrap();
            let mut before = ids(page.items);
            before.append(&mut read);
            read = before;
            token = page.previous;
        }
        assert_eq!(read, expected);
    }

    async fn insert_many(&mut self, offered: Vec<(usize, i32, i64)>) {
        let mut stored = self.stored.clone();
        let mut new = Vec::new();
        let mut error = None;
        for (of, id, day) in offered {
            match &mut stored[of] {
                None => error = Some(ErrorKind::NotFound),
                Some(reviews) if reviews.contains_key(&id) => continue,
                Some(reviews) => drop(reviews.insert(id, day)),
            }
            new.push(review_of(self.ids[of], id, day));
        }
        let inserted = kind(self.products.insert_many(&new).await);
        match error {
            Some(error) => assert_eq!(inserted.unwrap_err(), error),
            None => {
                assert_eq!(inserted.unwrap().children, new.len() as u64);
                self.stored = stored;
            }
        }
    }

    async fn on_none(&self, product: i32, call: Call) {
        let products = self.products;
        let refused = match call {
            Call::Insert(id, day) => kind(products.insert(&review_of(product, id, day)).await).map(drop),
            Call::Replace(id, day) => kind(products.replace(&review_of(product, id, day)).await).map(drop),
            Call::Update(id, _) | Call::Latest(id, _) | Call::Shift(id, _) => {
                kind(products.update(product, id, update(&call)).await).map(drop)
            }
            Call::Delete(id) => kind(products.delete(product, id).await).map(drop),
            Call::Refresh => kind(products.refresh(product).await).map(drop),
            _ => {
                assert_eq!(products.get(product).await.unwrap(), None);
                assert_eq!(products.children(product).page().await.unwrap().items, []);
                return;
            }
        };
        assert_eq!(refused, Err(ErrorKind::NotFound));
    }

    /// Compares a stored product with the model.
    async fn compare(&self, of: usize) {
        let (id, reviews) = (self.ids[of], self.stored[of].as_ref());
        let collection = support::subset::reviews(self.db);
        let find = collection.find(doc! { "product_id": id });
        let stored: Vec<Document> = find.await.unwrap().try_collect().await.unwrap();
        let of_document = |review: &Document| {
            let published = *review.get_datetime("published_date").unwrap();
            (review.get_i32("review_id").unwrap(), published)
        };
        let stored: BTreeMap<_, _> = stored.iter().map(of_document).collect();
        let expected = reviews
            .into_iter()
            .flatten()
            .map(|(id, published)| (*id, day(*published)));
        assert_eq!(stored, expected.collect());
        let parent = product(self.db).find_one(doc! { "_id": id }).await.unwrap();
        assert_eq!(parent.is_some(), reviews.is_some());
        let (Some(parent), Some(reviews)) = (parent, reviews) else {
            return;
        };
        for (field, ids) in self.kind.shown(reviews) {
            let shown = parent.get_array(field).into_iter().flatten();
            let shown: Vec<_> = shown.map(|review| of_document(review.as_document().unwrap())).collect();
            let expected: Vec<_> = ids.into_iter().map(|id| (id, day(reviews[&id]))).collect();
            assert_eq!(shown, expected, "{field}");
        }
        self.kind.compare(&parent, reviews);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| {
        let mut kinds = Vec::new();
        for kind in Kind::ALL {
            let database = db.plain_client().database(db.database().name());

            let products = kind.repository(builder_of(&database, newest().size(SIZE as u32)));
            products.ensure_indexes().replace_settings().await.unwrap();
            kinds.push((products, kind));
        }
        check_random(db, call(), async |Sequence { number, variant, calls }| {
            let (products, kind) = &kinds[variant % kinds.len()];
            products.ensure_indexes().replace_settings().await.unwrap();
            let id = i32::try_from(number).unwrap() * 2;
            let mut model = Model {
                db,
                products,
                kind: *kind,
                ids: [id, id + 1],
                stored: [None, None],
                gone: [false; 2],
            };
            for of in 0..2 {
                model.run(of, Call::AddParent).await;
            }
            for (of, call) in calls {
                model.run(of, call).await;
            }
            for of in 0..2 {
                model.compare(of).await;
            }
        })
        .await;
        kinds[0].0.ensure_indexes().replace_settings().await.unwrap();
        let findings: Vec<_> = kinds[0].0.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
    })
    .await;
}
