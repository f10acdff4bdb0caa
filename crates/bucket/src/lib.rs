//! MongoDB's bucket pattern.

pub mod action;
mod builder;
mod document;
mod id;
mod query;
mod repository;
mod settings;
mod suffixes;
mod validator;

pub use action::{Appended, Counts, PageSlice};
pub use builder::BucketRepositoryBuilder;
pub use document::Bucket;
pub use id::{IdPolicy, PageToken};
pub use repository::BucketRepository;
