//! What most modules use of other crates.

pub(crate) use mongo_patterns_core::conn::Conn;
pub(crate) use mongo_patterns_core::error::CommandError;
pub(crate) use mongo_patterns_core::key::stored_integer;
pub(crate) use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, FieldName, Key, Result, measure, send};
pub(crate) use mongodb::Collection;
pub(crate) use mongodb::bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
pub(crate) use mongodb::options::{AggregateOptions, FindOneOptions, FindOptions, Hint, UpdateOptions};
pub(crate) use serde::Serialize;
pub(crate) use serde::de::DeserializeOwned;
pub(crate) use tracing::Span;
