//! The outlier repository against a model in memory.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::outlier::Pushed;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use proptest::prelude::*;

use support::common::all;
use support::model::{Sequence, check_random};
use support::outlier::*;

const THRESHOLD: usize = 3;
const CAP: usize = 4;

#[derive(Clone, Debug)]
enum Call {
    Insert(Vec<String>),
    Push(String),
    /// Pushes the elements by concurrent calls.
    PushTogether(Vec<String>),
    PushMany(Vec<String>),
    Remove(String),
    Refresh,
    Delete,
    Repair,
    Get,
    Elements {
        skip: u64,
        limit: u64,
    },
    Contains(String),
    Count,
    Verify,
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let element = || (0..24_u32).prop_map(|n| format!("user{n:02}"));
    let elements = |most| prop::collection::vec(element(), 0..most);
    let call = prop_oneof![
        3 => elements(16).prop_map(Call::Insert),
        7 => element().prop_map(Call::Push),
        3 => prop::collection::vec(element(), 1..12).prop_map(Call::PushTogether),
        4 => elements(12).prop_map(Call::PushMany),
        8 => element().prop_map(Call::Remove),
        3 => Just(Call::Refresh),
        1 => Just(Call::Delete),
        1 => Just(Call::Repair),
        1 => Just(Call::Get),
        1 => (0..16_u64, 1..12_u64).prop_map(|(skip, limit)| Call::Elements { skip, limit }),
        1 => element().prop_map(Call::Contains),
        1 => Just(Call::Count),
        1 => Just(Call::Verify),
    ];
    (0..2_usize, call)
}

/// A book as it should be stored.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stored {
    inline: Vec<String>,
    extras: Vec<Vec<String>>,
    flag: bool,
}

impl Stored {
    fn elements(&self) -> Vec<String> {
        let of_extras = self.extras.iter().flatten();
        self.inline.iter().chain(of_extras).cloned().collect()
    }

    fn overflow(&self) -> u64 {
        self.extras.iter().map(Vec::len).sum::<usize>() as u64
    }

    /// All elements where they belong.
    fn laid_out(elements: &[String]) -> Self {
        let (inline, overflow) = elements.split_at(elements.len().min(THRESHOLD));
        Self {
            inline: inline.to_vec(),
            extras: overflow.chunks(CAP).map(<[String]>::to_vec).collect(),
            flag: !overflow.is_empty(),
        }
    }

    /// Returns how many went to the array.
    fn push(&mut self, elements: &[String]) -> u64 {
        let room = if self.flag { 0 } else { THRESHOLD - self.inline.len() };
        let (inline, mut rest) = elements.split_at(room.min(elements.len()));
        self.inline.extend_from_slice(inline);
        self.flag |= !rest.is_empty();
        if let Some(newest) = self.extras.last_mut() {
            let (taken, after) = rest.split_at(CAP.saturating_sub(newest.len()).min(rest.len()));
            newest.extend_from_slice(taken);
            rest = after;
        }
        self.extras.extend(rest.chunks(CAP).map(<[String]>::to_vec));
        inline.len() as u64
    }

    /// Returns whether there was one.
    fn remove(&mut self, element: &str) -> bool {
        let before = self.elements().len();
        for array in self.extras.iter_mut().chain([&mut self.inline]) {
            array.retain(|other| other != element);
        }
        self.elements().len() < before
    }
}

struct Model<'a> {
    db: &'a TestDatabase,
    books: &'a Books,
    unique: bool,
    ids: [i32; 2],
    /// The stored list, if the book exists.
    stored: [Option<Stored>; 2],
}

/// That a call of a book that there is not says so.
#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: mongo_patterns::Result<T>) {
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotFound);
}

