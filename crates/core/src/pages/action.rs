//! The call that reads a page.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::query::Query;
use super::results::DocumentPage;
use super::start::Tokens;
use super::token::DocumentToken;
use crate::conn::Conn;
use crate::error::Result;
use crate::value::stored::decode;

crate::action! {
    /// Reads a page of documents; returned by [`Pages::page`](super::Pages::page).
    pub struct ReadPage<'a, D> {
        shared: &'a Query,
        limit: u32,
        tokens: Tokens<DocumentToken>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;

    /// Sets the maximum number of documents; 100 by default.
    limit(documents: u32) => limit = documents;

    "page" => DocumentPage<D> where D: DeserializeOwned + 'a
}

impl<D> ReadPage<'_, D> {
    crate::token_setters!("documents" of DocumentToken);
}

impl<'a, D: DeserializeOwned> ReadPage<'a, D> {
    pub(super) fn new(shared: &'a Query) -> Self {
        Self {
            shared,
            limit: 100,
            tokens: Tokens::default(),
            types: PhantomData,
            session: None,
            max_time: shared.max_time,
        }
    }

    async fn execute(self) -> Result<DocumentPage<D>> {
        let mut conn = Conn::to_read(self.session, self.max_time).await?;
        let page = self.shared.read(&self.tokens.start()?, self.limit, &mut conn).await?;
        let text =
            "a stored document cannot be read as the type of the pages: change the type, or correct the document";
        let documents = page.documents.iter().map(|document| decode(document, "", text));
        Ok(DocumentPage::new(
            documents.collect::<Result<_>>()?,
            page.previous,
            page.next,
        ))
    }
}
