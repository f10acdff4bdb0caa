//! Lists: page by page with tokens, or as a stream.
//!
//! A method of a repository that reads a list returns a [`List`]. [`page`](List::page) reads a page with the tokens of the
//! adjacent pages, and [`stream`](List::stream) reads all. The options are the same for all lists:
//!
//! ```no_run
//! use futures::TryStreamExt;
//! use mongo_patterns::list::{List, Page};
//! # use mongo_patterns::history::{Revision, RevisionToken};
//! # use mongo_patterns::mongodb::bson::Document;
//!
//! # async fn f(revisions: impl Fn() -> List<'static, Revision<Document>, RevisionToken>, after: Option<RevisionToken>, before: Option<RevisionToken>)
//! # -> mongo_patterns::Result<()> {
//! // A handler of `GET /revisions?after=..` or `?before=..`
//! let page: Page<_, _> = revisions().newest_first().limit(20).after(after).before(before).page().await?;
//! let link_to_older = page.next.map(|token| format!("/revisions?after={token}"));
//! let link_to_newer = page.previous.map(|token| format!("/revisions?before={token}"));
//!
//! let mut all = revisions().stream();
//! while let Some(revision) = all.try_next().await? {
//!     println!("{}", revision.revision);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Polling
//!
//! A program polls for items that come later by passing the [`last_token`](Page::last_token) of each page to
//! [`after`](List::after). Where the newest items are first, it passes the [`first_token`](Page::first_token) to
//! [`before`](List::before), and reads back until [`previous`](Page::previous) is `None`. An empty page has the position
//! that it was read from.
//!
//! # Tokens
//!
//! The text of a token is safe in a URL. It stays valid when its item is deleted. A token is a position: in the other order,
//! or in the list of another id, it selects the items after the same time or number. It never selects items that the call
//! does not read. [Pages](crate::pages) refuse a token of another filter or sort.

mod by_number;
mod page;
mod start;

use std::time::Duration;

use futures::TryStreamExt;
use futures::future::BoxFuture;
use futures::stream::{iter, try_unfold};
use mongodb::ClientSession;

#[doc(hidden)]
pub use self::by_number::ByNumber;
pub use self::page::Page;
#[doc(hidden)]
pub use self::start::{Asked, PageStart, Tokens};
use crate::action::{ActionFuture, ActionStream, Call, of_call, run};
use crate::conn::Conn;
#[allow(unused_imports)] // the links of the documentation use it
use crate::error::ErrorKind::InvalidArgument;
use crate::error::{Error, ErrorKind, Result};

const DEFAULT_LIMIT: u32 = 100;

/// What reads the pages of a list.
#[doc(hidden)]
pub trait PageSource<I, T>: Send + Sync {
    /// Reads a page. Its limit is at least 1.
    fn read<'c>(&'c self, page: Asked<T>, conn: &'c mut Conn<'_>) -> BoxFuture<'c, Result<Page<I, T>>>;
}

/// The token of a list in the order of a time or a number.
#[doc(hidden)]
pub trait OfOrdered {}

crate::action! {
    /// Reads a list of items `I` with positions `T`; returned by the methods of a repository that read lists.
    pub struct List<'a, I, T> {
        call: Call<'a>,
        source: Result<Box<dyn PageSource<I, T> + 'a>>,
        tokens: Tokens<T>,
        newest_first: bool,
        limit: u32,
    }
    with session, max_time;

    /// Sets the most items of a page, at least 1; 100 by default. A stream reads pages of this size.
    limit(items: u32) => limit = items;
}

impl<I, T> List<'_, I, T> {
    /// Reads the items after a position, in the order of the list. `None` changes nothing. A page with both positions is
    /// [`InvalidArgument`].
    pub fn after(mut self, token: impl Into<Option<T>>) -> Self {
        self.tokens.after(token.into());
        self
    }

    /// Reads the last items before a position, in the order of the list. `None` changes nothing. Only a [`page`](Self::page)
    /// has it.
    pub fn before(mut self, token: impl Into<Option<T>>) -> Self {
        self.tokens.before(token.into());
        self
    }
}

impl<I, T: OfOrdered> List<'_, I, T> {
    /// Reads from the newest item to the oldest.
    pub fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }
}

impl<'a, I, T> List<'a, I, T> {
    /// Creates the action of a call. An error of the arguments is the error of the page.
    #[doc(hidden)]
    pub fn new<S: PageSource<I, T> + 'a>(call: Call<'a>, source: Result<S>) -> Self {
        let source = source.map(|source| Box::new(source) as Box<dyn PageSource<I, T> + 'a>);
        Self::create(call, source, Tokens::default(), false, DEFAULT_LIMIT)
    }
}

impl<'a, I: Send + 'a, T: Clone + Send + Sync + 'a> List<'a, I, T> {
    /// Reads a page.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a limit of 0, or two tokens.
    pub fn page(self) -> ActionFuture<'a, Page<I, T>> {
        let max_time = self.max_time.or(self.call.max_time);
        run(self.call, async move {
            let asked = Asked::new(self.tokens.start(), self.newest_first, self.limit)?;
            let source = self.source?;
            let mut conn = Conn::to_read(self.session, max_time).await?;
            source.read(asked, &mut conn).await
        })
    }

    /// Returns a stream of the items, which sends nothing before it is polled. It reads one page after another, and holds no
    /// cursor on the server between them.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: there is a position to read [before](Self::before).
    pub fn stream(self) -> ActionStream<'a, I> {
        let (call, max_time) = (self.call, self.max_time.or(self.call.max_time));
        let asked = Asked::new(forward(self.tokens), self.newest_first, self.limit);
        let first = asked.and_then(|asked| Ok((self.source?, asked)));
        let pages = try_unfold((Some(first), self.session), move |(next, session)| {
            run(call, read_next(next, session, max_time))
        });
        of_call(call, pages.try_flatten())
    }
}

type Sought<'a, I, T> = Option<Result<(Box<dyn PageSource<I, T> + 'a>, Asked<T>)>>;
type Read<'a, I, T> = (Items<I>, (Sought<'a, I, T>, Option<&'a mut ClientSession>));
type Items<I> = futures::stream::Iter<std::iter::Map<std::vec::IntoIter<I>, fn(I) -> Result<I>>>;

async fn read_next<'a, I, T: Clone>(
    next: Sought<'a, I, T>,
    mut session: Option<&'a mut ClientSession>,
    max_time: Option<Duration>,
) -> Result<Option<Read<'a, I, T>>> {
    let Some(sought) = next else { return Ok(None) };
    let (source, asked) = sought?;
    let mut conn = Conn::to_read(session.as_deref_mut(), max_time).await?;
    let page = source.read(asked.clone(), &mut conn).await?;
    drop(conn);
    let following = page.next.map(|token| {
        let start = PageStart::After(token);
        Ok((source, Asked { start, ..asked }))
    });
    let items = iter(page.items.into_iter().map(Ok as fn(I) -> Result<I>));
    Ok(Some((items, (following, session))))
}

/// Returns the start of a stream.
///
/// # Errors
/// - [`InvalidArgument`]: both tokens, or one to read before.
#[doc(hidden)]
pub fn forward<T>(tokens: Tokens<T>) -> Result<PageStart<T>> {
    match tokens.start()? {
        PageStart::Before(_) => Err(Error::new(
            ErrorKind::InvalidArgument,
            "a stream has no end, nothing was read: read a page for `before(..)`, or the other order from `after(..)`",
        )),
        start => Ok(start),
    }
}
