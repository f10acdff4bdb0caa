//! Records the commands that a client sends.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mongodb::bson::Document;
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::ClientOptions;
use tokio::sync::Notify;

/// Records the commands of the clients that it is attached to. A clone shares the list.
///
/// One command is one round trip. Handshakes and the monitoring of connections are not recorded.
///
/// ```no_run
/// # use mongo_patterns_testkit::CommandRecorder;
/// # use mongodb::{Client, options::ClientOptions};
/// # async fn f(mut options: ClientOptions) -> mongodb::error::Result<()> {
/// let recorder = CommandRecorder::new();
/// recorder.attach(&mut options);
/// let client = Client::with_options(options)?;
/// client.list_database_names().await?;
/// assert_eq!(recorder.names(), ["listDatabases"]);
/// recorder.clear();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CommandRecorder {
    commands: Arc<Mutex<Vec<RecordedCommand>>>,
    started: Arc<Notify>,
    finished: Arc<Notify>,
    watch: Watching,
}

/// An observer of each command, before the driver sends it and when it has its reply. Commands are counted from the
/// last [`clear`](CommandRecorder::clear).
pub(crate) trait Watch: Send + Sync {
    fn started(&self, number: usize, name: &str);
    fn finished(&self, number: usize);
}

#[derive(Clone, Default)]
struct Watching(Arc<Mutex<Option<Arc<dyn Watch>>>>);

impl Watching {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<dyn Watch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<Arc<dyn Watch>> {
        self.lock().clone()
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watching").field(&self.lock().is_some()).finish()
    }
}

/// A command that was sent, with its reply.
///
/// ```no_run
/// # use mongo_patterns_testkit::CommandRecorder;
/// # fn f(recorder: &CommandRecorder) {
/// for command in recorder.commands() {
///     println!("{}: {}", command.name, command.essence());
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedCommand {
    /// Its name, such as `update`.
    pub name: String,
    /// The full command, as sent.
    pub command: Document,
    /// The server's reply. `None` while the command is in flight, or when it failed. A reply can contain `writeErrors`.
    pub reply: Option<Document>,
    /// Whether the command as a whole failed.
    pub failed: bool,
    /// The server's number of the connection, if known.
    pub connection_id: Option<i64>,
    request_id: i32,
}

impl RecordedCommand {
    /// Returns the command without the fields that the driver adds to every command: database, session, cluster time,
    /// transaction number.
    pub fn essence(&self) -> Document {
        const ADDED: [&str; 7] = [
            "$db",
            "lsid",
            "$clusterTime",
            "txnNumber",
            "autocommit",
            "startTransaction",
            "$readPreference",
        ];
        let kept = self.command.iter().filter(|(name, _)| !ADDED.contains(&name.as_str()));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl CommandRecorder {
    /// Creates a recorder that is attached to no client.
    pub fn new() -> Self {
        Self::default()
    }

    /// Attaches the recorder to the clients that are built from these options.
    pub fn attach(&self, options: &mut ClientOptions) {
        let recorder = self.clone();
        options.command_event_handler = Some(EventHandler::callback(move |event| recorder.record(event)));
    }

    /// Returns the number of commands since the last [`clear`](Self::clear).
    pub fn round_trips(&self) -> usize {
        self.lock().len()
    }

    /// Returns the commands since the last [`clear`](Self::clear), in order.
    pub fn commands(&self) -> Vec<RecordedCommand> {
        self.lock().clone()
    }

    /// Returns the last command.
    pub fn last(&self) -> Option<RecordedCommand> {
        self.lock().last().cloned()
    }

    /// Returns the names of the commands.
    pub fn names(&self) -> Vec<String> {
        self.lock().iter().map(|command| command.name.clone()).collect()
    }

    /// Waits until this number of commands was sent since the last [`clear`](Self::clear), to act while one is in
    /// flight.
    pub async fn sent(&self, commands: usize) {
        until(&self.started, || self.round_trips() >= commands).await;
    }

    /// Waits until no command is in flight.
    pub async fn settled(&self) {
        let is_in_flight = |command: &RecordedCommand| command.reply.is_none() && !command.failed;
        until(&self.finished, || !self.lock().iter().any(is_in_flight)).await;
    }

    /// Removes all recorded commands.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Replaces the observer of the commands.
    pub(crate) fn watch(&self, watch: Option<Arc<dyn Watch>>) {
        *self.watch.lock() = watch;
    }

    fn record(&self, event: CommandEvent) {
        match event {
            CommandEvent::Started(started) => {
                let name = started.command_name.clone();
                let number = {
                    let mut commands = self.lock();
                    commands.push(RecordedCommand {
                        name: started.command_name,
                        command: started.command,
                        reply: None,
                        failed: false,
                        connection_id: started.connection.server_id,
                        request_id: started.request_id,
                    });
                    commands.len() - 1
                };
                if let Some(watch) = self.watch.get() {
                    watch.started(number, &name);
                }
                self.started.notify_waiters();
            }
            CommandEvent::Succeeded(succeeded) => {
                self.finish(succeeded.request_id, |command| command.reply = Some(succeeded.reply));
            }
            CommandEvent::Failed(failed) => self.finish(failed.request_id, |command| command.failed = true),
            _ => {}
        }
    }

    fn finish(&self, request_id: i32, how: impl FnOnce(&mut RecordedCommand)) {
        let number = {
            let mut commands = self.lock();
            let number = commands.iter().rposition(|command| command.request_id == request_id);
            if let Some(number) = number {
                how(&mut commands[number]);
            }
            number
        };
        if let (Some(number), Some(watch)) = (number, self.watch.get()) {
            watch.finished(number);
        }
        self.finished.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RecordedCommand>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a condition is true, which can become so when the commands change.
async fn until(changed: &Notify, is_true: impl Fn() -> bool) {
    loop {
        let mut notified = pin!(changed.notified());
        // Before the condition, so that no change is missed in between.
        notified.as_mut().enable();
        if is_true() {
            return;
        }
        notified.await;
    }
}
