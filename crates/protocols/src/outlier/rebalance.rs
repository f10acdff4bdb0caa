//! `rebalance`, and `repair`, which does the same.
//!
//! Mirrors `rewrite.rs` and `fix.rs` of `crates/outlier/src/repair`, and `form/layout.rs`: what it reads from the
//! snapshot, and the order of its writes. It also claims the position after the newest overflow document. After it clears
//! the flag, it reads whether overflow documents exist.

use std::collections::BTreeSet;

use super::{CAP, Documents, Extra, MAIN, THRESHOLD, entries, position_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rebalance {
    at: At,
    /// Whether its transaction is retried after a conflict.
    is_retry: bool,
}

/// The next command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    /// Begins a transaction, and reads. A retried one locks the newest overflow document.
    #[default]
    Begin,
    /// Locks the main document.
    Lock(Option<Plan>),
    /// Writes the main document.
    Main(Plan),
    /// Claims the position after the newest overflow document, and releases it.
    Claim(Plan),
    /// Deletes overflow documents that are removed or rewritten.
    Delete(Plan),
    Insert(Plan),
    Commit(Plan),
    /// After the flag is cleared: reads whether overflow documents exist.
    FlagIfExtras,
    SetFlag,
    Ended,
}

/// The planned writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Plan {
    inline: Vec<u8>,
    flag: bool,
    clears_flag: bool,
    claim: Option<u8>,
    removed: Vec<u8>,
    written: Vec<Extra>,
}

impl Rebalance {
    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn has_cleared(&self) -> bool {
        self.at == At::FlagIfExtras
    }

    pub(super) fn is_retried(&self) -> bool {
        self.is_retry
    }

    pub(super) fn writes(&self) -> bool {
        self.at == At::SetFlag
    }

    pub(super) fn run(&mut self, unique: bool, documents: &mut Documents, me: usize) -> Ran {
        match std::mem::take(&mut self.at) {
            At::Begin => {
                documents.transactions.begin(me);
                let plan = plan(unique, documents);
                let newest = documents
                    .extras
                    .last()
                    .filter(|_| self.is_retry)
                    .map(|extra| position_bit(extra.seq));
                self.at = match newest {
                    Some(newest) => self.wrote(documents, me, newest, At::Lock(plan)),
                    None if self.is_retry => At::Lock(plan),
                    None => Self::planned(documents, me, plan),
                };
            }
            At::Lock(plan) => {
                self.at = match documents.transactions.write(me, MAIN) {
                    true => Self::planned(documents, me, plan),
                    false => At::Begin,
                };
            }
            At::Main(plan) => self.at = self.wrote(documents, me, MAIN, At::Claim(plan)),
            At::Claim(plan) => {
                let claim = plan.claim.map_or(0, position_bit);
                self.at = self.wrote(documents, me, claim, At::Delete(plan));
            }
            At::Delete(plan) => {
                let of_removed = documents
                    .extras
                    .iter()
                    .filter(|extra| plan.removed.contains(&extra.seq));
                let names = of_removed.fold(0, |names, extra| {
                    names | position_bit(extra.seq) | entries(unique, &extra.elements)
                });
                let names = plan.removed.iter().fold(names, |names, seq| names | position_bit(*seq));
                self.at = self.wrote(documents, me, names, At::Insert(plan));
            }
            At::Insert(plan) => {
                let names = plan.written.iter().fold(0, |names, extra| {
                    names | position_bit(extra.seq) | entries(unique, &extra.elements)
                });
                self.at = self.wrote(documents, me, names, At::Commit(plan));
            }
            At::Commit(plan) => {
                apply(documents, &plan);
                documents.transactions.commit(me);
                self.at = match plan.clears_flag {
                    true => At::FlagIfExtras,
                    false => At::Ended,
                };
            }
            At::FlagIfExtras => {
                self.at = match documents.extras.is_empty() {
                    true => At::Ended,
                    false => At::SetFlag,
                };
            }
            At::SetFlag => {
                if !documents.flag {
                    if documents.transactions.is_locked(MAIN) {
                        self.at = At::SetFlag;
                        return Ran::Waits;
                    }
                    documents.flag = true;
                    documents.transactions.wrote(MAIN);
                }
                self.at = At::Ended;
            }
            At::Ended => self.at = At::Ended,
        }
        Ran::Done
    }

