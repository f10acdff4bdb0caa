//! `refresh`, and `repair`, which does the same.
//!
//! Mirrors `rewrite.rs` and `fix.rs` of `crates/outlier/src/repair`, and `form/layout.rs`: what it reads from the
//! snapshot, and the order of its writes. It also claims the position after the newest overflow document. After it clears
//! the flag, it reads whether overflow documents exist.

use std::collections::BTreeSet;

use super::documents::{CAP, Documents, Extra, Form, MAIN, Rules, THRESHOLD, entries, position_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Refresh {
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

impl Refresh {
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

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match &self.at {
            At::Begin if self.is_retry => vec!["begin: update extra_sales", "then: update extra_sales"],
            At::Begin => vec!["begin: read sales", "then: read extra_sales"],
            At::Lock(_) => vec![
                "then: updateMany sales",
                "then: updateMany sales",
                "then: read sales",
                "then: read extra_sales",
            ],
            At::Main(_) => vec!["then: update sales"],
            At::Claim(plan) if plan.claim.is_some() => vec!["then: insert extra_sales", "then: delete extra_sales"],
            At::Delete(plan) if !plan.removed.is_empty() => vec!["then: deleteMany extra_sales"],
            At::Insert(plan) if !plan.written.is_empty() => vec!["then: insert extra_sales"],
            // It reads what it has written.
            At::Commit(_) => vec!["then: read sales", "then: read extra_sales", "then: commitTransaction"],
            At::FlagIfExtras => vec!["read extra_sales"],
            At::SetFlag => vec!["update sales"],
            At::Claim(_) | At::Delete(_) | At::Insert(_) | At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, rules: &Rules, documents: &mut Documents, me: usize) -> Ran {
        let unique = rules.unique;
        match std::mem::take(&mut self.at) {
            At::Begin => {
                documents.transactions.begin(me);
                let plan = plan(rules, documents);
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
                if documents.exists && !documents.flag {
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
fn plan(rules: &Rules, documents: &Documents) -> Option<Plan> {
    if !documents.exists {
        return None;
    }
    let unique = rules.unique;
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
    // Where elements are unique, a push must see that elements have joined the array.
    let joins = inline.iter().any(|element| !documents.inline.contains(element));
    let renews = unique && joins && rules.form != Form::SameIds;
    let (mut positions, mut next_id) = (0, documents.next_id);
    for elements in overflow.chunks(CAP) {
        let old = documents.extras.get(usize::from(positions));
        let mut new = Extra {
            id: old.map_or(next_id, |old| old.id),
            seq: positions,
            elements: elements.to_vec(),
        };
        positions += 1;
        if renews {
            new.id = next_id;
        }
        if new.id == next_id {
            next_id += 1;
        }
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
    let newest = documents.extras.iter().map(|extra| extra.id + 1).max();
    documents.next_id = documents.next_id.max(newest.unwrap_or(0));
}

/// Applies a refresh that has no concurrent clients.
pub(super) fn apply_now(rules: &Rules, documents: &mut Documents) {
    if let Some(plan) = plan(rules, documents) {
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
