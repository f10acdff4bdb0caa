//! Sessions, and commands in them that are cancel-safe.
//!
//! # Design
//!
//! ## What happens to a transaction when a future is dropped?
//!
//! The driver aborts the transaction of a dropped session only if the server has answered one of its commands. A
//! transaction whose first command was dropped on its way stays open on the server for a minute, and locks its
//! documents. So in a transaction every command owns its session and all its input. If the caller drops the future, a
//! task takes the command over, waits for its reply, aborts the transaction, and only then unlocks the keys that the
//! call had locked. Without a drop there is no task, and no further command.
//!
//! What a caller can rely on is documented at [`action`](crate::action#cancel-safety).
//!
//! A call in a transaction of the caller must not wait for anything else between two of its commands: dropped there, it
//! would leave a part of itself in a transaction that the caller may commit. Checks of indexes come first.
//!
//! ## What does the caller of a dropped call keep as its session?
//!
//! In a transaction of the caller, the command on its way needs the caller's session, which the future only borrows. So
//! a spare session replaces it until the reply, and for good if the future is dropped. An ordinary session would
//! be a trap: it has no transaction, so the caller's further writes would take effect one by one. The spare is a snapshot
//! session, in which the driver begins and commits no transaction, and the server refuses every write.

mod usage;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use mongodb::ClientSession;
use mongodb::options::TransactionOptions;
use tokio::runtime::Handle;

use crate::error::Result;
use crate::key_locks::LockedKeys;
use usage::Use;

type DriverResult<T> = mongodb::error::Result<T>;

/// The session in which a call sends its commands.
#[derive(Debug)]
pub struct Session<'a> {
    kind: Kind<'a>,
    used_for: Use,
}

#[derive(Debug)]
enum Kind<'a> {
    Callers {
        session: &'a mut ClientSession,
        spare: Option<ClientSession>,
    },
    /// The session of a transaction that the call runs itself. `None` while a command is in flight.
    Own {
        session: Option<ClientSession>,
        locked: LockedKeys,
    },
}

impl<'a> Session<'a> {
    /// Wraps the session of a caller. Sends nothing.
    pub async fn of_caller(session: Option<&'a mut ClientSession>) -> Result<Option<Session<'a>>> {
        let Some(session) = session else { return Ok(None) };
        let used_for = usage::use_of(session).await?;
        let kind = Kind::Callers { session, spare: None };
        Ok(Some(Self { kind, used_for }))
    }

    /// Wraps the session of a transaction that the call runs itself, with the keys that are locked until its end.
    pub(crate) fn own(session: ClientSession, locked: LockedKeys) -> Session<'static> {
        let kind = Kind::Own {
            session: Some(session),
            locked,
        };
        Session {
            kind,
            used_for: Use::Commands,
        }
    }

    /// Returns whether it has a started transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.used_for == Use::Transaction
    }

    /// Returns whether a call in this session locks its keys. In a transaction of the caller it does not: another task could
    /// hold the keys while it waits for documents that the caller's transaction has locked.
    pub fn locks_keys(session: Option<&Self>) -> bool {
        !session.is_some_and(Self::is_in_transaction)
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.used_for == Use::Snapshot
    }

    /// Returns the driver's session, unless a command is in flight.
    pub(crate) fn driver(&mut self) -> Option<&mut ClientSession> {
        match &mut self.kind {
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

    /// Ends the transaction that the call runs itself, by a commit or an abort.
    pub(crate) async fn end<T, F>(&mut self, work: F) -> DriverResult<T>
    where
        F: for<'s> FnOnce(&'s mut ClientSession) -> BoxFuture<'s, T> + Send + 'static,
        T: Send + 'static,
    {
        let ended = self.run(work).await;
        self.used_for = Use::Commands;
        ended
    }

    /// Runs a command of the driver in the session.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Cancel safety
    /// In a transaction the command runs to its reply, and the transaction is aborted afterwards.
    pub async fn send<T, F>(&mut self, command: F) -> DriverResult<T>
    where
        F: for<'s> FnOnce(&'s mut ClientSession) -> BoxFuture<'s, DriverResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        self.run(command).await?
    }

    /// Runs commands in the session to their end.
    async fn run<T, F>(&mut self, work: F) -> DriverResult<T>
    where
        F: for<'s> FnOnce(&'s mut ClientSession) -> BoxFuture<'s, T> + Send + 'static,
        T: Send + 'static,
    {
        let (mut session, locked) = match &mut self.kind {
            Kind::Callers { session, .. } if self.used_for != Use::Transaction => return Ok(work(session).await),
            Kind::Callers { session, spare } => {
                let spare = match spare.take() {
                    Some(spare) => spare,
                    None => session.client().start_session().snapshot(true).await?,
                };
                (std::mem::replace(*session, spare), LockedKeys::default())
            }
            Kind::Own { session, locked } => {
                let session = session.take();
                let session =
                    session.ok_or_else(|| mongodb::error::Error::custom("a dropped command has the session"))?;
                (session, locked.clone())
            }
        };
        let work = async move {
            let done = work(&mut session).await;
            (session, done)
        };
        let in_flight = InFlight {
            work: Some(work.boxed()),
            locked,
            runtime: Handle::current(),
        };
        let (returned, done) = in_flight.await;
        match &mut self.kind {
            Kind::Callers { session, spare } => *spare = Some(std::mem::replace(*session, returned)),
            Kind::Own { session, .. } => *session = Some(returned),
        }
        Ok(done)
    }
}

impl Drop for Session<'_> {
    /// A call that is dropped between two commands of its own transaction.
    fn drop(&mut self) {
        if let Kind::Own { session, locked } = &mut self.kind
            && self.used_for == Use::Transaction
            && let Some(session) = session.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(abort(session, std::mem::take(locked)));
        }
    }
}

/// Ends the transaction of a session, and then unlocks its keys.
async fn abort(mut session: ClientSession, locked: LockedKeys) {
    // The driver ignores an error of the abort. Without a started transaction it sends nothing.
    let _ = session.abort_transaction().await;
    drop(session);
    drop(locked);
}

/// A future that runs to its end even if it is dropped.
struct InFlight<T: Send + 'static> {
    work: Option<BoxFuture<'static, (ClientSession, T)>>,
    locked: LockedKeys,
    runtime: Handle,
}

impl<T: Send + 'static> Future for InFlight<T> {
    type Output = (ClientSession, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = self.work.as_mut() else {
            return Poll::Pending;
        };
        let done = work.poll_unpin(context);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for InFlight<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let locked = std::mem::take(&mut self.locked);
            self.runtime.spawn(async move {
                let (session, _) = work.await;
                abort(session, locked).await;
            });
        }
    }
}
