//! The definition of actions.

/// Defines an action: the struct that a method of a repository returns.
///
/// ```text
/// action! {
///     /// Deletes old items of a key; returned by [`BucketRepository::delete_key_before`].
///     pub struct DeleteKeyBefore<'a, K> {
///         shared: &'a Shared,
///         key: Result<EncodedKey>,
///         before: DateTime,
///         limit: Option<u64>,
///         types: PhantomData<fn() -> K>,
///     }
///     with on_progress, dry_run;
///
///     /// Removes at most this number of items.
///     limit(items: u64) => limit = Some(items);
///
///     "delete_key_before" => DeletedItems where K: Key
/// }
/// ```
///
/// Expands to the struct, `#[must_use]`, a `Debug` without user values, and a private `create` that takes the fields. Each
/// option after `with` (`session`, `max_time`, `on_progress`, `dry_run`) is a field with its [setter](crate::setters). An
/// [`IntoFuture`] runs `Self::execute(self)` in the span of the operation. Without an operation there is none, for a struct
/// with a method that returns a stream.
///
/// A call with a session and no other option is a [`Read`](crate::action::Read) or a [`Write`](crate::action::Write).
#[doc(hidden)]
#[macro_export]
macro_rules! action {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident<$life:lifetime $(, $param:ident)*> {
            $($(#[$field_attribute:meta])* $field:ident: $type:ty,)*
        }
        with $($option:ident),+;
        $($rest:tt)*
    ) => {
        $crate::action! { @define [$(#[$attribute])*] [$name] [$life $(, $param)*]
            [$($(#[$field_attribute])* $field: $type,)*] [$($option)+] $($rest)* }
    };
    (
        $(#[$attribute:meta])*
        pub struct $name:ident<$life:lifetime $(, $param:ident)*> {
            $($(#[$field_attribute:meta])* $field:ident: $type:ty,)*
        }
        $($rest:tt)*
    ) => {
        $crate::action! { @define [$(#[$attribute])*] [$name] [$life $(, $param)*]
            [$($(#[$field_attribute])* $field: $type,)*] [] $($rest)* }
    };

    (@define [$($head:tt)*] [$name:ident] [$life:lifetime $(, $param:ident)*]
        [$($(#[$field_attribute:meta])* $field:ident: $type:ty,)*] [$($option:ident)*]
        $($(#[$of_setter:meta])* $setter:ident($($argument:ident: $of:ty)?) => $($set:ident).+ = $value:expr;)*
        $($operation:literal => $output:ty $(where $($bounds:tt)+)?)?
    ) => {
        $crate::action! { @struct [$($head)*] [$name] [$life $(, $param)*]
            [$($(#[$field_attribute])* $field: $type,)*] [$($option)*] }

        $crate::redacted_debug!($name<'_ $(, $param)*>);

        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            // Not for an action whose fields have defaults.
            #[allow(dead_code, clippy::too_many_arguments)]
            fn create($($field: $type),*) -> Self {
                Self { $($field,)* $($option: ::std::default::Default::default(),)* }
            }

            $crate::setters! {
                $($(#[$of_setter])* $setter($($argument: $of)?) => $($set).+ = $value;)*
            }
        }

        $crate::action! { @setters [$name] [$life $(, $param)*] [$($option)*] }

        $crate::action! { @future [$name] [$life $(, $param)*]
            $($operation => $output $(where $($bounds)+)?)? }
    };

    (@future [$name:ident] [$($generics:tt)*]) => {};
    (@future [$name:ident] [$life:lifetime $(, $param:ident)*]
        $operation:literal => $output:ty $(where $($bounds:tt)+)?
    ) => {
        impl<$life $(, $param)*> ::std::future::IntoFuture for $name<$life $(, $param)*>
        $(where $($bounds)+)?
        {
            type Output = $crate::Result<$output>;
            type IntoFuture = $crate::action::ActionFuture<$life, $output>;

            fn into_future(self) -> Self::IntoFuture {
                let call = self.shared.operation($operation);
                $crate::action::run(call, self.execute())
            }
        }
    };

    (@struct [$($head:tt)*] [$name:ident] [$($generics:tt)*] [$($fields:tt)*] []) => {
        $($head)*
        #[must_use = "it does nothing until it is awaited, or its stream is read"]
        pub struct $name<$($generics)*> { $($fields)* }
    };
    (@struct [$($head:tt)*] [$name:ident] [$life:lifetime $($params:tt)*] [$($fields:tt)*] [session $($rest:tt)*]) => {
        $crate::action! { @struct [$($head)*] [$name] [$life $($params)*]
            [$($fields)* session: ::std::option::Option<&$life mut $crate::conn::ClientSession>,] [$($rest)*] }
    };
    (@struct [$($head:tt)*] [$name:ident] [$life:lifetime $($params:tt)*] [$($fields:tt)*] [on_progress $($rest:tt)*]) => {
        $crate::action! { @struct [$($head)*] [$name] [$life $($params)*]
            [$($fields)* on_progress: ::std::option::Option<$crate::progress::OnProgress<$life>>,] [$($rest)*] }
    };

    (@struct [$($head:tt)*] [$name:ident] [$life:lifetime $($params:tt)*] [$($fields:tt)*] [max_time $($rest:tt)*]) => {
        $crate::action! { @struct [$($head)*] [$name] [$life $($params)*]
            [$($fields)* max_time: ::std::option::Option<::std::time::Duration>,] [$($rest)*] }
    };

    (@struct [$($head:tt)*] [$name:ident] [$life:lifetime $($params:tt)*] [$($fields:tt)*] [dry_run $($rest:tt)*]) => {
        $crate::action! { @struct [$($head)*] [$name] [$life $($params)*] [$($fields)* dry_run: bool,] [$($rest)*] }
    };

    (@setters [$name:ident] [$($generics:tt)*] []) => {};
    (@setters [$name:ident] [$life:lifetime $(, $param:ident)*] [session $($rest:tt)*]) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                /// Runs in a session of the caller, and in its transaction if one has started. `None` changes nothing.
                ///
                /// See [sessions and transactions](mongo_patterns_core::action#sessions-and-transactions).
                session(session: impl Into<Option<&$life mut $crate::conn::ClientSession>>) => session = session.into();
            }
        }
        $crate::action! { @setters [$name] [$life $(, $param)*] [$($rest)*] }
    };
    (@setters [$name:ident] [$life:lifetime $(, $param:ident)*] [max_time $($rest:tt)*]) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                /// Bounds the time of each command on the server (`maxTimeMS`), in place of the repository's bound.
                ///
                /// See [time limits](mongo_patterns_core::action#time-limits).
                max_time(time: ::std::time::Duration) => max_time = Some(time);
            }
        }
        $crate::action! { @setters [$name] [$life $(, $param)*] [$($rest)*] }
    };
    (@setters [$name:ident] [$life:lifetime $(, $param:ident)*] [on_progress $($rest:tt)*]) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                /// Sets a progress callback, which is called after each chunk.
                on_progress(call: impl FnMut($crate::Progress) + Send + $life) => on_progress = Some(Box::new(call));
            }
        }
        $crate::action! { @setters [$name] [$life $(, $param)*] [$($rest)*] }
    };
    (@setters [$name:ident] [$life:lifetime $(, $param:ident)*] [dry_run $($rest:tt)*]) => {
        impl<$life $(, $param)*> $name<$life $(, $param)*> {
            $crate::setters! {
                /// Returns what it would do, and writes nothing.
                dry_run() => dry_run = true;
            }
        }
        $crate::action! { @setters [$name] [$life $(, $param)*] [$($rest)*] }
    };
}
