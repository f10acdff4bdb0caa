//! The server's transactions and their write conflicts: the first transaction to write a document wins.
//!
//! A transaction reads a snapshot as of its first command. If it writes what another open transaction has written, or
//! what was written since its snapshot, it gets a write conflict, which aborts it. A single command that meets a
//! transaction waits until it ends. Other clients see the writes of a transaction when it commits, all at once, so a
//! model changes its documents only at the commit.
//!
//! Each thing that is written has a bit: a document, and also the key of an entry in a unique index.

/// The number of clients.
const CLIENTS: usize = 3;

/// The open transactions, by client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transactions([Option<Open>; CLIENTS]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Open {
    /// The bits that it has written.
    written: u64,
    /// The bits that others have written since its snapshot.
    changed: u64,
}

impl Transactions {
    /// Begins the transaction of a client, with its snapshot.
    pub fn begin(&mut self, me: usize) {
        self.0[me] = Some(Open::default());
    }

    /// Writes in the transaction of a client. Returns `false` for a write conflict, which has aborted it.
    #[must_use]
    pub fn write(&mut self, me: usize, names: u64) -> bool {
        let others = self.locked_by_others(me);
        let Some(own) = &mut self.0[me] else { return false };
        if names & (others | own.changed) != 0 {
            self.0[me] = None;
            return false;
        }
        own.written |= names;
        true
    }

    /// Returns whether some of these have changed since the snapshot of a client's transaction.
    pub fn has_changed(&self, me: usize, names: u64) -> bool {
        self.0[me].is_some_and(|own| own.changed & names != 0)
    }

    /// Returns whether a client has an open transaction.
    pub fn is_active(&self, me: usize) -> bool {
        self.0[me].is_some()
    }

    /// Returns whether any client has an open transaction.
    pub fn are_any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    /// Returns whether a transaction has written some of these, so that a single command must wait.
    pub fn is_locked(&self, names: u64) -> bool {
        self.0.iter().flatten().any(|other| other.written & names != 0)
    }

    /// Records the write of a single command.
    pub fn wrote(&mut self, names: u64) {
        for other in self.0.iter_mut().flatten() {
            other.changed |= names;
        }
    }

    /// Commits the transaction of a client.
    pub fn commit(&mut self, me: usize) {
        if let Some(own) = self.0[me].take() {
            self.wrote(own.written);
        }
    }

    /// Aborts the transaction of a client. Returns whether it had one.
    pub fn abort(&mut self, me: usize) -> bool {
        self.0.get_mut(me).is_some_and(|own| own.take().is_some())
    }

    fn locked_by_others(&self, me: usize) -> u64 {
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != me);
        others
            .filter_map(|(_, other)| *other)
            .fold(0, |locked, other| locked | other.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_writer_of_a_document_wins() {
        let mut transactions = Transactions::default();
        transactions.begin(0);
        transactions.begin(1);
        assert!(transactions.write(0, 0b01));
        assert!(transactions.is_locked(0b01) && !transactions.is_locked(0b10));
        assert!(!transactions.write(1, 0b11), "another transaction has written it");
        assert!(!transactions.abort(1), "the conflict has aborted it");
        transactions.begin(1);
        transactions.commit(0);
        assert!(!transactions.is_locked(0b01));
        assert!(!transactions.write(1, 0b01), "it has changed since the snapshot");
    }

    #[test]
    fn a_single_command_causes_a_write_conflict_in_a_transaction() {
        let mut transactions = Transactions::default();
        transactions.begin(2);
        transactions.wrote(0b1);
        assert!(transactions.has_changed(2, 0b1) && !transactions.has_changed(2, 0b10));
        assert!(!transactions.write(2, 0b1));
    }
}
