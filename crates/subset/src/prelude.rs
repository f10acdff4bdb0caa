//! The names that the migrations use.

pub(crate) use mongo_patterns_core::conn::Conn;
pub(crate) use mongo_patterns_core::error::CommandError;
pub(crate) use mongo_patterns_core::migration::{Step, Walk};
pub(crate) use mongo_patterns_core::progress::Reporter;
pub(crate) use mongo_patterns_core::{Error, ErrorKind, FieldName, Result, RetryPolicy, error};
pub(crate) use mongodb::Collection;
pub(crate) use mongodb::bson::{Bson, Document, Timestamp, doc};

pub(crate) use crate::settings::Settings;
