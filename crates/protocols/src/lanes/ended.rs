//! The end of a runtime.

use super::{Ended, Form, Moment, Owner, Process, Work};

impl Process {
    /// Drops the calls and the tasks of the first runtime.
    pub(super) fn end_runtime(&self, now: &mut Moment) {
        now.has_ended = true;
        let (ended, left) = std::mem::take(&mut now.works)
            .into_iter()
            .partition(|work| work.runtime == 0);
        now.works = left;
        let ended: Vec<Work> = ended;
        for work in ended {
            Self::orphan(now, &work, None);
            now.leave(work.owner);
        }
        for call in 0..now.calls.len() {
            if now.is_live(call) && self.calls[call].runtime == 0 {
                self.drop_call(now, call);
            }
        }
        for document in 0..2 {
            let Some(writer) = now.writers[document].take_if(|writer| writer.runtime == 0) else {
                continue;
            };
            now.leave(Owner::Writer(document));
            let mut waiting = writer.batch;
            if self.form != Form::LeavesQueue {
                waiting.extend(now.queues[document].take().into_iter().flatten());
            }
            for call in waiting {
                now.end(call, Ended::Unknown);
            }
        }
    }
}
