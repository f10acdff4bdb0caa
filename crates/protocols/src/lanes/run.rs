//! The steps of calls, tasks and the server.

use super::{At, Call, Command, CommandAt, Ended, Form, Moment, Orphan, Owner, Place, Process, Work, Writer, WriterAt};

impl Moment {
    /// Takes a lane, or waits for it. Returns whether it was free.
    fn enter(&mut self, document: usize, owner: Owner) -> bool {
        let lane = &mut self.lanes[document];
        match lane.owner {
            None => lane.owner = Some(owner),
            Some(_) => lane.waiting.push(owner),
        }
        lane.owner == Some(owner)
    }

    /// Frees the lanes that an owner has or waits for. The first that waits has such a lane next.
    pub(super) fn leave(&mut self, owner: Owner) {
        for lane in &mut self.lanes {
            lane.waiting.retain(|waiting| *waiting != owner);
            if lane.owner == Some(owner) {
                lane.owner = (!lane.waiting.is_empty()).then(|| lane.waiting.remove(0));
            }
        }
    }

    fn work_of(&self, owner: Owner) -> Option<usize> {
        self.works.iter().position(|work| work.owner == owner)
    }

    /// Ends all commands of an owner.
    fn finish(&mut self, at: usize) -> Work {
        let work = self.works.remove(at);
        self.pool.extend(work.session);
        work
    }
}

impl Process {
    /// Returns whether two items can wait for one document.
    pub(super) fn can_join(&self) -> bool {
        let joining = self.calls.iter().filter(|call| call.joins);
        joining.filter(|call| call.documents == [0]).count() > 2
    }

    /// Returns whether the future of a call is polled. A stream polls none while its reader awaits something else.
    pub(super) fn is_polled(&self, now: &Moment, owner: Owner) -> bool {
        let Owner::Call(call) = owner else { return true };
        let at = |place| (0..now.calls.len()).filter(move |call| self.calls[*call].place == place);
        let Some(reader) = at(Place::Reader).next() else {
            return true;
        };
        let has_result = match self.form {
            Form::BufferedStream => at(Place::Stream).any(|call| !now.is_live(call)),
            _ => at(Place::Stream).all(|call| !now.is_live(call)),
        };
        match self.calls[call].place {
            Place::Task => true,
            Place::Reader => has_result,
            Place::Stream => !has_result || !now.is_live(reader),
        }
    }

    pub(super) fn can_run(&self, now: &Moment, call: usize) -> bool {
        let owner = Owner::Call(call);
        let is_ready = match now.calls[call] {
            At::Start | At::Joins => true,
            At::Enters(next) => now.lanes[self.order(call)[next]].owner == Some(owner),
            At::Queued | At::Alone | At::Ended(_) => false,
        };
        is_ready && self.is_polled(now, owner)
    }

    /// Returns the documents of a call, in the order in which it waits for them.
    fn order(&self, call: usize) -> Vec<usize> {
        let mut documents = self.calls[call].documents.clone();
        if self.form != Form::InAnyOrder {
            documents.sort_unstable();
        }
        documents
    }

    pub(super) fn run(&self, now: &mut Moment, call: usize) {
        let documents = self.order(call);
        let Call { joins, runtime, .. } = self.calls[call];
        let document = documents[0];
        let owner = Owner::Call(call);
        now.calls[call] = match now.calls[call] {
            At::Start if !joins => {
                now.enter(document, owner);
                At::Enters(0)
            }
            At::Start if now.lanes[document].owner.is_some() => At::Joins,
            At::Start => {
                now.enter(document, owner);
                self.begin(now, owner, documents, vec![call], runtime);
                At::Alone
            }
            At::Enters(last) => match documents.get(last + 1) {
                Some(next) => {
                    now.enter(*next, owner);
                    At::Enters(last + 1)
                }
                None => {
                    self.begin(now, owner, documents, vec![call], runtime);
                    At::Alone
                }
            },
            At::Joins => {
                match &mut now.queues[document] {
                    Some(queue) => queue.push(call),
                    queue => {
                        *queue = Some(vec![call]);
                        now.writers[document] = Some(Writer {
                            at: WriterAt::Starts,
                            batch: Vec::new(),
                            next: 0,
                            runtime,
                            caller: (self.form == Form::ByCaller).then_some(call),
                        });
                    }
                }
                At::Queued
            }
            at => at,
        };
    }

    /// Begins to store items, in lanes that the owner has.
    fn begin(&self, now: &mut Moment, owner: Owner, documents: Vec<usize>, items: Vec<usize>, runtime: usize) {
        now.works.push(Work {
            owner,
            runtime,
            documents,
            items,
            session: None,
            command: match self.in_transaction {
                true => Command::Write,
                false => Command::Single,
            },
            at: CommandAt::Unsent,
        });
    }

