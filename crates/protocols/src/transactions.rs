//! Transactions of the server, as far as they meet: the first to write a document wins.
//!
//! A transaction reads a snapshot of the moment of its first command. It cannot write what another transaction under way
//! has written, nor what was written since its snapshot: that is a write conflict, which ends it. A single command that
//! meets a transaction waits for its end instead. What a transaction has written is seen by others when it commits, all
//! at once, so a model changes its documents at the commit alone.
//!
//! What is written is named by bits: a document, and a key of a unique index that an entry is put under, which is a
//! thing that is written, too.

/// How many clients there may be.
const CLIENTS: usize = 3;

/// The transactions that are under way, by client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transactions([Option<UnderWay>; CLIENTS]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct UnderWay {
    /// What it has written.
    holds: u64,
    /// What others have written since its snapshot.
    changed: u64,
}

impl Transactions {
    /// A client's transaction takes its snapshot.
    pub fn begin(&mut self, me: usize) {
        self.0[me] = Some(UnderWay::default());
    }

    /// A client's transaction writes. `false` for a write conflict, which has ended it.
    #[must_use]
    pub fn write(&mut self, me: usize, names: u64) -> bool {
        let others = self.held_by_others(me);
        let Some(own) = &mut self.0[me] else { return false };
        if names & (others | own.changed) != 0 {
            self.0[me] = None;
            return false;
        }
        own.holds |= names;
        true
    }

    /// Whether a client's transaction does not see some of these as they are now.
    pub fn has_changed(&self, me: usize, names: u64) -> bool {
        self.0[me].is_some_and(|own| own.changed & names != 0)
    }

    /// Whether a client's transaction is under way.
    pub fn is_under_way(&self, me: usize) -> bool {
        self.0[me].is_some()
    }

    /// Whether any is.
    pub fn are_any(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    /// Whether a transaction has written some of these, so that a single command must wait.
    pub fn is_held(&self, names: u64) -> bool {
        self.0.iter().flatten().any(|other| other.holds & names != 0)
    }

    /// A single command has written.
    pub fn wrote(&mut self, names: u64) {
        for other in self.0.iter_mut().flatten() {
            other.changed |= names;
        }
    }

    /// A client's transaction commits.
    pub fn commit(&mut self, me: usize) {
        if let Some(own) = self.0[me].take() {
            self.wrote(own.holds);
        }
    }

    /// Ends a client's transaction without a trace. Says whether there was one.
    pub fn abort(&mut self, me: usize) -> bool {
        self.0.get_mut(me).is_some_and(|own| own.take().is_some())
    }

    fn held_by_others(&self, me: usize) -> u64 {
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != me);
        others
            .filter_map(|(_, other)| *other)
            .fold(0, |held, other| held | other.holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_write_wins() {
        let mut transactions = Transactions::default();
        transactions.begin(0);
        transactions.begin(1);
        assert!(transactions.write(0, 0b01));
        assert!(transactions.is_held(0b01) && !transactions.is_held(0b10));
        assert!(!transactions.write(1, 0b11), "another holds it");
        assert!(!transactions.abort(1), "the conflict has ended it");
        transactions.begin(1);
        transactions.commit(0);
        assert!(!transactions.is_held(0b01));
        assert!(!transactions.write(1, 0b01), "it was written since the snapshot");
    }

    #[test]
    fn a_single_command_makes_a_transaction_conflict() {
        let mut transactions = Transactions::default();
        transactions.begin(2);
        transactions.wrote(0b1);
        assert!(transactions.has_changed(2, 0b1) && !transactions.has_changed(2, 0b10));
        assert!(!transactions.write(2, 0b1));
    }
}