    /// Writes in the transaction: returns the next command, or the begin of a retry after a conflict.
    fn wrote(&mut self, documents: &mut Documents, me: usize, names: u64, next: At) -> At {
        match documents.transactions.write(me, names) {
            true => next,
            false => {
                self.is_retry = true;
                At::Begin
            }
        }
    }

    fn planned(documents: &mut Documents, me: usize, plan: Option<Plan>) -> At {
        match plan {
            Some(plan) => At::Main(plan),
            None => {
                documents.transactions.abort(me);
                At::Ended
            }
        }
    }
}

/// Returns the planned writes, or `None` if the documents are correct.
fn plan(unique: bool, documents: &Documents) -> Option<Plan> {
    let mut seen = BTreeSet::new();
    let items: Vec<u8> = documents
        .elements()
        .filter(|element| !unique || seen.insert(*element))
        .collect();
    let (inline, overflow) = items.split_at(items.len().min(THRESHOLD));
    let flag = !overflow.is_empty();
    let mut plan = Plan {
        inline: inline.to_vec(),
        flag,
        clears_flag: documents.flag && !flag,
        claim: None,
        removed: Vec::new(),
        written: Vec::new(),
    };
    let mut positions = 0;
    for elements in overflow.chunks(CAP) {
        let old = documents.extras.get(usize::from(positions));
        let new = Extra {
            seq: positions,
            elements: elements.to_vec(),
        };
        positions += 1;
        if old != Some(&new) {
            plan.removed.extend(old.map(|old| old.seq));
            plan.written.push(new);
        }
    }
    let surplus = documents.extras.iter().skip(usize::from(positions));
    plan.removed.extend(surplus.map(|extra| extra.seq));
    if plan.inline == documents.inline && flag == documents.flag && plan.removed.is_empty() && plan.written.is_empty() {
        return None;
    }
    let next = documents.extras.last().map_or(0, |newest| newest.seq + 1);
    if plan.clears_flag || documents.extras.len() > usize::from(positions) || positions < next {
        plan.claim = Some(next);
    }
    Some(plan)
}

fn apply(documents: &mut Documents, plan: &Plan) {
    documents.inline.clone_from(&plan.inline);
    documents.flag = plan.flag;
    documents.extras.retain(|extra| !plan.removed.contains(&extra.seq));
    documents.extras.extend(plan.written.iter().cloned());
    documents.extras.sort_by_key(|extra| extra.seq);
}

/// Applies a rebalance that has no concurrent clients.
pub(super) fn apply_now(unique: bool, documents: &mut Documents) {
    if let Some(plan) = plan(unique, documents) {
        apply(documents, &plan);
    }
}

/// Returns whether the documents are balanced: the array is full if overflow documents exist, all of these are full
/// except the last, and the flag is set only if they exist.
pub(super) fn is_correct(documents: &Documents) -> bool {
    let Documents {
        inline, flag, extras, ..
    } = documents;
    let last = extras.len().saturating_sub(1);
    *flag != extras.is_empty()
        && (extras.is_empty() || inline.len() == THRESHOLD)
        && extras.iter().zip(0..).all(|(extra, position)| {
            let is_full = extra.elements.len() == CAP;
            usize::from(extra.seq) == position && (is_full || position == last && !extra.elements.is_empty())
        })
}

#[cfg(test)]
mod tests {
    use super::super::push::Push;
    use super::super::remove::Remove;
    use super::super::{Client, Form, Outlier};
    use super::*;
    use crate::check::explore;

