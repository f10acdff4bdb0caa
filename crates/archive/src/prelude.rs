//! The names that most modules use.

pub(crate) use std::marker::PhantomData;

pub(crate) use mongo_patterns_core::action::{Read, Write};
pub(crate) use mongo_patterns_core::conn::Conn;
pub(crate) use mongo_patterns_core::document_id::{by_id, by_ids, bytes};
pub(crate) use mongo_patterns_core::progress::Reporter;
pub(crate) use mongo_patterns_core::stored::id_of;
pub(crate) use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, IntoId, Result};
pub(crate) use mongodb::Collection;
pub(crate) use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};
pub(crate) use serde::Serialize;
pub(crate) use serde::de::DeserializeOwned;

pub(crate) use crate::settings::Settings;

pub(crate) type Raw = Collection<RawDocumentBuf>;
