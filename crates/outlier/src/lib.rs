//! TODO
pub mod action;
mod builder;
mod check;
mod finding;
mod id;
mod layout;
mod mend;
mod mend_query;
mod open;
mod query;
mod read;
mod repository;
mod rewrite;
mod same;
mod scan;
mod settings;
mod steps;
mod store;
mod validator;

pub use action::{Adopted, Left, Rebalanced, Repaired};
pub use action::{Counts, Deleted, Inserted, Pushed, PushedMany};
pub use builder::OutlierRepositoryBuilder;
pub use finding::{Finding, FoundIn, Problem};
pub use read::Found;
pub use repository::OutlierRepository;
