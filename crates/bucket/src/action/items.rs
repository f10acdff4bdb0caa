use std::borrow::Borrow;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;

use futures::Stream;
use futures::stream::try_unfold;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use serde::de::DeserializeOwned;

use crate::action::Pages;
use crate::repository::Shared;
use crate::{BucketRepository, PageToken};

/// About how many items one round trip brings.
const ITEMS_AT_ONCE: u32 = 1000;

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// All items of a key as a stream, in the order in which they were stored, or the newest first.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut items = trades.items(&123).newest_first().stream();
    /// while let Some(item) = items.try_next().await? {
    ///     println!("{item}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It holds no cursor on the server between round trips, so it may be read slowly. Each page is seen as it is when
    /// it is read: items that are appended meanwhile can be in it or not, and none comes twice.
    ///
    /// # Cost
    /// One round trip for about 1000 items, in which the server examines the pages that it returns.
    ///
    /// # Errors
    /// Those of [`pages`](Self::pages), as the last item of the stream.
    pub fn items<Q>(&self, key: &Q) -> Items<'_, K, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        Items {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            newest_first: false,
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads all items of a key; made by [`BucketRepository::items`].
#[derive(Debug)]
#[must_use = "it does nothing until its stream is read"]
pub struct Items<'a, K, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    newest_first: bool,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> (K, T)>,
}

/// A stream of items; made by [`Items::stream`].
pub type ItemStream<'a, T> = Pin<Box<dyn Stream<Item = Result<T>> + Send + 'a>>;

impl<'a, K: Key, T: DeserializeOwned + Send + 'a> Items<'a, K, T> {
    /// The newest first.
    pub fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }

    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    /// The stream. It sends nothing before it is read.
    pub fn stream(self) -> ItemStream<'a, T> {
        let pages_at_once = (ITEMS_AT_ONCE / self.shared.settings.page_size).max(1);
        let state = State {
            items: self,
            read: VecDeque::new(),
            next: Some(None),
        };
        Box::pin(try_unfold(state, move |mut state| async move {
            loop {
                if let Some(item) = state.read.pop_front() {
                    return Ok(Some((item, state)));
                }
                let Some(place) = state.next.take() else {
                    return Ok(None);
                };
                state.fetch(place, pages_at_once).await?;
            }
        }))
    }
}

struct State<'a, K, T> {
    items: Items<'a, K, T>,
    read: VecDeque<T>,
    /// Where to go on, from the start or after a page; `None` at the end.
    next: Option<Option<PageToken>>,
}

impl<K: Key, T: DeserializeOwned> State<'_, K, T> {
    async fn fetch(&mut self, place: Option<PageToken>, limit: u32) -> Result<()> {
        let Items {
            shared,
            key,
            newest_first,
            session,
            ..
        } = &mut self.items;
        let newest_first = *newest_first;
        let mut pages: Pages<'_, K, T> = Pages::new(shared, key.clone()).after(place).limit(limit);
        if newest_first {
            pages = pages.newest_first();
        }
        let slice = pages.session(session.as_deref_mut()).await?;
        self.next = slice.next.map(Some);
        for page in slice.pages {
            if newest_first {
                self.read.extend(page.items.into_iter().rev());
            } else {
                self.read.extend(page.items);
            }
        }
        Ok(())
    }
}
