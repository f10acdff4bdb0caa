//! Reading a page.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::{FutureExt, TryStreamExt};
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};

use super::by_hand;
use super::collection::Trades;
use super::trade::{FlatTrade, Trade};
use crate::bench::Bench;
use crate::counts::examined;
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const KEY: u32 = 123;
const PAGE: u64 = super::collection::PAGE_SIZE as u64;

const TEXT: &str = "\
One reader reads a page of ten items of a key that has 10,000 pages, and decodes it. Each form is compared with \
itself at page 1. A read by token starts at the token of the previous page. Page 1 has no token and a simpler query, \
so the table also has page 2. A read of a known number has the number of pages, and starts from the nearer end. The form by hand is the manual's, `find` with `skip`. One document per item has an \
index by customer and date. A page is ten documents there, found by `skip`, or by the date of the last item of the \
previous page.";

#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Number,
    Of,
    Cursor,
    ByHand,
    Flat,
    FlatCursor,
}

impl Form {
    const ALL: [Self; 6] = [
        Self::Number,
        Self::Of,
        Self::Cursor,
        Self::ByHand,
        Self::Flat,
        Self::FlatCursor,
    ];

    fn name(self, page: u64) -> String {
        let form = match self {
            Self::Number => "page",
            Self::Of => "page, of a known number",
            Self::Cursor => "pages, by token",
            Self::ByHand => "find and skip by hand",
            Self::Flat => "flat, find and skip",
            Self::FlatCursor => "flat, by date",
        };
        format!("{form}, page {}", number(page as f64))
    }

    /// Late pages are slow by number.
    fn operations(self, page: u64) -> u64 {
        match self {
            Self::Flat if page > 1000 => 40,
            Self::Number | Self::ByHand if page > 1000 => 200,
            _ => 2000,
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let pages = bench.pick([1, 2, 100, 10_000], [1, 2, 10, 100]);
    fill(bench, pages[3]).await?;
    let timed = Reader::new(&bench.collection("pages"), &bench.collection("pages_flat"), pages[3])?;
    let mut variants = Vec::new();
    for form in Form::ALL {
        for page in pages {
            let operations = bench.pick(form.operations(page), 20);
            let operation = timed.operation(form, page);
            let variant = Variant::new(form.name(page), operations, move || {
                let operation = Arc::clone(&operation);
                async move { Ok(in_tasks(1, operations, operation)) }
            });
            let variant = variant.against(form.name(pages[0]));
            variants.push(match form {
                Form::Number | Form::Of | Form::Cursor => variant.ours(),
                _ => variant,
            });
        }
    }
    let title = "By page number";
    let mut comparison = Comparison::new(title, "page", compare(bench, title, variants).await?);
    let counted = Reader::new(&bench.recorded("pages"), &bench.recorded("pages_flat"), pages[3])?;
    for form in Form::ALL {
        for page in pages {
            let found = examined(bench, counted.operation(form, page)(0)).await?;
            comparison.figure(&form.name(page), "documents examined", found.documents);
            comparison.figure(&form.name(page), "keys examined", found.keys);
        }
    }
    let mut section = Section::new("pages", "Read a page", TEXT);
    section.add(&comparison);
    Ok(section)
}

pub(super) async fn fill(bench: &Bench<'_>, pages: u64) -> Result<()> {
    let items = Trade::spread(pages * PAGE);
    let trades = super::collection::fresh(&bench.collection("pages")).await?;
    trades.append_many(&KEY, &items).await?;
    let flat = bench.collection("pages_flat");
    by_hand::flat(&flat).await?;
    let documents = items.iter().map(|item| FlatTrade::new(KEY, item));
    flat.clone_with_type::<FlatTrade>().insert_many(documents).await?;
    Ok(())
}

/// Reads pages in every form.
#[derive(Clone)]
pub(super) struct Reader {
    trades: Trades,
    buckets: Collection<by_hand::Bucket<Vec<Trade>>>,
    flat: Collection<FlatTrade>,
    /// How many pages there are.
    total: u64,
}

impl Reader {
    pub(super) fn new(buckets: &Collection<Document>, flat: &Collection<Document>, total: u64) -> Result<Self> {
        Ok(Self {
            trades: super::collection::repository(buckets, super::collection::PAGE_SIZE)?,
            buckets: buckets.clone_with_type(),
            flat: flat.clone_with_type(),
            total,
        })
    }

    /// Reads one page, and checks that it is the expected one.
    pub(super) fn operation(&self, form: Form, page: u64) -> Operation {
        let reader = Arc::new(self.clone());
        let expected = Trade::spread(page * PAGE)[((page - 1) * PAGE) as usize].date;
        Arc::new(move |_| {
            let reader = Arc::clone(&reader);
            async move {
                let (first, items) = reader.read(form, page).await?.context("the page does not exist")?;
                ensure!(
                    first == expected && items as u64 == PAGE,
                    "the read returned another page"
                );
                Ok(())
            }
            .boxed()
        })
    }

    /// Returns the date of the page's first item, and the number of its items.
    async fn read(&self, form: Form, page: u64) -> Result<Option<(DateTime, usize)>> {
        let of_trades = |items: &[Trade]| Some((items.first()?.date, items.len()));
        match form {
            Form::Number => Ok(self
                .trades
                .page(&KEY, page)
                .await?
                .and_then(|page| of_trades(&page.items))),
            Form::Of => {
                let found = self.trades.page(&KEY, page).of(self.total).await?;
                Ok(found.and_then(|page| of_trades(&page.items)))
            }
            Form::Cursor => {
                let before = match page {
                    1 => None,
                    _ => Some(self.second_before(page).to_string().parse()?),
                };
                let found = self.trades.buckets(&KEY).limit(1).after(before).page().await?;
                Ok(found.items.first().and_then(|page| of_trades(&page.items)))
            }
            Form::ByHand => {
                let find = self.buckets.find_one(doc! { "_id": by_hand::ids_of(KEY)? });
                let found = find.sort(doc! { "_id": 1 }).skip(page - 1).await?;
                Ok(found.and_then(|bucket| of_trades(&bucket.history)))
            }
            Form::Flat | Form::FlatCursor => {
                let mut filter = doc! { "customerId": KEY };
                let mut skip = (page - 1) * PAGE;
                if matches!(form, Form::FlatCursor) {
                    if page > 1 {
                        let last = DateTime::from_millis((self.second_before(page) + PAGE as i64 - 1) * 1000 + 434);
                        filter.insert("date", doc! { "$gt": last });
                    }
                    skip = 0;
                }
                let find = self.flat.find(filter).sort(doc! { "date": 1 });
                let found: Vec<FlatTrade> = find.skip(skip).limit(PAGE as i64).await?.try_collect().await?;
                Ok(found.first().map(|first| (first.date, found.len())))
            }
        }
    }

    /// Returns the second at which the previous page was opened.
    fn second_before(&self, page: u64) -> i64 {
        super::trade::SECOND + ((page - 2) * PAGE) as i64
    }
}
