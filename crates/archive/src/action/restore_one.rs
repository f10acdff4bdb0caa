use std::future::IntoFuture;

#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{InvalidArgument, NotFound};
use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, Call, run};
use mongo_patterns_core::conn::ClientSession;
use mongo_patterns_core::through::Restores;

use crate::results::Restored;

type Body<'a> =
    Box<dyn FnOnce(Option<&'a mut ClientSession>, Vec<&'a dyn Restores>) -> ActionFuture<'a, Restored> + Send + 'a>;

mongo_patterns_core::action! {
    /// Restores a document; returned by [`Archive::restore`](crate::Archive::restore) and
    /// [`Trash::restore`](crate::Trash::restore).
    pub struct Restore<'a> {
        call: Call<'a>,
        body: Body<'a>,
        through: Vec<&'a dyn Restores>,
    }
    with session;
}

impl<'a> Restore<'a> {
    /// Creates the action of a call, by its body.
    pub(crate) fn new<F: Future<Output = Result<Restored>> + Send + 'a>(
        call: Call<'a>,
        body: impl FnOnce(Option<&'a mut ClientSession>, Vec<&'a dyn Restores>) -> F + Send + 'a,
    ) -> Self {
        let body: Body<'a> = Box::new(|session, through| Box::pin(body(session, through)));
        Self::create(call, body, Vec::new())
    }

    /// Lets another repository of the collection bring the document up to date, in the same transaction. Can be called
    /// several times.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Trash;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # async fn f(
    /// #     trash: Trash<Document>,
    /// #     orders: ReferenceRepository<Document, Document>,
    /// # ) -> mongo_patterns::Result<()> {
    /// trash.restore(7).through(&orders).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// References to other documents become current, and their sources exist. Otherwise the error is [`NotFound`], with
    /// nothing changed. A repository of another collection is [`InvalidArgument`]. Each repository documents its work and
    /// its cost on its `impl Restores`.
    // proof: together::restored::copies_are_current_after_a_restore, together::restored::a_source_that_is_gone_refuses_the_restore
    pub fn through(mut self, repository: &'a dyn Restores) -> Self {
        self.through.push(repository);
        self
    }
}

impl<'a> IntoFuture for Restore<'a> {
    type Output = Result<Restored>;
    type IntoFuture = ActionFuture<'a, Restored>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.call, (self.body)(self.session, self.through))
    }
}
