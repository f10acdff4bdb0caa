//! The one way to send a command: with or without a session, and polled to its reply.
//!
//! # Design
//!
//! ## Why is a command that was sent never dropped?
//!
//! The driver asks to poll every future to its end. A dropped one gives its session back while its command still runs on the
//! server, so the next command of that session waits. And it closes its connection, so nothing bounds the commands that wait
//! on the server. So each command owns its session and all its input. If the caller drops the future, a task polls it to its
//! reply.
//!
//! ## What happens to a transaction when a future is dropped?
//!
//! The driver aborts the transaction of a dropped session only if the server has answered one of its commands. So the task
//! aborts its transaction after the reply, and only then frees the [lanes](crate::lanes) of the call. A call that is dropped
//! between two commands of its own transaction aborts it in a task, too.
//!
//! [`action`](crate::action#cancel-safety) documents what a caller can rely on.
//!
//! A call in a transaction of the caller must not wait for anything else between two of its commands: dropped there, it
//! would leave a part of itself in a transaction that the caller may commit. Checks of indexes come first.
//!
//! ## What does the caller of a dropped call keep as its session?
//!
//! The command on its way needs the caller's session, which the future only borrows. So a spare session replaces it until
//! the reply, and for good if the future is dropped. An ordinary session would have no transaction, so the caller's further
//! writes would take effect one by one. The spare is a snapshot session of a client that has no server: the driver refuses
//! to begin a transaction in it, and every command of any other client. A snapshot session of the caller's own client would
//! not do: a router accepts a write in it.

mod flight;
mod spare;
mod usage;

use std::time::Duration;

use futures::future::BoxFuture;
pub use mongodb::ClientSession;
use mongodb::error::Result as DriverResult;
use mongodb::options::TransactionOptions;
use tokio::runtime::Handle;

pub(crate) use self::flight::in_flight;
use self::flight::{InFlight, abort};
use crate::error::{Error, ErrorKind, Result};
use crate::lanes::{Lane, Lanes};
use crate::plan::{PlanWarning, PlannedCommand};
use crate::tasks::take_over;
use usage::Use;

/// The server takes 0 for no limit, and refuses more than `i32::MAX`.
const MIN_TIME: Duration = Duration::from_millis(1);
const MAX_TIME: Duration = Duration::from_millis(i32::MAX as u64);

/// What a caller does in a session.
pub type Callback = Box<dyn for<'s> FnOnce(&'s mut ClientSession) -> BoxFuture<'s, Result<()>> + Send>;

/// How a call sends its commands: the session, if it has one, and the lanes that it keeps until their replies.
#[derive(Debug)]
pub struct Conn<'a> {
    kind: Kind<'a>,
    used_for: Use,
    lane: Lane,
    max_time: Option<Duration>,
    /// Whether it serves a read of the caller, which sees what the collection is configured for.
    is_read: bool,
}

#[derive(Debug)]
enum Kind<'a> {
    /// Each command has a session of its own, by the driver.
    Single,
    /// A plan: reads are sent as in [`Single`](Self::Single), and the steps of a migration are listed.
    Plan(Vec<PlannedCommand>, Vec<PlanWarning>),
    Callers {
        session: &'a mut ClientSession,
        spare: Option<ClientSession>,
    },
    /// The session of a transaction that the call runs itself. `None` while a command is in flight.
    Own {
        session: Option<ClientSession>,
        runtime: Handle,
    },
}

