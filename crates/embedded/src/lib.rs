//! tbd

pub mod action;
mod builder;
mod document;
mod finding;
mod ids;
mod migrate;
mod query;
mod repository;
mod settings;
mod validator;
mod write;

pub use action::{Changed, Inserted, Orphan};
pub use builder::EmbeddedRepositoryBuilder;
pub use finding::{Finding, Problem};
pub use migrate::Moved;
pub use repository::EmbeddedRepository;
