//! Concurrent work of a stream that stops while the caller has an item.

use futures::future::{Either, join_all, ready};
use futures::stream::iter;
use futures::{Stream, StreamExt};

use crate::error::Result;

/// Runs futures of a stream concurrently, in rounds of up to `concurrency`. All futures of a round are complete before
/// the first of its results is returned, in the order of the stream.
///
/// For futures that lock keys or run transactions. `buffered` would return a result while other futures hold a lock, and
/// would not poll them while the caller awaits another call. If that call needs the lock, it would never end.
pub(super) fn in_rounds<F, T>(
    futures: impl Stream<Item = Result<F>>,
    concurrency: usize,
) -> impl Stream<Item = Result<T>>
where
    F: Future<Output = Result<T>>,
{
    let rounds = futures.ready_chunks(concurrency.max(1)).then(|round| {
        join_all(round.into_iter().map(|future| match future {
            Ok(future) => Either::Left(future),
            Err(error) => Either::Right(ready(Err(error))),
        }))
    });
    rounds.map(iter).flatten()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt;
    use futures::channel::oneshot;

    use super::*;
    use crate::error::{Error, ErrorKind};

    #[test]
    fn no_future_is_pending_while_the_caller_has_a_result() {
        let under_way = Cell::new(0);
        let (mut replies, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let (reply, waits) = oneshot::channel::<()>();
            replies.push(reply);
            waiting.push(waits);
        }
        let futures = waiting.into_iter().zip(0..).map(|(waits, n)| {
            let under_way = &under_way;
            let one = async move {
                under_way.set(under_way.get() + 1);
                waits.await.unwrap();
                under_way.set(under_way.get() - 1);
                if n == 1 {
                    Err(Error::new(ErrorKind::Contention, "one"))
                } else {
                    Ok(n)
                }
            };
            if n == 2 {
                Err(Error::new(ErrorKind::Corrupt, "two"))
            } else {
                Ok(one)
            }
        });
        let mut stream = std::pin::pin!(in_rounds(iter(futures), 4));
        let mut next = || {
            stream
                .next()
                .now_or_never()
                .map(|next| next.map(|next| next.map_err(|e| e.kind())))
        };
        assert_eq!(next(), None, "no result before the whole round is complete");
        assert_eq!(under_way.get(), 3, "one of the four is an error");
        let mut replies = replies.into_iter();
        for reply in replies.by_ref().take(3) {
            let _ = reply.send(());
        }
        assert_eq!(next(), None);
        replies.next().unwrap().send(()).unwrap();
        for expected in [Ok(0), Err(ErrorKind::Contention), Err(ErrorKind::Corrupt), Ok(3)] {
            assert_eq!(next(), Some(Some(expected)));
            assert_eq!(under_way.get(), 0);
        }
        assert_eq!(next(), None);
        assert_eq!(under_way.get(), 2);
        for reply in replies {
            reply.send(()).unwrap();
        }
        assert_eq!(
            [next(), next(), next()],
            [Some(Some(Ok(4))), Some(Some(Ok(5))), Some(None)]
        );
    }
}
