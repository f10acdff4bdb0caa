//! The names that most modules use.

pub(crate) use futures::TryStreamExt;
pub(crate) use mongo_patterns_core::conn::Conn;
pub(crate) use mongo_patterns_core::error::CommandError;
pub(crate) use mongo_patterns_core::error::duplicate_key;
pub(crate) use mongo_patterns_core::migration::{Step, Walk, count_if, number, refuse};
pub(crate) use mongo_patterns_core::progress::Reporter;
pub(crate) use mongo_patterns_core::stored::id_of;
pub(crate) use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, IntoId, Result, Updated, send};
pub(crate) use mongodb::Collection;
pub(crate) use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
pub(crate) use mongodb::options::{AggregateOptions, Collation, FindOneOptions};
pub(crate) use serde::Serialize;
pub(crate) use serde::de::DeserializeOwned;
pub(crate) use tracing::Span;

pub(crate) use crate::settings::Settings;
