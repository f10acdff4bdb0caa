//! A fault at one command of an operation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::bson::{Document, doc};

use crate::fail_point::{FailPoint, InUse, met};
use crate::recorder::{CommandRecorder, Watch};
use crate::{TestDatabase, switch};

/// A fault planned for one command; returned by [`FailPoint::plan`]. It is disabled when the command has its reply, and
/// when this value is dropped.
#[derive(Debug)]
pub struct PlannedFault {
    recorder: CommandRecorder,
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    at: usize,
    mode: mongodb::bson::Bson,
    data: Document,
    /// Whether the fault stays enabled after its command.
    stays: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_made: bool,
    entered: i64,
    on: Option<InUse>,
}

impl FailPoint {
    /// Enables this fault when the client of this database sends the command with this number. The numbers count from 0
    /// since the last [`clear`](CommandRecorder::clear) of its recorder. A retry by the driver is another command with
    /// its own number.
    ///
    /// Without [`times`](Self::times) the fault stays enabled from there. With an empty list of commands, it affects
    /// the command that it is planned for.
    ///
    /// The fail point is enabled after the driver decides to send the command and before it sends it. That briefly
    /// blocks the thread, so nothing else that the test needs may run on it.
    ///
    /// ```
    /// use mongo_patterns_testkit as testkit;
    /// use mongodb::bson::{Document, doc};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// testkit::run(async |db| {
    ///     let numbers = db.collection::<Document>("numbers");
    ///     db.recorder().clear();
    ///     let fault = testkit::FailPoint::on(&[]).times(1).error_code(96).plan(db, 1);
    ///     assert!(numbers.insert_one(doc! {}).await.is_ok());
    ///     assert!(numbers.insert_one(doc! {}).await.is_err());
    ///     assert!(numbers.insert_one(doc! {}).await.is_ok());
    ///     assert!(fault.is_made());
    /// })
    /// .await;
    /// # });
    /// ```
    pub fn plan(self, db: &TestDatabase, command: usize) -> PlannedFault {
        let stays = self.mode.as_document().is_none_or(|mode| !mode.contains_key("times"));
        let (mode, mut data) = (self.mode, self.data);
        data.insert("appName", db.app_name());
        let plan = Arc::new(Plan {
            at: command,
            mode,
            data,
            stays,
            state: Mutex::default(),
        });
        let recorder = db.recorder().clone();
        recorder.watch(Some(Arc::clone(&plan) as Arc<dyn Watch>));
        PlannedFault { recorder, plan }
    }
}

impl PlannedFault {
    /// Returns whether the command was sent, so that the fault was enabled.
    pub fn is_made(&self) -> bool {
        self.plan.state().is_made
    }

    /// Waits until the server has hit the fault, for example to know that the command arrived after its caller was
    /// dropped. Returns `false` if it did not arrive in this time.
    pub async fn met(&self, db: &TestDatabase, within: Duration) -> bool {
        let entered = self.plan.state().entered;
        met(db, entered, within).await
    }

    /// Disables the fault.
    ///
    /// # Panics
    /// If the server cannot be reached, because the fault would stay enabled.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for PlannedFault {
    fn drop(&mut self) {
        self.recorder.watch(None);
        self.plan.disable();
    }
}

impl Plan {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disable(&self) {
        let Some(in_use) = self.state().on.take() else { return };
        if let Err(error) = switch::off() {
            eprintln!("the fail point could not be disabled: {error}");
        }
        drop(in_use);
    }
}

impl Watch for Plan {
    fn started(&self, number: usize, name: &str) {
        if number != self.at || self.state().is_made {
            return;
        }
        let mut data = self.data.clone();
        if data.get_array("failCommands").is_ok_and(Vec::is_empty) {
            data.insert("failCommands", vec![name]);
        }
        let command = doc! { "configureFailPoint": "failCommand", "mode": self.mode.clone(), "data": data };
        match switch::take(command) {
            Ok((in_use, entered)) => {
                let mut state = self.state();
                state.is_made = true;
                state.entered = entered;
                state.on = in_use;
            }
            Err(error) => eprintln!("the fault could not be enabled: {error}"),
        }
    }

    fn finished(&self, number: usize) {
        if number == self.at && !self.stays {
            self.disable();
        }
    }
}