    pub(super) fn writer_can_run(&self, now: &Moment, document: usize) -> bool {
        let owner = Some(Owner::Writer(document));
        now.writers[document].as_ref().is_some_and(|writer| match writer.at {
            WriterAt::Starts | WriterAt::Ends => true,
            WriterAt::Enters => now.lanes[document].owner == owner,
            WriterAt::Writes => false,
        })
    }

    pub(super) fn run_writer(&self, now: &mut Moment, document: usize) {
        let owner = Owner::Writer(document);
        let Some(mut writer) = now.writers[document].take() else {
            return;
        };
        match writer.at {
            WriterAt::Starts => {
                now.enter(document, owner);
                writer.at = WriterAt::Enters;
            }
            WriterAt::Ends => {
                now.queues[document] = None;
                return;
            }
            WriterAt::Writes => {}
            WriterAt::Enters => {
                let waiting = now.queues[document].as_mut().map(std::mem::take).unwrap_or_default();
                if waiting.is_empty() {
                    now.leave(owner);
                    if self.form != Form::EndsInTwoSteps {
                        now.queues[document] = None;
                        return;
                    }
                    writer.at = WriterAt::Ends;
                } else {
                    now.has_joined |= waiting.len() > 1;
                    writer.at = WriterAt::Writes;
                    writer.next = waiting.len();
                    self.begin(now, owner, vec![document], waiting.clone(), writer.runtime);
                    writer.batch = waiting;
                }
            }
        }
        now.writers[document] = Some(writer);
    }

    /// Takes the result of a command of a batch, and begins the next one, in the same lane.
    fn continue_batch(&self, now: &mut Moment, document: usize, sent: usize, ended: Ended) {
        let Some(mut writer) = now.writers[document].take() else {
            return;
        };
        if ended == Ended::Refused && sent > 1 && self.form != Form::Undivided {
            now.has_divided = true;
            writer.next = sent / 2;
        } else {
            for call in writer.batch.drain(..sent) {
                now.end(call, ended);
            }
            writer.next = sent * 2;
        }
        let owner = Owner::Writer(document);
        if writer.batch.is_empty() {
            now.leave(owner);
            writer.at = WriterAt::Starts;
        } else {
            let next = writer.next.min(writer.batch.len());
            self.begin(
                now,
                owner,
                vec![document],
                writer.batch[..next].to_vec(),
                writer.runtime,
            );
        }
        now.writers[document] = Some(writer);
    }

    /// Returns whether all calls of a batch were dropped.
    pub(super) fn is_abandoned(now: &Moment, document: usize) -> bool {
        let writer = now.writers[document].as_ref();
        writer
            .is_some_and(|writer| writer.at == WriterAt::Writes && writer.batch.iter().all(|call| !now.is_live(*call)))
    }

    pub(super) fn abandon(&self, now: &mut Moment, document: usize) {
        let owner = Owner::Writer(document);
        let Some(at) = now.work_of(owner) else { return };
        now.has_abandoned = true;
        let may_be_stored = match Self::may_have_effect(&now.works[at]) {
            true => now.works[at].items.clone(),
            false => Vec::new(),
        };
        self.drop_work(now, at);
        if let Some(writer) = &mut now.writers[document] {
            writer.at = WriterAt::Starts;
            for call in writer.batch.drain(..) {
                if !may_be_stored.contains(&call) {
                    now.calls[call] = At::Ended(Ended::WithoutEffect);
                }
            }
        }
    }

    /// Returns whether a command that stores the items has been sent.
    fn may_have_effect(work: &Work) -> bool {
        matches!(work.command, Command::Single | Command::Commit) && work.at != CommandAt::Unsent
    }

    pub(super) fn can_execute(now: &Moment, work: &Work) -> bool {
        let mut orphans = now.orphans.iter();
        !orphans.any(|orphan| orphan.session.is_some() && orphan.session == work.session)
    }

    /// Sends a command, or takes its reply.
    pub(super) fn work(&self, now: &mut Moment, at: usize) {
        let work = &mut now.works[at];
        let owner = work.owner;
        let reply = match work.at {
            CommandAt::Replied(is_executed) => is_executed,
            CommandAt::OnServer => return,
            CommandAt::Unsent => {
                work.at = CommandAt::OnServer;
                if work.session.is_none() {
                    let new = now.sessions;
                    work.session = Some(now.pool.pop().unwrap_or(new));
                    now.sessions += usize::from(work.session == Some(new));
                }
                return;
            }
        };
        if work.command == Command::Write && reply {
            let is_taken_over = matches!(owner, Owner::Task(_));
            work.at = CommandAt::Unsent;
            work.command = match is_taken_over {
                true => Command::Abort,
                false => Command::Commit,
            };
            if !is_taken_over || self.form != Form::LeavesTransactionOpen {
                return;
            }
        }
        let work = now.finish(at);
        let ended = match reply {
            true => Ended::Stored,
            false => Ended::Refused,
        };
        self.end_work(now, &work, ended);
    }

