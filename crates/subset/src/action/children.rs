use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, batch_size, run};
use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{FindOptions, Hint};
use serde::de::DeserializeOwned;

use crate::form::bound::neighbour;
use crate::form::child::{decode, refused};
use crate::repository::Shared;
use crate::settings::Settings;
use crate::{ChildToken, Direction, SubsetRepository, query};

impl<P, C: DeserializeOwned> SubsetRepository<P, C> {
    /// A page of the children of a parent, whole, in their order: the first ones, or those [after](Children::after) or
    /// [before](Children::before) a place. No children where the parent does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # async fn f(products: SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let first = products.children(1).limit(50).await?;
    /// if let Some(next) = first.next {
    ///     let second = products.children(1).limit(50).after(next).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and as many documents as it returns, on any page. One more after a place where ids descend and are
    /// strings, or are of another type than integers, strings, ObjectIds, binaries such as UUIDs, and dates.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an id, a limit of 0, and a
    /// token of another order, [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing), and
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode).
    pub fn children(&self, parent: impl IntoId) -> Children<'_, C> {
        Children {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            limit: 100,
            from: From::Start,
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads a page of children; made by [`SubsetRepository::children`].
///
/// ```no_run
/// # use mongo_patterns_subset::{ChildToken, SubsetRepository};
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// #     after: Option<ChildToken>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let page = products.children(1).limit(50).after(after).session(session).await?;
/// let back = products.children(1).limit(50).before(page.previous).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Children<'a, C> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    limit: u32,
    from: From,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> C>,
}

mongo_patterns_core::redacted_debug!(Children<'_, C>);

#[derive(Debug)]
enum From {
    Start,
    After(ChildToken),
    Before(ChildToken),
}

/// A page of children.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let page = products.children(1).limit(50).await?;
/// println!("{} reviews", page.children.len());
/// let link_to_next = page.next.map(|token| format!("/reviews?after={token}"));
/// let link_back = page.previous.map(|token| format!("/reviews?before={token}"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChildrenPage<C> {
    /// The children, in their order, on a page before a place, too.
    pub children: Vec<C>,
    /// Where to go on [after](Children::after) them; `None` when there are no more. The page there may be empty.
    pub next: Option<ChildToken>,
    /// Where to go on [before](Children::before) them; `None` when there are none before. The page there may be empty.
    pub previous: Option<ChildToken>,
    /// The position of the first child of this page: what is ordered [before](Children::before) it may come later. Always
    /// there, to poll the start of the children; see [`last_token`](Self::last_token).
    pub first_token: ChildToken,
    /// The position of the last child of this page: what is ordered [after](Children::after) it may come later. Always
    /// there, to poll the end of the children. On an empty page it is the position that the page was read from, and
    /// before all children where there was none.
    ///
    /// Poll the side on which new children appear: the end where they are ordered by an ascending time, as here, and the
    /// start, with `first_token` and `before`, where the newest are first.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # use std::time::Duration;
    /// # async fn f(messages: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let mut token = None;
    /// loop {
    ///     let page = messages.children(1).limit(50).after(token).await?;
    ///     for message in &page.children {
    ///         println!("{message}");
    ///     }
    ///     if page.next.is_none() {
    ///         tokio::time::sleep(Duration::from_secs(1)).await;
    ///     }
    ///     token = Some(page.last_token);
    /// }
    /// # }
    /// ```
    ///
    /// A poller misses a child that is stored on the other side of its position: one with an earlier value of the order, such
    /// as a time that another program took before it stored the child, or a clock that is late. It sees a child again
    /// whose update moves it past the position, and no deletes. A change stream of the children sees all of it.
    pub last_token: ChildToken,
}

impl<'a, C> Children<'a, C> {
    /// How many children at most; 100 by default.
    pub fn limit(mut self, children: u32) -> Self {
        self.limit = children;
        self
    }

    /// Those after a place. `None` means from the start.
    pub fn after(mut self, token: impl Into<Option<ChildToken>>) -> Self {
        self.from = token.into().map_or(From::Start, From::After);
        self
    }

