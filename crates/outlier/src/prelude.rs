//! The names that most modules use.

pub(crate) use std::borrow::Borrow;
pub(crate) use std::marker::PhantomData;
pub(crate) use std::pin::Pin;

pub(crate) use futures::{Stream, StreamExt, TryStreamExt};
pub(crate) use mongo_patterns_core::array::Encoded;
pub(crate) use mongo_patterns_core::conn::Conn;
pub(crate) use mongo_patterns_core::error::CommandError;
pub(crate) use mongo_patterns_core::error::duplicate_key;
pub(crate) use mongo_patterns_core::key::stored_integer;
pub(crate) use mongo_patterns_core::migration::Step;
pub(crate) use mongo_patterns_core::progress::Reporter;
pub(crate) use mongo_patterns_core::settings::configuration;
pub(crate) use mongo_patterns_core::stored::id_of;
pub(crate) use mongo_patterns_core::{
    DocumentId, Error, ErrorKind, FieldName, IntoId, Result, action, document_id, measure, send, transaction,
};
pub(crate) use mongodb::Collection;
pub(crate) use mongodb::bson::raw::CString;
pub(crate) use mongodb::bson::{self, Bson, Document, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc};
pub(crate) use mongodb::options::{AggregateOptions, FindOneAndUpdateOptions, FindOneOptions, FindOptions};
pub(crate) use serde::Serialize;
pub(crate) use serde::de::DeserializeOwned;

pub(crate) use crate::settings::Settings;
