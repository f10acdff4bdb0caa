//! Models of the protocols of mongo-patterns, checked over every interleaving of three clients.
//!
//! A protocol is a call of several commands: opening a bucket, overflowing to new documents, removing an item from a
//! full page, writing a child and its parent, migrating while other clients write. Each protocol has a model here. A
//! model has the documents, small ones (pages of two, a threshold of two), and the next command of each client.
//! [stateright](https://www.stateright.rs) explores every order in which the commands of three clients can run. At any
//! command it injects a fault: the client dies, or does not learn whether the command ran. Such a command can still run
//! at any later moment, or never. The guarantees of the documentation are invariants, which must hold in every
//! reachable state.
//!
//! Each model also has a naive form, that of the manual's text. The checker refutes it, and prints a counterexample.
//!
//! | model | mirrors |
//! |---|---|
//! | [`bucket`] | `append`, `append_many`, `remove_item`, `delete_key` |
//! | [`outlier`] | `push`, `push_many`, `push_unique`, `remove`, `update_element`, `refresh`, `delete` |
//! | [`subset`] | `insert`, `update`, `delete`, `refresh`, `delete_parent`, `refresh_all` of the subset pattern |
//! | [`history`] | `insert`, `update`, `delete`, `replace`, `upsert`, `restore`, `delete_before`, `keep_last` of the history pattern |
//! | [`intervals`] | `insert`, `update`, `replace`, `end` of the intervals pattern, with clocks that differ |
//! | [`mod@reference`] | `insert`, `set_reference`, `update_source`, `delete_source` of the reference pattern, and the sweep of a repair |
//! | [`reference_follow`] | `follow` of the reference pattern, beside programs that write without a repository |
//! | [`steps`] | `run` of migrations that run once, with its lease |
//! | [`versions`] | `update` and `migrate` of documents of several versions, beside an older release |
//! | [`archive`] | `run`, `restore` and `get` of the archive, beside a writer |
//! | [`archive::files`] | `run` and `restore_file` with files, beside paused processes |
//! | [`archive::wholes`] | the same of an outlier with its overflow documents, beside pushes |
//! | [`migration`] | `migrate_from_embedded`, with the writes of [`subset`] |
//!
//! The fault table of the integration tests records the commands that each of these calls sends when no other client does.
//! [`traces`] compares them with those of the model: a test fails if the code sends another command than the model, sends it
//! in or out of a transaction, or in another order. A call that is added to [`traces::CALLS`] needs an operation in the
//! table. What a command matches and writes is not compared, and neither is what a call does after a conflict: a change of
//! that in the modules that a model names requires the same change in the model.
//!
//! `cargo test -p mongo-patterns-protocols` checks all models with one fault in each run. `cargo xtask long protocols` adds
//! initial states, or allows two faults; either takes minutes, and gigabytes of memory. `-- --nocapture` prints the numbers
//! of states, and the counterexamples of the naive forms.
//!
//! The models do not prove that a call ends. A client can lose against others any number of times; the code bounds the
//! number of its attempts, the models do not.

pub mod archive;
pub mod bucket;
pub mod check;
pub mod history;
pub mod intervals;
pub mod migration;
pub mod outlier;
pub mod reference;
pub mod reference_follow;
pub mod steps;
pub mod subset;
pub mod traces;
pub mod transactions;
pub mod versions;
pub mod world;