    fn push(form: Form, elements: &[u8]) -> Client {
        Client::Push(Push::new(form, elements))
    }

    fn remove(element: u8) -> Client {
        Client::Remove(Remove::new(element))
    }

    fn rebalance() -> Client {
        Client::Rebalance(Rebalance::default())
    }

    /// Elements from 8 on are those that clients push.
    fn outlier(form: Form) -> Outlier {
        let push = |elements: &[u8]| push(form, elements);
        let (short, full) = (Documents::of(&[0], &[]), Documents::of(&[0, 1], &[]));
        let flagged = Documents {
            flag: true,
            ..full.clone()
        };
        let after_removals = Documents::of(&[0], &[&[1, 2], &[]]);
        let one_extra = Documents::of(&[0, 1], &[&[2]]);
        let emptied = Documents::of(&[0], &[&[]]);
        Outlier {
            form,
            unique: false,
            starts: vec![
                (short.clone(), vec![push(&[8]), push(&[9]), push(&[10])]),
                (full.clone(), vec![push(&[8]), push(&[9, 10]), push(&[11])]),
                (short, vec![push(&[8, 9, 10]), push(&[11]), rebalance()]),
                (full, vec![push(&[8]), remove(0), rebalance()]),
                (flagged.clone(), vec![push(&[8]), rebalance(), rebalance()]),
                (flagged, vec![push(&[8, 9]), push(&[10]), rebalance()]),
                (after_removals.clone(), vec![push(&[8]), push(&[9]), rebalance()]),
                (after_removals, vec![push(&[8]), remove(1), rebalance()]),
                (one_extra.clone(), vec![remove(0), remove(2), rebalance()]),
                (one_extra, vec![push(&[8, 9, 10]), remove(2), rebalance()]),
                (emptied, vec![push(&[8]), push(&[9]), rebalance()]),
            ],
        }
    }

    #[test]
    fn elements_are_stored_once_and_found_by_following_the_flag() {
        explore(outlier(Form::Ours)).assert_holds(1000);
    }

    #[test]
    fn unique_elements_are_stored_once_by_any_number_of_clients() {
        let form = Form::Ours;
        let (full, one_extra) = (Documents::of(&[0, 1], &[]), Documents::of(&[0, 1], &[&[2]]));
        let after_removals = Documents::of(&[0], &[&[1, 2], &[3]]);
        let starts = vec![
            (full.clone(), vec![push(form, &[8]), push(form, &[8]), push(form, &[8])]),
            (full, vec![push(form, &[8]), push(form, &[9]), rebalance()]),
            (one_extra.clone(), vec![push(form, &[8]), push(form, &[8]), rebalance()]),
            (one_extra, vec![push(form, &[2]), remove(0), rebalance()]),
            (
                after_removals.clone(),
                vec![push(form, &[8]), push(form, &[8]), rebalance()],
            ),
            (after_removals, vec![push(form, &[1]), push(form, &[3]), rebalance()]),
        ];
        let unique = Outlier {
            unique: true,
            starts,
            ..outlier(form)
        };
        explore(unique).assert_holds(1000);
    }

    #[test]
    fn the_manuals_logic_exceeds_the_threshold_and_opens_overflow_documents_twice() {
        let mut manual = outlier(Form::Manual);
        for (_, clients) in &mut manual.starts {
            clients.retain(|client| matches!(client, Client::Push(_)));
        }
        explore(manual).assert_refuted(&[
            "the array does not exceed the threshold",
            "overflow documents do not exceed their cap, and have distinct positions",
        ]);
    }

    #[test]
    fn setting_the_flag_after_the_overflow_documents_hides_an_acknowledged_element() {
        explore(outlier(Form::FlagLast))
            .assert_refuted(&["a reader who follows the flag finds each acknowledged element"]);
    }
}
