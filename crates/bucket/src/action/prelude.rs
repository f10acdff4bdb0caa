//! What most calls use.

pub(super) use std::borrow::Borrow;
pub(super) use std::marker::PhantomData;
pub(super) use std::pin::Pin;

pub(super) use futures::Stream;
pub(super) use mongo_patterns_core::action::{ActionFuture, run};
pub(super) use mongo_patterns_core::array::Encoded;
#[allow(unused_imports)] // the links of the documentation use them
pub(super) use mongo_patterns_core::{ErrorKind::*, Repository};
pub(super) use mongo_patterns_core::{IntoId, Removed, Updated};

pub(super) use crate::prelude::*;
pub(super) use crate::repository::{BucketRepository, Shared};
