//! The protocols of mongo-patterns, as models that are checked over every interleaving of three clients.
//!
//! A protocol is what a call does in several commands: opening a bucket, going on in extras, removing with pages that
//! move up, writing a child and its parent, moving over while others write. Each has a model here: the documents, small
//! (pages of two, a threshold of two), and what each client sends next. [stateright](https://www.stateright.rs) goes
//! through every order in which the commands of three clients can run, with a fault at any of them: a client dies, or does
//! not learn whether its command ran, and the command may still run at any later moment, or never. In every state that can
//! be reached it must hold what the documentation promises.
//!
//! Each model has the naive form, too, of the manual's text. In that the checker finds what goes wrong, and prints a way
//! to it.
//!
//! | model | mirrors |
//! |---|---|
//! | [`bucket`] | `append`, `append_many`, `remove_item`, `delete_key` |
//! | [`outlier`] | `push`, `push_many`, `push_unique`, `remove`, `rebalance` |
//! | [`subset`] | `insert`, `update`, `delete`, `rebuild`, `delete_parent` |
//! | [`in_process`] | the locks of the outlier pattern within one process, and calls whose future is dropped |
//! | [`moving`] | `migrate_from_embedded`, with the writes of [`subset`] |
//!
//! A model is worth as much as it is like the code. Each says which files it mirrors: who changes the order of commands, a
//! filter or an index there changes the model.
//!
//! `cargo test -p mongo-patterns-protocols` checks all with one fault a run. `cargo xtask long protocols` has more starts,
//! or two faults: either takes minutes, and gigabytes of memory. `-- --nocapture` prints the numbers of states, and the
//! ways to what is wrong in the naive forms.
//!
//! What it does not say: that a call ends. A client may lose to others again and again; how often it tries is bounded in
//! the code, and not here.

pub mod bucket;
pub mod check;
pub mod in_process;
pub mod moving;
pub mod outlier;
pub mod subset;
pub mod transactions;
pub mod world;
