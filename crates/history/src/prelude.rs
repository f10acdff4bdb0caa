//! The names that most modules use.

pub(crate) use std::marker::PhantomData;

pub(crate) use futures::TryStreamExt;
pub(crate) use mongo_patterns_core::conn::Conn;
pub(crate) use mongo_patterns_core::error::{CommandError, duplicate_key, lost_race};
pub(crate) use mongo_patterns_core::index::hinted;
pub(crate) use mongo_patterns_core::key::stored_integer;
pub(crate) use mongo_patterns_core::progress::Reporter;
pub(crate) use mongo_patterns_core::{
    DocumentId, Error, ErrorKind, FieldName, IntoId, Result, action, document_id, send, transaction,
};
pub(crate) use mongodb::Collection;
pub(crate) use mongodb::bson::{self, Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
pub(crate) use serde::Serialize;
pub(crate) use serde::de::DeserializeOwned;

pub(crate) use crate::settings::Settings;
