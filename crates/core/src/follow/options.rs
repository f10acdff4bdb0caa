//! What a follower is asked to do, and what it has done.

use std::time::Duration;

use mongodb::bson::Timestamp;
use serde::Serialize;

use super::until::Until;

/// A progress callback.
pub type OnFollowed<'a> = Box<dyn FnMut(Followed) + Send + 'a>;

/// What a follower has done since its call.
///
/// ```
/// use mongo_patterns::history::Followed;
///
/// // For a fake of a repository in tests.
/// let mut followed = Followed::default();
/// followed.changes = 3;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Followed {
    /// The number of changes that it has processed.
    pub changes: u64,
    /// The number of documents that it has written for these: revisions, parents, or documents whose copies were updated,
    /// once for each reference. Documents of a repair count in a history only.
    pub written: u64,
    /// The number of times that it has repaired everything: at the first start, and after lost changes.
    pub repaired: u64,
    /// The cluster time up to which all changes are processed. `time` is in seconds since 1970: its difference to the clock
    /// is the lag of the follower, within about a second. `None` until the follower has begun.
    pub up_to: Option<Timestamp>,
}

/// The options of a follower.
pub struct FollowOptions<'a> {
    /// The name under which it stores its position.
    pub name: String,
    /// Whether it enables pre-images.
    pub enable_pre_images: bool,
    /// Whether it repairs everything if changes may be missing.
    pub repair: bool,
    /// Whether it ends when it is current.
    pub run_until_current: bool,
    /// How long it retries.
    pub max_retry_time: Option<Duration>,
    /// When the caller ends it.
    pub until: Until<'a>,
    /// The progress callback.
    pub on_progress: Option<OnFollowed<'a>>,
}

crate::redacted_debug!(FollowOptions<'_>);

impl<'a> FollowOptions<'a> {
    /// Returns the default options of a follower of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            enable_pre_images: false,
            repair: true,
            run_until_current: false,
            max_retry_time: None,
            until: Until::never(),
            on_progress: None,
        }
    }
}

/// Defines the options that all followers have, for an action with a field `options`.
#[doc(hidden)]
#[macro_export]
macro_rules! follow_options {
    ($name:ident<$life:lifetime>) => {
        $crate::setters! {
            for $name<$life>:

            /// Ends the follower when a future is ready, such as a signal to shut down. It completes the current batch and
            /// stores its position first.
            until(end: impl ::std::future::Future<Output = ()> + Send + $life)
                => options.until = $crate::follow::Until::new(end);

            /// Ends the follower when it has processed all changes that were acknowledged before this call was awaited: for
            /// a periodic job, or a test.
            run_until_current() => options.run_until_current = true;

            /// Disables the automatic repair. At the first start the follower only processes later changes. When changes are
            /// lost it ends with `HistoryLost`. Use it if a scan of the collections takes too long, or to see the output of
            /// `verify()` first.
            disable_repair() => options.repair = false;

            /// Sets how long it retries after transient errors, such as an unreachable server. Unlimited by default, and 2
            /// minutes with [`run_until_current`](Self::run_until_current). The timeouts of the driver, such as
            /// `serverSelectionTimeoutMS`, come first.
            max_retry_time(time: ::std::time::Duration) => options.max_retry_time = Some(time);

            /// Sets a progress callback, which is called after each batch, and about once a second without changes.
            on_progress(call: impl FnMut($crate::follow::Followed) + Send + $life)
                => options.on_progress = Some(Box::new(call));
        }
    };
}