impl Model<'_> {
    async fn run(&mut self, of: usize, call: Call) {
        let (books, id) = (self.books, self.ids[of]);
        match call {
            Call::Insert(users) => self.insert(of, users).await,
            Call::Delete => {
                let deleted = books.delete(id).await.unwrap();
                let stored = self.stored[of].take();
                assert_eq!(deleted.found, stored.is_some());
                let documents = stored.map_or(0, |stored| 1 + stored.extras.len() as u64);
                assert_eq!(deleted.documents, documents);
            }
            call => match self.stored[of].take() {
                Some(mut stored) => {
                    self.on(id, &mut stored, call).await;
                    self.stored[of] = Some(stored);
                }
                None => self.on_none(id, call).await,
            },
        }
        assert_eq!(self.look(id).await, self.stored[of]);
    }

    async fn insert(&mut self, of: usize, mut users: Vec<String>) {
        if self.unique {
            users.sort_unstable();
            users.dedup();
        }
        let new = Book {
            customers_purchased: users.clone(),
            ..book(self.ids[of], 0)
        };
        let inserted = self.books.insert(&new).await;
        if self.stored[of].is_some() {
            assert_eq!(inserted.unwrap_err().kind(), ErrorKind::AlreadyExists);
            return;
        }
        let stored = Stored::laid_out(&users);
        assert_eq!(inserted.unwrap().id, self.ids[of].into());
        self.stored[of] = Some(stored);
    }

    async fn on(&self, id: i32, stored: &mut Stored, call: Call) {
        let books = self.books;
        match call {
            Call::Push(user) if self.unique => {
                let pushed = books.push_unique(id, &user).await.unwrap();
                let expected = match stored.elements().contains(&user) {
                    true => Pushed::AlreadyThere,
                    false if stored.push(&[user]) > 0 => Pushed::Inline,
                    false => Pushed::Overflow,
                };
                assert_eq!(pushed, expected);
            }
            Call::Push(user) => {
                let pushed = books.push(id, &user).await.unwrap();
                assert_eq!(pushed == Pushed::Inline, stored.push(&[user]) > 0);
            }
            Call::PushTogether(users) => {
                let pushes = users.iter().map(|user| books.push(id, user).into_future());
                for (user, pushed) in users.iter().zip(join_all(pushes).await) {
                    match self.unique {
                        true => assert_eq!(pushed.unwrap_err().kind(), ErrorKind::Configuration),
                        false => assert_eq!(
                            pushed.unwrap() == Pushed::Inline,
                            stored.push(std::slice::from_ref(user)) > 0
                        ),
                    }
                }
            }
            Call::PushMany(users) if self.unique => {
                let refused = books.push_many(id, &users).await;
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Configuration);
            }
            Call::PushMany(users) => {
                let pushed = books.push_many(id, &users).await.unwrap();
                let inline = stored.push(&users);
                assert_eq!((pushed.inline, pushed.overflow), (inline, users.len() as u64 - inline));
            }
            Call::Remove(user) => assert_eq!(books.remove(id, &user).await.unwrap().found, stored.remove(&user)),
            Call::Refresh => {
                let refreshed = books.refresh(id).await.unwrap();
                let laid_out = Stored::laid_out(&stored.elements());
                assert_eq!(refreshed.modified, laid_out != *stored);
                assert_eq!(refreshed.inline, laid_out.inline.len() as u64);
                assert_eq!(refreshed.overflow, laid_out.overflow());
                *stored = laid_out;
            }
            Call::Get => {
                let found = books.get(id).await.unwrap().unwrap();
                assert_eq!(found.document.customers_purchased, stored.inline);
                assert_eq!(found.has_extras, stored.flag);
                let whole = books.get_full(id).await.unwrap().unwrap();
                assert_eq!(whole.customers_purchased, stored.elements());
            }
            Call::Elements { skip, limit } => {
                let page = books.elements(id).skip(skip).limit(limit).await.unwrap();
                let expected = stored.elements().into_iter();
                let expected = expected
                    .skip(usize::try_from(skip).unwrap())
                    .take(usize::try_from(limit).unwrap());
                assert_eq!(page, expected.collect::<Vec<_>>());
                let streamed: Vec<String> = books.elements(id).stream().try_collect().await.unwrap();
                assert_eq!(streamed, stored.elements());
            }
            Call::Contains(user) => {
                let is_there = stored.elements().contains(&user);
                assert_eq!(books.contains(id, &user).await.unwrap(), is_there);
            }
            Call::Count => {
                let counts = books.count(id).await.unwrap();
                let inline = stored.inline.len() as u64;
                assert_eq!((counts.inline, counts.overflow), (inline, stored.overflow()));
            }
            _ => {
                let findings: Vec<_> = books.verify_document(id).stream().try_collect().await.unwrap();
                assert_eq!(findings, []);
            }
        }
    }

    async fn on_none(&self, id: i32, call: Call) {
        let books = self.books;
        match call {
            Call::Push(user) if self.unique => refused(books.push_unique(id, &user).await),
            Call::Push(user) => refused(books.push(id, &user).await),
            Call::PushMany(_) | Call::PushTogether(_) if self.unique => {}
            Call::PushTogether(users) => {
                let pushes = users.iter().map(|user| books.push(id, user).into_future());
                join_all(pushes).await.into_iter().for_each(refused);
            }
            Call::PushMany(users) if users.is_empty() => drop(books.push_many(id, &users).await.unwrap()),
            Call::PushMany(users) => refused(books.push_many(id, &users).await),
            Call::Remove(user) => refused(books.remove(id, &user).await),
            Call::Refresh => refused(books.refresh(id).await),
            Call::Elements { .. } => refused(books.elements(id).await),
            Call::Contains(user) => refused(books.contains(id, &user).await),
            Call::Count => refused(books.count(id).await),
            _ => {
                assert_eq!(books.get(id).await.unwrap(), None);
                assert_eq!(books.get_full(id).await.unwrap(), None);
            }
        }
    }

    /// The stored list of a book.
    async fn look(&self, id: i32) -> Option<Stored> {
        let users = |document: &Document, field: &str| -> Vec<String> {
            let users = document.get_array(field).unwrap().iter();
            users.map(|user| user.as_str().unwrap().to_owned()).collect()
        };
        let collection = extra_sales(self.db);
        let find = collection.find(doc! { "book_id": id }).sort(doc! { "seq": 1 });
        let extras: Vec<Document> = find.await.unwrap().try_collect().await.unwrap();
        for (seq, document) in (0..).zip(&extras) {
            let count = document.get_array("customers_purchased_extra").unwrap().len();
            assert_eq!(document.get_i32("seq").unwrap(), seq);
            assert_eq!(document.get_i32("count").unwrap(), i32::try_from(count).unwrap());
        }
        let Some(main) = sales(self.db).find_one(doc! { "_id": id }).await.unwrap() else {
            assert_eq!(extras, [], "extras of no book");
            return None;
        };
        Some(Stored {
            inline: users(&main, "customers_purchased"),
            extras: extras
                .iter()
                .map(|extra| users(extra, "customers_purchased_extra"))
                .collect(),
            flag: main.get_bool("has_extras").unwrap_or(false),
        })
    }
}

async fn run(db: &TestDatabase, unique: bool) {
    let books = Books::builder(sales(db), extra_sales(db))
        .array_field("customers_purchased")
        .parent_field("book_id")
        .threshold(THRESHOLD as u32)
        .max_overflow_elements(CAP as u32);
    let books = ready(db, if unique { books.unique_elements() } else { books }).await;
    check_random(db, call(), async |Sequence { number, calls, .. }| {
        let id = i32::try_from(number).unwrap() * 2;
        let mut model = Model {
            db,
            books: &books,
            unique,
            ids: [id, id + 1],
            stored: [None, None],
        };
        model.insert(0, Vec::new()).await;
        for (of, call) in calls {
            model.run(of, call).await;
        }
        for (id, stored) in model.ids.into_iter().zip(&model.stored) {
            assert_eq!(model.look(id).await, *stored);
        }
    })
    .await;
    assert_eq!(findings(&books).await, []);
    assert!(!all(&extra_sales(db)).await.is_empty(), "no outliers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| run(db, false).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls_with_unique_elements() {
    testkit::run(async |db| run(db, true).await).await;
}