    /// Those before a place: the nearest ones, in their order. `None` means from the start.
    pub fn before(mut self, token: impl Into<Option<ChildToken>>) -> Self {
        self.from = token.into().map_or(From::Start, From::Before);
        self
    }

    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

/// The command. A place is a bound of the index, which orders values of all types; a comparison in a filter sees those
/// of one type alone.
fn find(settings: &Settings, parent: &Bson, from: &From, limit: u32) -> Result<(Document, FindOptions)> {
    let mut filter = query::children_of(settings, parent);
    let mut sort = settings.sort();
    let (mut min, mut max) = (None, None);
    match from {
        From::Start => {}
        From::After(token) => {
            let mut values = token.values(settings)?.to_vec();
            // The lower bound is among what is read, so it is the first place after the token's, where that is known.
            if let (Some(id), Some((_, direction))) = (values.last_mut(), settings.order.last()) {
                match neighbour(id, *direction == Direction::Ascending) {
                    Some(next) => *id = next,
                    None => drop(filter.insert(settings.child_id.as_str(), doc! { "$ne": id.clone() })),
                }
            }
            min = Some(query::place(settings, parent, &values));
            max = Some(query::edge(settings, parent, true));
        }
        From::Before(token) => {
            min = Some(query::edge(settings, parent, false));
            max = Some(query::place(settings, parent, token.values(settings)?));
            sort = query::reversed(&sort);
        }
    }
    let options = FindOptions::builder()
        .sort(sort)
        .limit(i64::from(limit))
        .batch_size(batch_size(limit))
        .hint(Hint::Name(settings.order_index.clone()))
        .min(min)
        .max(max);
    Ok((filter, options.build()))
}

/// Whether it is after all children, or before them: from a page of none, once more the same way.
fn is_nowhere(settings: &Settings, from: &From) -> bool {
    match from {
        From::Start => false,
        From::After(token) => *token == ChildToken::edge(settings, true),
        From::Before(token) => *token == ChildToken::edge(settings, false),
    }
}

impl<'a, C: DeserializeOwned + 'a> IntoFuture for Children<'a, C> {
    type Output = Result<ChildrenPage<C>>;
    type IntoFuture = ActionFuture<'a, ChildrenPage<C>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            parent,
            limit,
            from,
            session,
            ..
        } = self;
        run(shared.operation("children"), move |_| async move {
            if limit == 0 {
                return Err(refused(
                    "a page of no children cannot be read: use a limit of at least 1",
                ));
            }
            let settings = &shared.settings;
            let (filter, options) = find(settings, &parent?.into_bson(), &from, limit)?;
            let mut session = Session::of_caller(session).await?;
            // The server refuses bounds with nothing in between.
            let found = match is_nowhere(settings, &from) {
                true => Ok(Vec::new()),
                false => find_all(session.as_mut(), &shared.children, filter, options).await,
            };
            let mut found = found.map_err(|error| match is_bad_hint(&error) {
                true => index_missing(&settings.order_index).caused_by(error),
                false => Error::from(error),
            })?;
            let is_full = found.len() == limit as usize;
            if matches!(from, From::Before(_)) {
                found.reverse();
            }
            let token = |child: Option<&RawDocumentBuf>| child.map(|child| ChildToken::of(settings, child));
            let (first, last) = (token(found.first()), token(found.last()));
            let (first_token, last_token) = match (&first, &last, &from) {
                (Some(first), Some(last), _) => (first.clone(), last.clone()),
                (.., From::After(token)) => (ChildToken::edge(settings, true), token.clone()),
                (.., From::Before(token)) => (token.clone(), ChildToken::edge(settings, false)),
                // What is stored later is before the end, and after the start.
                (.., From::Start) => (ChildToken::edge(settings, true), ChildToken::edge(settings, false)),
            };
            let (previous, next) = match from {
                From::Start => (None, last.filter(|_| is_full)),
                // A page of none lies behind the child that its place was taken from.
                From::After(_) => (
                    first.or_else(|| Some(ChildToken::edge(settings, true))),
                    last.filter(|_| is_full),
                ),
                From::Before(_) => (
                    first.filter(|_| is_full),
                    last.or_else(|| Some(ChildToken::edge(settings, false))),
                ),
            };
            let children = found.iter().map(|child| decode(child)).collect::<Result<_>>()?;
            Ok(ChildrenPage {
                children,
                next,
                previous,
                first_token,
                last_token,
            })
        })
    }
}
