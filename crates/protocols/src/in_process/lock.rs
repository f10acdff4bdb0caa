//! Fair locks like tokio's `RwLock`: tasks get the lock in the order in which they wait, and a waiting writer keeps new
//! readers out.

/// The three kinds of locks. Each stripe has one lock of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `pushes`.
    Pushes,
    /// `locks`.
    Keys,
    /// `openers`.
    Openers,
}

/// A lock: its kind and its stripe.
pub type Lock = (Kind, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Use {
    task: usize,
    is_exclusive: bool,
}

/// Two stripes of the three kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locks([State; 6]);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    holders: Vec<Use>,
    waiting: Vec<Use>,
}

impl State {
    fn is_free_for(&self, is_exclusive: bool) -> bool {
        self.holders.is_empty() || !is_exclusive && self.holders.iter().all(|holder| !holder.is_exclusive)
    }

    /// Grants the lock to the waiting tasks in their order, also to tasks that are not polled.
    fn hand_over(&mut self) {
        while let Some(next) = self.waiting.first().copied()
            && self.is_free_for(next.is_exclusive)
        {
            self.waiting.remove(0);
            self.holders.push(next);
            self.holders.sort_by_key(|holder| holder.task);
        }
    }
}

impl Locks {
    fn state(&mut self, (kind, stripe): Lock) -> &mut State {
        &mut self.0[2 * kind as usize + stripe]
    }

    /// Takes a lock, or waits for it.
    pub fn lock(&mut self, task: usize, lock: Lock, is_exclusive: bool) {
        let state = self.state(lock);
        state.waiting.push(Use { task, is_exclusive });
        state.hand_over();
    }

    /// Takes a lock exclusively, if it is free.
    pub fn try_lock(&mut self, task: usize, lock: Lock) -> bool {
        let state = self.state(lock);
        let is_free = state.holders.is_empty() && state.waiting.is_empty();
        if is_free {
            self.lock(task, lock, true);
        }
        is_free
    }

    /// Releases a lock, or stops waiting for it.
    pub fn unlock(&mut self, task: usize, lock: Lock) {
        let state = self.state(lock);
        state.holders.retain(|holder| holder.task != task);
        state.waiting.retain(|waiting| waiting.task != task);
        state.hand_over();
    }

    /// Releases all locks of a task.
    pub fn unlock_all(&mut self, task: usize) {
        for kind in [Kind::Keys, Kind::Openers, Kind::Pushes] {
            for stripe in 0..2 {
                self.unlock(task, (kind, stripe));
            }
        }
    }

    /// Returns whether a task waits for a lock.
    pub fn is_waiting(&self, task: usize) -> bool {
        let mut waiting = self.0.iter().flat_map(|state| &state.waiting);
        waiting.any(|waiting| waiting.task == task)
    }

    /// Returns whether a task has or waits for a lock.
    pub fn has_any(&self, task: usize) -> bool {
        let mut holders = self.0.iter().flat_map(|state| &state.holders);
        self.is_waiting(task) || holders.any(|holder| holder.task == task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_writer_keeps_new_readers_out() {
        let (mut locks, lock) = (Locks::default(), (Kind::Keys, 1));
        locks.lock(0, lock, false);
        locks.lock(1, lock, true);
        locks.lock(2, lock, false);
        assert!(!locks.is_waiting(0) && locks.is_waiting(1) && locks.is_waiting(2));
        assert!(!locks.try_lock(3, lock) && locks.try_lock(3, (Kind::Openers, 1)));
        locks.unlock(0, lock);
        assert!(!locks.is_waiting(1) && locks.is_waiting(2));
        locks.unlock(1, lock);
        assert!(!locks.is_waiting(2) && !locks.has_any(1));
    }
}
