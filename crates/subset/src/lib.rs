//! Stub.
pub mod action;
mod builder;
mod child;
mod finding;
mod id;
mod policy;
mod query;
mod refresh;
mod repository;
mod scan;
mod settings;
mod token;
mod write;

pub use action::{
    ChildrenPage, Deleted, DeletedParent, Inserted, InsertedMany, Left, Rebuilt, RebuiltAll, Repaired, Updated,
};
pub use builder::SubsetRepositoryBuilder;
pub use finding::{Finding, Problem};
pub use policy::{Consistency, Direction};
pub use repository::SubsetRepository;
pub use token::ChildToken;
