use std::sync::Arc;

use mongo_patterns_core::batching::Queues;

use super::prelude::*;
use crate::write::batching::{self, BatchingWriter, List};
use crate::write::push::refuse_unique;

impl<D, E> OutlierRepository<D, E> {
    /// Creates a writer that sends the pushes of many tasks to one list in batches.
    ///
    /// Use it where tasks of one process push to the same lists concurrently. With 64 tasks on one list, it needs far
    /// less than one round trip for each push. A single push is the same commands as [`push`](Self::push).
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # async fn f(books: OutlierRepository<(), String>) -> Result<(), Box<dyn std::error::Error>> {
    /// let writer = books.batching_writer(); // one for the process, and a clone of it for each task
    /// let of_task = writer.clone();
    /// let task = tokio::spawn(async move { of_task.push(2, "user50").await });
    /// writer.push(2, "user51").await?; // may be sent in one command with the push of the task
    /// task.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn batching_writer(&self) -> BatchingWriter<E> {
        BatchingWriter {
            shared: self.share(),
            queues: Arc::default(),
            types: PhantomData,
        }
    }
}

impl<E> BatchingWriter<E> {
    /// Pushes an element to a list, as [`push`](OutlierRepository::push) does.
    ///
    /// Elements of one list are stored in the order in which their actions are first polled.
    ///
    /// When it returns, the element is stored once. After an error it is not stored, unless
    /// [`is_outcome_unknown`](Error::is_outcome_unknown) is true.
    ///
    /// An element that cannot be stored fails alone: the other elements of its batch are retried without it. When
    /// another error ends a batch, the callers whose elements are stored get no error.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let writer = books.batching_writer();
    /// // The same commands send both, in this order.
    /// let pushes = ["user50", "user51"].map(|user| writer.push(2, user).into_future());
    /// for pushed in futures::future::join_all(pushes).await {
    ///     pushed?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// The round trips of [`push_many`](OutlierRepository::push_many) for the elements of a batch: up to 1000, of up to
    /// 8 MiB together. An element that the server refuses costs up to 20 commands more.
    ///
    /// # Cancel safety
    /// After the first poll of its future, a task of the writer stores the element also when the future is dropped.
    /// Only its result is lost: a second call may store the element twice. The pushes of other callers are not
    /// affected.
    ///
    /// # Panics
    /// When it is awaited outside of a tokio runtime.
    ///
    /// # Errors
    /// Those of [`push`](OutlierRepository::push). [`Configuration`] where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements): call
    /// [`push_unique`](OutlierRepository::push_unique).
    pub fn push<Q>(&self, id: impl IntoId, element: &Q) -> BatchedPush<'_>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        BatchedPush::create(&self.shared, &self.queues, DocumentId::new(id), Encoded::one(element))
    }
}

action! {
    /// Pushes one element in a batch with those of other tasks; returned by [`BatchingWriter::push`].
    pub struct BatchedPush<'a> {
        shared: &'a Arc<Shared>,
        queues: &'a Arc<Queues<List>>,
        id: Result<DocumentId>,
        element: Result<Encoded>,
    }
    "batched push" => Pushed
}

impl BatchedPush<'_> {
    async fn execute(self) -> Result<Pushed> {
        refuse_unique(&self.shared.settings)?;
        let (id, element) = (self.id?.into_bson(), self.element?);
        batching::push(self.shared, self.queues, id, element).await
    }
}
