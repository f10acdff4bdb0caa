//! What reads a page of documents.

use std::marker::PhantomData;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;

use super::query::Query;
use super::token::DocumentToken;
use crate::conn::Conn;
use crate::error::Result;
use crate::list::{Asked, Page, PageSource};
use crate::value::stored::decode;

/// The documents of a query, as a type.
pub(super) struct Documents<'a, D> {
    pub(super) query: &'a Query,
    pub(super) types: PhantomData<fn() -> D>,
}

impl<D: DeserializeOwned> PageSource<D, DocumentToken> for Documents<'_, D> {
    fn read<'c>(
        &'c self,
        page: Asked<DocumentToken>,
        conn: &'c mut Conn<'_>,
    ) -> BoxFuture<'c, Result<Page<D, DocumentToken>>> {
        Box::pin(async move {
            let page = self.query.read(page, conn).await?;
            let text =
                "a stored document cannot be read as the type of the pages: change the type, or correct the document";
            page.try_map(|document| decode(&document, text))
        })
    }
}