    /// Passes the result of a work on to its owner.
    fn end_work(&self, now: &mut Moment, work: &Work, ended: Ended) {
        match work.owner {
            Owner::Writer(document) => self.continue_batch(now, document, work.items.len(), ended),
            Owner::Call(call) => {
                now.leave(work.owner);
                now.end(call, ended);
            }
            Owner::Task(_) => now.leave(work.owner),
        }
    }

    pub(super) fn execute(&self, now: &mut Moment, at: usize) {
        let Work {
            command,
            documents,
            items,
            ..
        } = now.works[at].clone();
        let is_refused = items.iter().any(|call| self.calls[*call].is_refused);
        let is_write = matches!(command, Command::Single | Command::Write);
        for document in documents {
            now.has_collided |= is_write && now.is_open[document];
            now.is_open[document] = command == Command::Write && !is_refused;
        }
        if matches!(command, Command::Single | Command::Commit) {
            self.store(now, &items);
        }
        now.works[at].at = CommandAt::Replied(!is_write || !is_refused);
    }

    /// Stores all items, or none if one is refused.
    pub(super) fn store(&self, now: &mut Moment, items: &[usize]) {
        if items.iter().all(|call| !self.calls[*call].is_refused) {
            for call in items {
                now.stored[*call] += 1;
            }
        }
    }

    pub(super) fn lose_reply(&self, now: &mut Moment, at: usize) {
        let work = now.works.remove(at);
        Self::orphan(now, &work, None);
        self.end_work(now, &work, Ended::Unknown);
    }

    /// Leaves a command on the server without a client. A transaction is aborted or committed by the server.
    pub(super) fn orphan(now: &mut Moment, work: &Work, session: Option<usize>) {
        for document in &work.documents {
            now.is_open[*document] = false;
        }
        if work.at == CommandAt::OnServer && matches!(work.command, Command::Single | Command::Commit) {
            let items = work.items.clone();
            now.orphans.push(Orphan { items, session });
        }
    }

    pub(super) fn drop_call(&self, now: &mut Moment, call: usize) {
        let document = self.calls[call].documents[0];
        let owner = Owner::Call(call);
        let ended = match now.calls[call] {
            At::Queued => {
                let queue = now.queues[document].as_mut();
                let place = queue.and_then(|queue| Some((queue.iter().position(|waiting| *waiting == call)?, queue)));
                match place {
                    None => Ended::Dropped,
                    Some((place, queue)) => {
                        if self.form != Form::KeepsDroppedItems {
                            queue.remove(place);
                        }
                        Ended::WithoutEffect
                    }
                }
            }
            At::Alone => now.work_of(owner).map_or(Ended::Dropped, |at| {
                let may_be_stored = Self::may_have_effect(&now.works[at]);
                self.drop_work(now, at);
                match may_be_stored {
                    true => Ended::Dropped,
                    false => Ended::WithoutEffect,
                }
            }),
            _ => {
                now.leave(owner);
                Ended::WithoutEffect
            }
        };
        now.end(call, ended);
        if now.writers[document]
            .as_ref()
            .is_some_and(|writer| writer.caller == Some(call))
        {
            now.writers[document] = None;
            match now.work_of(Owner::Writer(document)) {
                Some(at) => self.drop_work(now, at),
                None => now.leave(Owner::Writer(document)),
            }
        }
    }

    /// Drops the future that sends commands. A task takes over what it has sent.
    fn drop_work(&self, now: &mut Moment, at: usize) {
        let owner = now.works[at].owner;
        let is_begun = now.works[at].command == Command::Commit;
        if now.works[at].at == CommandAt::Unsent && !is_begun {
            now.finish(at);
            now.leave(owner);
            return;
        }
        if self.form == Form::DropsCommand {
            let work = now.finish(at);
            Self::orphan(now, &work, work.session);
            now.leave(owner);
            return;
        }
        let task = Owner::Task(now.taken_over);
        now.taken_over += 1;
        let work = &mut now.works[at];
        work.owner = task;
        if work.at == CommandAt::Unsent {
            work.command = Command::Abort;
        }
        if self.form == Form::FreesLane {
            now.leave(owner);
            return;
        }
        for lane in &mut now.lanes {
            if lane.owner == Some(owner) {
                lane.owner = Some(task);
            }
        }
    }
}
