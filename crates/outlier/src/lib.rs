//! TODO
pub mod action;
mod analysis;
mod builder;
mod id;
mod query;
mod read;
mod repository;
mod settings;
mod store;
mod validator;

pub use action::{Counts, Deleted, Inserted, Pushed, PushedMany};
pub use analysis::{Analysis, LengthRange, ListLength, Longest, OutliersAt, PERCENTILES};
pub use builder::OutlierRepositoryBuilder;
pub use read::Found;
pub use repository::OutlierRepository;