impl Default for Conn<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Conn<'a> {
    /// Sends commands without a session.
    pub fn new() -> Self {
        Self::of(Kind::Single, Use::Commands, Lane::default())
    }

    /// Plans the steps of a migration, and writes nothing.
    pub fn plan() -> Self {
        Self::of(Kind::Plan(Vec::new(), Vec::new()), Use::Commands, Lane::default())
    }

    /// Returns whether nothing is written.
    pub fn is_plan(&self) -> bool {
        matches!(self.kind, Kind::Plan(..))
    }

    /// Lists commands in a plan. A run sends them in another way.
    pub fn list(&mut self, listed: impl IntoIterator<Item = PlannedCommand>) {
        if let Kind::Plan(commands, _) = &mut self.kind {
            commands.extend(listed);
        }
    }

    /// Returns the commands that a plan listed.
    pub fn into_commands(mut self) -> Vec<PlannedCommand> {
        match &mut self.kind {
            Kind::Plan(commands, _) => std::mem::take(commands),
            _ => Vec::new(),
        }
    }

    /// Warns in a plan.
    pub fn warn(&mut self, warned: impl IntoIterator<Item = PlanWarning>) {
        if let Kind::Plan(_, warnings) = &mut self.kind {
            warnings.extend(warned);
        }
    }

    /// Takes the warnings of a plan.
    pub fn take_warnings(&mut self) -> Vec<PlanWarning> {
        match &mut self.kind {
            Kind::Plan(_, warnings) => std::mem::take(warnings),
            _ => Vec::new(),
        }
    }

    fn of(kind: Kind<'a>, used_for: Use, lane: Lane) -> Self {
        Self {
            kind,
            used_for,
            lane,
            max_time: None,
            is_read: false,
        }
    }

    /// Sends commands in the session of a caller, if there is one. This itself sends nothing.
    pub async fn of_caller(session: Option<&'a mut ClientSession>) -> Result<Self> {
        match session {
            None => Ok(Self::new()),
            Some(session) => Self::in_session(session).await,
        }
    }

    fn in_session(session: &'a mut ClientSession) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async {
            let used_for = usage::use_of(session).await?;
            let kind = Kind::Callers { session, spare: None };
            Ok(Self::of(kind, used_for, Lane::default()))
        })
    }

    /// Sends commands in a transaction that the call runs itself.
    pub(crate) fn own(session: ClientSession, lane: Lane) -> Conn<'static> {
        let kind = Kind::Own {
            session: Some(session),
            runtime: Handle::current(),
        };
        Conn::of(kind, Use::Commands, lane)
    }

    /// Sends commands without a session, in a lane that the call has.
    #[must_use]
    pub fn in_lane(lane: Lane) -> Self {
        Self::of(Kind::Single, Use::Commands, lane)
    }

    /// Sends commands in the lane of a document, and in the session of a caller if there is one. Waits for the lane, and
    /// keeps it as long as this value, or a command in flight. In a transaction of the caller it takes none: another task
    /// could have the lane while it waits for documents that the transaction has locked.
    pub async fn enter(session: Option<&'a mut ClientSession>, lanes: &Lanes, key: &str) -> Result<Self> {
        let mut conn = Self::of_caller(session).await?;
        if !conn.is_in_transaction() {
            conn.lane = match lanes.try_enter(key) {
                Some(lane) => lane,
                None => lanes.enter(key).await,
            };
        }
        Ok(conn)
    }

    /// Does what [`enter`](Self::enter) does, for several documents.
    pub async fn enter_all(
        session: Option<&'a mut ClientSession>,
        lanes: &Lanes,
        keys: impl IntoIterator<Item = String>,
    ) -> Result<Self> {
        let mut conn = Self::of_caller(session).await?;
        if !conn.is_in_transaction() {
            conn.lane = lanes.enter_all(keys.into_iter().collect()).await;
        }
        Ok(conn)
    }

    /// Sends the commands of a read of the caller, whose time on the server is bounded.
    pub async fn to_read(session: Option<&'a mut ClientSession>, max_time: Option<Duration>) -> Result<Self> {
        let mut conn = Self::of_caller(session).await?;
        conn.max_time = max_time.map(bounded);
        conn.is_read = true;
        Ok(conn)
    }

    pub(crate) fn max_time(&self) -> Option<Duration> {
        self.max_time
    }

    /// Returns whether its reads decide about a write or check stored data. Such a read sees the latest data of the primary,
    /// whatever the collection is configured for.
    pub(crate) fn sees_latest(&self) -> bool {
        !self.is_read
    }

    /// Lets the further reads of a caller's read see the latest data of the primary.
    pub fn see_latest(&mut self) {
        self.is_read = false;
    }

    /// Returns the lanes.
    pub fn lane(&self) -> Lane {
        self.lane.clone()
    }

    /// Returns whether it has a session.
    pub fn has_session(&self) -> bool {
        !matches!(self.kind, Kind::Single | Kind::Plan(..))
    }

    /// Returns whether its session is the caller's, who can commit a transaction after an error of the call.
    pub fn is_of_caller(&self) -> bool {
        matches!(self.kind, Kind::Callers { .. })
    }

    /// Returns whether it has a started transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.used_for == Use::Transaction
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.used_for == Use::Snapshot
    }

    /// Returns the driver's session, unless a command is in flight.
    pub(crate) fn driver(&mut self) -> Option<&mut ClientSession> {
        match &mut self.kind {
            Kind::Single | Kind::Plan(..) => None,
            Kind::Callers { session, .. } => Some(session),
            Kind::Own { session, .. } => session.as_mut(),
        }
    }

    /// Starts a transaction that the call runs itself.
    pub(crate) async fn begin(&mut self, options: TransactionOptions) -> DriverResult<()> {
        if let Some(session) = self.driver() {
            session.start_transaction().with_options(options).await?;
            self.used_for = Use::Transaction;
        }
        Ok(())
    }

    /// Polls other work than a command to its end, such as the write of a file.
    ///
    /// # Cancel safety
    /// A task polls it to its end, in the lanes of the call.
    pub async fn finish<T: Send + 'static>(&self, work: BoxFuture<'static, T>) -> T {
        InFlight::single(work, self.lane()).await.1
    }

    /// Ends the transaction that the call runs itself, by a commit or an abort.
    pub(crate) async fn end<T, F>(&mut self, work: F) -> DriverResult<T>
    where
        F: for<'s> FnOnce(&'s mut ClientSession) -> BoxFuture<'s, DriverResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        let ended = self
            .send(move |session| match session {
                Some(session) => work(session),
                None => Box::pin(async { Err(has_none()) }),
            })
            .await;
        self.used_for = Use::Commands;
        ended
    }

    /// Runs what the caller does in the transaction of the call, to its end as a command.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when the session has no transaction afterwards.
    pub fn callback(&mut self, callback: Callback) -> BoxFuture<'_, Result<()>> {
        let done = self.send(move |session| match session {
            None => Box::pin(async { Err(has_none()) }),
            Some(session) => Box::pin(async move {
                let done = callback(session).await;
                Ok(match (done, usage::use_of(session).await) {
                    (Ok(()), Ok(Use::Commands | Use::Snapshot)) => Err(ended()),
                    (Ok(()), Err(error)) => Err(error),
                    (done, _) => done,
                })
            }),
        });
        Box::pin(async move { done.await? })
    }

    /// Runs commands of the driver to their end.
    ///
    /// # Cancel safety
    /// A task runs them to their end, and aborts the transaction if there is one.
    pub(crate) async fn send<T, F>(&mut self, commands: F) -> DriverResult<T>
    where
        F: for<'s> FnOnce(Option<&'s mut ClientSession>) -> BoxFuture<'s, DriverResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        let mut session = match &mut self.kind {
            Kind::Single | Kind::Plan(..) => return InFlight::single(commands(None), self.lane.clone()).await.1,
            Kind::Callers { session, spare } => {
                let spare = match spare.take() {
                    Some(spare) => spare,
                    None => spare::session().await?,
                };
                std::mem::replace(*session, spare)
            }
            Kind::Own { session, .. } => session.take().ok_or_else(has_none)?,
        };
        let work = async move {
            let done = commands(Some(&mut session)).await;
            (session, done)
        };
        let (returned, done) = InFlight::in_session(Box::pin(work), self.lane.clone()).await;
        if let Some(returned) = returned {
            match &mut self.kind {
                Kind::Single | Kind::Plan(..) => {}
                Kind::Callers { session, spare } => *spare = Some(std::mem::replace(*session, returned)),
                Kind::Own { session, .. } => *session = Some(returned),
            }
        }
        done
    }
}

/// Returns a limit that the server accepts.
#[must_use]
pub fn bounded(time: Duration) -> Duration {
    time.clamp(MIN_TIME, MAX_TIME)
}

fn ended() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "the transaction of the session was ended, or a call in it was dropped before its reply: use the session for commands only, and drop none of them",
    )
}

fn has_none() -> mongodb::error::Error {
    mongodb::error::Error::custom("a dropped command has the session")
}

impl Drop for Conn<'_> {
    /// A call that is dropped between two commands of its own transaction.
    fn drop(&mut self) {
        if let Kind::Own { session, runtime } = &mut self.kind
            && self.used_for == Use::Transaction
            && let Some(session) = session.take()
        {
            take_over(runtime, abort(session, std::mem::take(&mut self.lane)));
        }
    }
}
